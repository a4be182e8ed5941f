package tools

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
)

// Change is a difference between two lists of an extension's tools. Old and New are excerpts around the first
// difference, with invisible characters escaped.
type Change struct {
	Tool     string // the extension's own name of the tool
	Field    string // the descriptor's member in MCP's spelling; "" for an added or removed tool
	Old, New string // "" when added or removed
}

// Altered reports whether an existing tool changed.
func (c Change) Altered() bool { return c.Field != "" }

// Added reports whether the tool is new.
func (c Change) Added() bool { return c.Field == "" && c.Old == "" }

// String describes the change in one line.
func (c Change) String() string {
	tool := escaped(display.Cut(c.Tool, maxShown))
	switch {
	case c.Field == "" && c.Old == "":
		return fmt.Sprintf("tool %q is new", tool)
	case c.Field == "":
		return fmt.Sprintf("tool %q is gone", tool)
	case c.Old == "":
		return fmt.Sprintf("tool %q has a new %s: %s", tool, escaped(c.Field), c.New)
	case c.New == "":
		return fmt.Sprintf("tool %q has no %s any more, which was %s", tool, escaped(c.Field), c.Old)
	}
	return fmt.Sprintf("tool %q, %s: %s -> %s", tool, escaped(c.Field), c.Old, c.New)
}

// Bounds of a diff.
const (
	maxChanges = 64
	maxShown   = 80 // runes of one excerpt
	context    = 20 // runes before the first difference
)

// Diff returns the differences between two lists by tool and member, at most 64. It ignores the order of tools, of
// members and of what has no order in a schema, white space and the spelling of input_schema.
func Diff(before, after []protocol.Tool) (changes []Change) {
	old := make(map[string]json.RawMessage, len(before))
	for _, t := range before {
		old[t.Name] = t.Raw
	}
	for _, t := range sorted(after) {
		previous, known := old[t.Name]
		delete(old, t.Name)
		switch {
		case len(changes) >= maxChanges:
			return changes[:maxChanges]
		case !known:
			changes = append(changes, Change{Tool: t.Name, New: t.Name})
		case !bytes.Equal(previous, t.Raw):
			changes = append(changes, diffTool(t.Name, previous, t.Raw)...)
		}
	}
	for _, t := range sorted(before) {
		if _, gone := old[t.Name]; gone {
			changes = append(changes, Change{Tool: t.Name, Old: t.Name})
		}
	}
	return changes[:min(len(changes), maxChanges)]
}

func sorted(list []protocol.Tool) []protocol.Tool {
	return slices.SortedFunc(slices.Values(list), func(a, b protocol.Tool) int { return cmp.Compare(a.Name, b.Name) })
}

func diffTool(name string, previous, current json.RawMessage) (changes []Change) {
	before, after := canonical(previous), canonical(current)
	for _, m := range after {
		i := slices.IndexFunc(before, func(b member) bool { return b.key == m.key })
		if i < 0 {
			_, now := excerpts("", readable(m.value))
			changes = append(changes, Change{Tool: name, Field: m.key, New: now})
			continue
		}
		if !same(m.key)(before[i].value, m.value) {
			old, now := excerpts(readable(before[i].value), readable(m.value))
			changes = append(changes, Change{Tool: name, Field: m.key, Old: old, New: now})
		}
		before = slices.Delete(before, i, i+1)
	}
	for _, m := range before {
		old, _ := excerpts(readable(m.value), "")
		changes = append(changes, Change{Tool: name, Field: m.key, Old: old})
	}
	return changes
}

// same returns the comparison of a member.
func same(key string) func(a, b json.RawMessage) bool {
	if strings.HasSuffix(key, "Schema") {
		return rawjson.EqualSchemas
	}
	return rawjson.Equal
}

// canonical returns the members of a descriptor in MCP's spelling, without null ones. A descriptor that is not an
// object becomes one member.
func canonical(raw json.RawMessage) []member {
	ms, err := members(raw)
	if err != nil {
		return []member{{"descriptor", raw}}
	}
	for i := range ms {
		ms[i].key = canonicalKey(ms[i].key)
	}
	return slices.DeleteFunc(ms, func(m member) bool { return string(m.value) == "null" && optional[m.key] })
}

// readable returns a value for display.
func readable(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return `"` + escaped(s) + `"`
	}
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return escaped(string(raw))
	}
	return escaped(b.String())
}

// escaped escapes invisible characters and control characters of terminals.
func escaped(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case unicode.IsPrint(r) && !display.Invisible(r):
			b.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// excerpts returns the parts of two texts around their first difference.
func excerpts(a, b string) (string, string) {
	x, y := []rune(a), []rune(b)
	same := 0
	for same < min(len(x), len(y)) && x[same] == y[same] {
		same++
	}
	from := 0
	if same > 2*context {
		from = same - context
	}
	window := func(r []rune) string {
		if len(r) <= from {
			from = max(0, len(r)-context)
		}
		out := string(r[from:min(len(r), from+maxShown)])
		if from > 0 {
			out = "…" + out
		}
		if len(r) > from+maxShown {
			out += "…"
		}
		return out
	}
	return window(x), window(y)
}
