package edit

import (
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Table is a change of a table in a file.
type Table struct {
	Path   []string  // such as server, clients, ada
	Set    []Setting // in order; a missing table is added
	Remove bool      // remove the whole table, Set is ignored

	file notation
}

// Setting is the new value of a key, a value of JSON; nil removes the key.
type Setting struct {
	Key   string
	Value any
}

// Text returns text as the value of a setting, or nil for "", which removes the setting.
func Text(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// ApplyTable is [Apply] for a table.
func ApplyTable(name string, data []byte, t Table) (changed []byte, line int, err error) {
	file := notationOf(name)
	before, err := file.read(data)
	if err != nil {
		return nil, 0, err
	}
	t.file = file
	want, ok := t.applied(before)
	if !ok {
		return nil, 0, t.byHand()
	}
	same := func(after map[string]any) bool { return reflect.DeepEqual(pruned(after, t.Path), pruned(want, t.Path)) }
	change := file.setTable
	if t.Remove {
		change = file.removeTable
	}
	changed, err = file.rewrite(data, t.byHand(), same, func(text string) (string, error) {
		text, ok := change(text, &t)
		if !ok {
			return "", t.byHand()
		}
		return text, nil
	})
	if err != nil {
		return nil, 0, err
	}
	line = firstDifference(string(data), string(changed))
	if line > 0 && !t.Remove {
		line += lineOf(strings.Split(string(changed), "\n")[line-1:], t.Path[len(t.Path)-1])
	}
	return changed, line, nil
}

// Lines returns the text that states the table, for a person to add to the file called name.
func (t Table) Lines(name string) string {
	t.file = notationOf(name)
	return t.file.tableLines(&t)
}

func (t *Table) byHand() error {
	last := len(t.Path) - 1
	return byHand(strings.Join(t.Path[:last], "."), t.Path[last])
}

// applied returns the document after the change; ok is false if another kind of value is in the place of a table, or if
// the notation has no such value.
func (t *Table) applied(doc map[string]any) (out map[string]any, ok bool) {
	out = maps.Clone(doc)
	in := out
	for i, key := range t.Path {
		table, isTable := in[key].(map[string]any)
		if !isTable && in[key] != nil {
			return nil, false
		}
		if t.Remove && i == len(t.Path)-1 {
			delete(in, key)
			return out, true
		}
		table = maps.Clone(table)
		if table == nil {
			table = make(map[string]any)
		}
		in[key], in = table, table
	}
	for _, s := range t.Set {
		if s.Value == nil {
			delete(in, s.Key)
		} else if in[s.Key], ok = t.file.decoded(s.Value); !ok {
			return nil, false
		}
	}
	return out, true
}

// pruned returns doc without empty tables along path.
func pruned(doc map[string]any, path []string) map[string]any {
	out := maps.Clone(doc)
	if len(path) == 0 {
		return out
	}
	switch table := out[path[0]].(type) {
	case nil:
		delete(out, path[0])
	case map[string]any:
		below := pruned(table, path[1:])
		if out[path[0]] = below; len(below) == 0 {
			delete(out, path[0])
		}
	}
	return out
}

// stated returns the settings with a value.
func (t *Table) stated() []Setting {
	return slices.DeleteFunc(slices.Clone(t.Set), func(s Setting) bool { return s.Value == nil })
}

// inline writes the settings as members of an inline table.
func (n notation) inline(set []Setting) string {
	members := make([]string, len(set))
	for i, s := range set {
		members[i] = n.key(s.Key) + n.is + n.literal(s.Value)
	}
	return strings.Join(members, ", ")
}

// cutLines removes the lines of from to to.
func cutLines(text string, from, to int) string {
	return text[:lineStart(text, from)] + text[min(lineEnd(text, to)+1, len(text)):]
}

// cutMember removes text[from:to], a member of an inline table, with one adjacent comma.
func cutMember(text string, from, to int) string {
	rest := text[to:]
	if trimmed := strings.TrimLeft(rest, " \t"); strings.HasPrefix(trimmed, ",") {
		return text[:from] + strings.TrimLeft(trimmed[1:], " \t")
	}
	if head := strings.TrimRight(text[:from], " \t\n"); strings.HasSuffix(head, ",") {
		return head[:len(head)-1] + rest
	}
	return text[:from] + rest
}

// bracesEnd returns the offset after the brace or bracket that closes the one at at, or -1.
func bracesEnd(text string, at int) int {
	depth := 0
	for at < len(text) {
		switch text[at] {
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return at + 1
			}
		case '#':
			at = lineEnd(text, at) - 1
		case '"', '\'':
			if at = itemEnd(text, at) - 1; at < 0 {
				return -1
			}
		}
		at++
	}
	return -1
}

// replaced replaces the quoted or plain text of before at at by value.
func replaced(text string, at int, before, value string) (string, bool) {
	for _, old := range []string{`"` + before + `"`, "'" + before + "'", before} {
		if strings.HasPrefix(text[at:], old) {
			return text[:at] + value + text[at+len(old):], true
		}
	}
	return text, false
}

// valueOf returns the value of a key of the table in a document.
func (t *Table) valueOf(doc map[string]any, key string) (value any, ok bool) {
	for _, k := range t.Path {
		doc, _ = doc[k].(map[string]any)
	}
	value, ok = doc[key]
	return value, ok
}
