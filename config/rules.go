package config

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
)

// Rules returns the policies and hooks of c as lines, in order: one for each setting of a policy, list element and
// hook. Secrets are masked as by [Config.Redacted]. The lines do not depend on the format or layout of the files.
func (c *Config) Rules() (lines []string) {
	stated := c.Redacted()
	for _, p := range elements(stated["plugins"]) {
		policy, _ := p.(map[string]any)
		name, _ := policy["name"].(string)
		delete(policy, "name")
		lines = flatten(lines, "policy "+name+": ", policy)
	}
	for _, h := range elements(stated["hooks"]) {
		hook, _ := h.(map[string]any)
		event, _ := hook["event"].(string)
		delete(hook, "event")
		lines = append(lines, "hook "+event+": "+compact(hook))
	}
	return lines
}

func elements(value any) []any {
	list, _ := value.([]any)
	return list
}

// flatten appends a line for each member of an object, and for each element of its lists.
func flatten(lines []string, prefix string, object map[string]any) []string {
	for _, key := range slices.Sorted(maps.Keys(object)) {
		switch value := object[key].(type) {
		case map[string]any:
			lines = flatten(lines, prefix+key+".", value)
		case []any:
			for _, element := range value {
				lines = append(lines, prefix+key+": "+compact(element))
			}
		default:
			lines = append(lines, prefix+key+": "+compact(value))
		}
	}
	return lines
}

func compact(value any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return "a value that cannot be shown: " + err.Error()
	}
	return string(bytes.TrimSpace(b.Bytes()))
}

// maxCompared bounds the lines that [DiffRules] compares pairwise.
const maxCompared = 1000

// DiffRules compares the lines of [Config.Rules]: "- " marks lines only in before, "+ " lines only in after. A moved
// line has one of each.
func DiffRules(before, after []string) (diff []string) {
	before, after = withoutCommonEnds(before, after)
	if len(before)*len(after) > maxCompared*maxCompared { // too many: report everything between as changed
		for _, line := range before {
			diff = append(diff, "- "+line)
		}
		before = nil
	}
	common := commonLengths(before, after)
	for i, j := 0, 0; i < len(before) || j < len(after); {
		switch {
		case i < len(before) && j < len(after) && before[i] == after[j]:
			i, j = i+1, j+1
		case i < len(before) && (j == len(after) || common[i+1][j] >= common[i][j+1]):
			diff = append(diff, "- "+before[i])
			i++
		default:
			diff = append(diff, "+ "+after[j])
			j++
		}
	}
	return diff
}

func withoutCommonEnds(a, b []string) ([]string, []string) {
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return a, b
}

// commonLengths returns the length of the longest common subsequence of a[i:] and b[j:] for every i and j.
func commonLengths(a, b []string) [][]int {
	common := make([][]int, len(a)+1)
	for i := range common {
		common[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if common[i][j] = max(common[i+1][j], common[i][j+1]); a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			}
		}
	}
	return common
}
