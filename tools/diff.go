package tools

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"github.com/exthost/exthost/protocol"
)

// Change is one difference between what an extension offered and what it offers.
// Its texts are cut to where they differ, and what a reader cannot see in them is
// escaped.
type Change struct {
	Tool     string // the extension's own name for it
	Field    string // the member of its descriptor, spelled MCP's way; "" when the tool itself came or went
	Old, New string // "" for what was not there, or is not any more
}

// Altered reports whether a tool that was there before is not what it was.
func (c Change) Altered() bool { return c.Field != "" }

// String says the change in a line.
func (c Change) String() string {
	tool := shown(cut(c.Tool, maxShown))
	switch {
	case c.Field == "" && c.Old == "":
		return fmt.Sprintf("tool %q is new", tool)
	case c.Field == "":
		return fmt.Sprintf("tool %q is gone", tool)
	case c.Old == "":
		return fmt.Sprintf("tool %q has a new %s: %s", tool, shown(c.Field), c.New)
	case c.New == "":
		return fmt.Sprintf("tool %q has no %s any more, which was %s", tool, shown(c.Field), c.Old)
	}
	return fmt.Sprintf("tool %q, %s: %s -> %s", tool, shown(c.Field), c.Old, c.New)
}

// What a diff holds at most.
const (
	maxChanges = 64
	maxShown   = 80 // characters of one text
	lead       = 20 // characters before the first difference
)

// Diff returns what of before is other in after, by tool and member, at most 64
// changes. The order of tools and members, white space and the spelling of
// input_schema do not count.
func Diff(before, after []protocol.Tool) (changes []Change) {
	old := make(map[string]json.RawMessage, len(before))
	for _, t := range before {
		old[t.Name] = t.Raw
	}
	for _, t := range sorted(after) {
		was, known := old[t.Name]
		delete(old, t.Name)
		switch {
		case len(changes) >= maxChanges:
			return changes[:maxChanges]
		case !known:
			changes = append(changes, Change{Tool: t.Name, New: t.Name})
		case !bytes.Equal(was, t.Raw):
			changes = append(changes, diffTool(t.Name, was, t.Raw)...)
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

func diffTool(name string, was, is json.RawMessage) (changes []Change) {
	before, after := canonical(was), canonical(is)
	for _, m := range after {
		i := slices.IndexFunc(before, func(b member) bool { return b.key == m.key })
		if i < 0 {
			_, now := around("", text(m.value))
			changes = append(changes, Change{Tool: name, Field: m.key, New: now})
			continue
		}
		if !sameJSON(before[i].value, m.value) {
			old, now := around(text(before[i].value), text(m.value))
			changes = append(changes, Change{Tool: name, Field: m.key, Old: old, New: now})
		}
		before = slices.Delete(before, i, i+1)
	}
	for _, m := range before {
		old, _ := around(text(m.value), "")
		changes = append(changes, Change{Tool: name, Field: m.key, Old: old})
	}
	return changes
}

// canonical returns the members of a descriptor under MCP's names, without those
// that say nothing; what is no object is one member.
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

// sameJSON reports whether two values are equal but for white space and the order
// of members.
func sameJSON(a, b json.RawMessage) bool {
	decode := func(raw json.RawMessage) (v any) {
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber()
		if d.Decode(&v) != nil {
			return string(raw)
		}
		return v
	}
	return bytes.Equal(a, b) || reflect.DeepEqual(decode(a), decode(b))
}

// text is a value as a person reads it.
func text(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return `"` + shown(s) + `"`
	}
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return shown(string(raw))
	}
	return shown(b.String())
}

// shown escapes what cannot be seen, or does something to a terminal.
func shown(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case unicode.IsPrint(r) && !invisible(r):
			b.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// around cuts two texts to where they begin to differ.
func around(a, b string) (string, string) {
	x, y := []rune(a), []rune(b)
	same := 0
	for same < min(len(x), len(y)) && x[same] == y[same] {
		same++
	}
	from := 0
	if same > 2*lead {
		from = same - lead
	}
	window := func(r []rune) string {
		if len(r) <= from {
			from = max(0, len(r)-lead)
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
