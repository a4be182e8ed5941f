package edit

import (
	"strings"

	"go.yaml.in/yaml/v3"
)

// linesYAML writes the keys of the path from depth on and the settings, indented.
func (t *Table) linesYAML(depth int, indent string) string {
	text := ""
	for _, key := range t.Path[depth:] {
		text += indent + t.quote(key) + ":\n"
		indent += "  "
	}
	for _, s := range t.stated() {
		text += indent + t.quote(s.Key) + ": " + t.quote(s.Value) + "\n"
	}
	if len(t.stated()) == 0 {
		text = strings.TrimSuffix(text, "\n") + " {}\n"
	}
	return text
}

// flowYAML writes them as a flow mapping.
func (t *Table) flowYAML(depth int) string {
	text := "{" + inline(t.stated(), ": ", t.quote, t.quote) + "}"
	for i := len(t.Path) - 1; i >= depth; i-- {
		if text = t.quote(t.Path[i]) + ": " + text; i > depth {
			text = "{" + text + "}"
		}
	}
	return text
}

// tableYAML locates a table in a document by the nodes along its path.
type tableYAML struct {
	place
	keys, values []*yaml.Node // the nodes of the path that exist
}

func (t *Table) findYAML(text string) (p *tableYAML, ok bool) {
	var doc yaml.Node
	if yaml.Unmarshal([]byte(text), &doc) != nil {
		return nil, false
	}
	p = &tableYAML{place: place{text: text}}
	if len(doc.Content) == 0 {
		return p, true
	}
	p.root = doc.Content[0]
	in := p.root
	for _, key := range t.Path {
		k, v := member(in, key)
		if k == nil {
			break
		}
		if v.Kind != yaml.MappingNode && !isNull(v) {
			return nil, false
		}
		p.keys, p.values, in = append(p.keys, k), append(p.values, v), v
	}
	return p, true
}

func setYAML(text string, t *Table) (string, bool) {
	p, ok := t.findYAML(text)
	if !ok {
		return "", false
	}
	depth := len(p.keys)
	if depth < len(t.Path) {
		return t.addYAML(p, depth)
	}
	for _, s := range t.Set {
		if text, ok = t.setKeyYAML(text, s); !ok {
			return "", false
		}
	}
	return text, true
}

// addYAML adds the table below the deepest part of its path that exists.
func (t *Table) addYAML(p *tableYAML, depth int) (string, bool) {
	text := p.text
	if depth == 0 {
		switch {
		case p.root == nil || isNull(p.root):
			return appended(text, t.linesYAML(0, "")), true
		case p.root.Kind != yaml.MappingNode:
			return "", false
		case isFlow(p.root):
			return intoFlow(text, p.offset(p.root), t.flowYAML(0), len(p.root.Content) > 0), true
		}
		return appended(text, t.linesYAML(0, "")), true
	}
	key, in := p.keys[depth-1], p.values[depth-1]
	switch {
	case isNull(in):
		return insertBelow(text, p.offset(key), strings.TrimSuffix(t.linesYAML(depth, indentOf(key)+"  "), "\n")), true
	case isFlow(in):
		return intoFlow(text, p.offset(in), t.flowYAML(depth), len(in.Content) > 0), true
	}
	return insertBelow(text, p.offset(key), strings.TrimSuffix(t.linesYAML(depth, indentOf(in.Content[0])), "\n")), true
}

// setKeyYAML changes one key of an existing table.
func (t *Table) setKeyYAML(text string, s Setting) (string, bool) {
	p, ok := t.findYAML(text)
	if !ok {
		return "", false
	}
	key, table := p.keys[len(p.keys)-1], p.values[len(p.values)-1]
	k, v := member(table, s.Key)
	line := t.quote(s.Key) + ": " + t.quote(s.Value)
	switch {
	case k == nil && s.Value == "":
		return text, true
	case k == nil && isNull(table):
		return insertBelow(text, p.offset(key), indentOf(key)+"  "+line), true
	case k == nil && isFlow(table):
		return intoFlow(text, p.offset(table), line, len(table.Content) > 0), true
	case k == nil:
		for _, other := range t.Set {
			if _, value := member(table, other.Key); value != nil && value.Kind == yaml.ScalarNode {
				return insertBelow(text, p.offset(value), indentOf(table.Content[0])+line), true
			}
		}
		return insertBelow(text, p.offset(key), indentOf(table.Content[0])+line), true
	case v.Kind != yaml.ScalarNode:
		return "", false
	case s.Value != "":
		return replaced(text, p.offset(v), v.Value, t.quote(s.Value))
	case isFlow(table):
		end, ok := replaced(text, p.offset(v), v.Value, "")
		return cutMember(end, p.offset(k), p.offset(v)), ok
	}
	return cutLine(text, p.offset(k)), true
}

func removeTableYAML(text string, t *Table) (string, bool) {
	p, ok := t.findYAML(text)
	last := len(t.Path) - 1
	if !ok || len(p.keys) <= last {
		return "", false
	}
	key, table := p.keys[last], p.values[last]
	around := p.root
	if last > 0 {
		around = p.values[last-1]
	}
	if isFlow(around) {
		if !isFlow(table) {
			return "", false
		}
		end := bracesEnd(text, p.offset(table))
		return cutMember(text, p.offset(key), max(end, 0)), end > 0
	}
	end := key
	if !isFlow(table) {
		for len(table.Content) > 0 {
			end = table.Content[len(table.Content)-1]
			table = end
		}
	} else if closing := bracesEnd(text, p.offset(table)); closing > 0 {
		return text[:lineStart(text, p.offset(key))] + text[min(lineEnd(text, closing)+1, len(text)):], true
	}
	return text[:lineStart(text, p.offset(key))] + text[min(lineEnd(text, p.offset(end))+1, len(text)):], true
}
