package edit

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// place is a YAML list with its surroundings.
type place struct {
	text             string
	root             *yaml.Node // nil if the document is empty
	sectionKey, keyK *yaml.Node // nil if missing
	section, list    *yaml.Node // their values
}

func findYAML(text, section, key string) (*place, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		return nil, err
	}
	p := &place{text: text}
	if len(doc.Content) == 0 {
		return p, nil
	}
	p.root = doc.Content[0]
	p.section = p.root
	for _, part := range strings.Split(section, ".") {
		p.sectionKey, p.section = member(p.section, part)
	}
	p.keyK, p.list = member(p.section, key)
	return p, nil
}

func member(n *yaml.Node, key string) (k, v *yaml.Node) {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil, nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i], n.Content[i+1]
		}
	}
	return nil, nil
}

// offset returns where a node begins in the text. yaml.v3 counts columns in characters, and lines by every line
// break of YAML 1.1.
func (p *place) offset(n *yaml.Node) int {
	at := 0
	for range n.Line - 1 {
		at += lineBreak.FindStringIndex(p.text[at:])[1]
	}
	for range n.Column - 1 {
		_, size := utf8.DecodeRuneInString(p.text[at:])
		at += size
	}
	return at
}

var lineBreak = regexp.MustCompile("\r\n|[\n\r\u0085\u2028\u2029]")

// addYAML adds an item. quote writes keys.
func addYAML(text, section, key, item string, quote func(string) string) (string, error) {
	p, err := findYAML(text, section, key)
	if err != nil {
		return "", err
	}
	fresh := quote(key) + ": [" + item + "]"
	switch {
	case p.sectionKey == nil && p.root != nil && isFlow(p.root):
		return intoFlow(text, p.offset(p.root), quote(section)+": {"+fresh+"}", len(p.root.Content) > 0), nil
	case p.sectionKey == nil:
		return appended(text, quote(section)+":\n  "+fresh+"\n"), nil
	case isNull(p.section):
		return insertBelow(text, p.offset(p.sectionKey), indentOf(p.sectionKey)+"  "+fresh), nil
	case p.section.Kind != yaml.MappingNode:
		return "", byHand(section, key)
	case p.keyK == nil && isFlow(p.section):
		return intoFlow(text, p.offset(p.section), fresh, len(p.section.Content) > 0), nil
	case p.keyK == nil:
		return insertBelow(text, p.offset(p.sectionKey), indentOf(p.section.Content[0])+fresh), nil
	case isNull(p.list):
		colon := p.offset(p.keyK) + strings.IndexByte(text[p.offset(p.keyK):], ':')
		return insert(text, colon+1, " ["+item+"]"), nil
	case p.list.Kind != yaml.SequenceNode:
		return "", byHand(section, key)
	case isFlow(p.list):
		f, simple := readFlow(text, p.offset(p.list))
		if !simple {
			return "", byHand(section, key)
		}
		return f.add(item), nil
	}
	last := p.list.Content[len(p.list.Content)-1]
	dash := p.dash(last)
	return insertBelow(text, p.offset(last), text[lineStart(text, dash):dash]+"- "+item), nil
}

func removeYAML(text, section, key, value string) (string, error) {
	p, err := findYAML(text, section, key)
	if err != nil {
		return "", err
	}
	if p.list == nil || p.list.Kind != yaml.SequenceNode {
		return "", byHand(section, key)
	}
	i := slices.IndexFunc(p.list.Content, func(n *yaml.Node) bool { return n.Value == value })
	if i < 0 {
		return "", byHand(section, key)
	}
	if isFlow(p.list) {
		f, simple := readFlow(text, p.offset(p.list))
		if !simple || len(f.items) != len(p.list.Content) {
			return "", byHand(section, key)
		}
		return f.remove(i), nil
	}
	at := p.offset(p.list.Content[i])
	start, end := lineStart(text, at), lineEnd(text, at)
	text = text[:start] + text[min(end+1, len(text)):]
	if len(p.list.Content) == 1 { // an empty block would be null, not a list
		colon := p.offset(p.keyK) + strings.IndexByte(text[p.offset(p.keyK):], ':')
		text = insert(text, colon+1, " []")
	}
	return text, nil
}

// dash returns the offset of the dash of an item in block style.
func (p *place) dash(item *yaml.Node) int {
	at := p.offset(item)
	return lineStart(p.text, at) + strings.LastIndexByte(p.text[lineStart(p.text, at):at], '-')
}

func isFlow(n *yaml.Node) bool { return n.Style&yaml.FlowStyle != 0 }

func isNull(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.Tag == "!!null" && n.Value == ""
}

func indentOf(key *yaml.Node) string { return strings.Repeat(" ", key.Column-1) }

// intoFlow inserts a member after the brace at at.
func intoFlow(text string, at int, member string, more bool) string {
	if more {
		member += ", "
	}
	return insert(text, at+1, member)
}

// scalar quotes a value if YAML would not read it as a string otherwise.
func scalar(value string) string {
	out, err := yaml.Marshal(value)
	if s := strings.TrimSuffix(string(out), "\n"); err == nil && !strings.ContainsAny(s, "\n,[]{}#") {
		return s
	}
	if strings.ContainsAny(value, "\n\r") { // single quotes would make it a blank
		return quoted(value)
	}
	return "'" + strings.ReplaceAll(value, "'", "''") + "'"
}

// linesYAML writes the keys of the path from depth on and the settings, indented.
func (t *Table) linesYAML(depth int, indent string) string {
	text := ""
	for _, key := range t.Path[depth:] {
		text += indent + t.file.key(key) + ":\n"
		indent += "  "
	}
	for _, s := range t.stated() {
		text += indent + t.file.inline([]Setting{s}) + "\n"
	}
	if len(t.stated()) == 0 {
		text = strings.TrimSuffix(text, "\n") + " {}\n"
	}
	return text
}

// flowYAML is linesYAML for a flow mapping.
func (t *Table) flowYAML(depth int) string {
	text := "{" + t.file.inline(t.stated()) + "}"
	for i := len(t.Path) - 1; i >= depth; i-- {
		if text = t.file.key(t.Path[i]) + ": " + text; i > depth {
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
	k, _ := member(table, s.Key)
	line := t.file.inline([]Setting{s})
	switch {
	case k == nil && s.Value == nil:
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
	}
	return t.replaceYAML(p, table, s)
}

// replaceYAML changes a key that the table has.
func (t *Table) replaceYAML(p *tableYAML, table *yaml.Node, s Setting) (string, bool) {
	text := p.text
	k, v := member(table, s.Key)
	end, ok := p.end(v)
	switch {
	case !ok:
		return "", false
	case s.Value == nil && isFlow(table):
		return cutMember(text, p.offset(k), end), true
	case s.Value == nil:
		return cutLines(text, p.offset(k), end), true
	case v.Kind != yaml.ScalarNode && !isFlow(v): // the lines below the key
		after, ok := p.end(k)
		return text[:after] + ": " + t.file.literal(s.Value) + text[end:], ok
	}
	return text[:p.offset(v)] + t.file.literal(s.Value) + text[end:], true
}

// end returns the offset after a value; ok is false for a value that is not changed automatically, such as an alias.
func (p *place) end(n *yaml.Node) (end int, ok bool) {
	at := p.offset(n)
	rest := p.text[at:]
	switch {
	case n.Kind == yaml.ScalarNode && (strings.HasPrefix(rest, `"`) || strings.HasPrefix(rest, "'")):
		end = itemEnd(p.text, at)
		for end > 0 && strings.HasPrefix(rest, "'") && strings.HasPrefix(p.text[end:], "'") { // '' is a quote
			end = itemEnd(p.text, end)
		}
		return end, end > 0
	case n.Kind == yaml.ScalarNode:
		return at + len(n.Value), strings.HasPrefix(rest, n.Value)
	case isFlow(n):
		end = bracesEnd(p.text, at)
		return end, end > 0
	case len(n.Content) == 0:
		return 0, false
	}
	return p.end(n.Content[len(n.Content)-1])
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
