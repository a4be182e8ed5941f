package clientsettings

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/exthost/exthost/internal/text/literal"
	"github.com/exthost/exthost/internal/text/strict"
)

// tomlText edits a TOML text by the positions of its statements.
type tomlText struct {
	client *Client
	text   string
	doc    map[string]any
}

func (c *Client) readTOML(body []byte) (*tomlText, error) {
	src := strict.NewSource("", body)
	if _, bad := strict.TOML(src, strict.Rules{}); bad != nil {
		return nil, &Invalid{bad.Line, bad.Column, bad.Message}
	}
	t := &tomlText{client: c, text: src.Text}
	return t, toml.Unmarshal(body, &t.doc)
}

// statement is a table header, or a key with its value.
type statement struct {
	start, end int            // offsets of whole lines
	value      [2]int         // start and end of the value; zero for a header
	table      []string       // path of the enclosing table, or of this header
	key        []string       // path below table; nil for a header
	tree       map[string]any // decoded content; nil for a header
}

// statements splits a valid text into statements.
func statements(text string) (all []statement, err error) {
	var table []string
	data := []byte(text) // converted once, because a conversion per statement takes quadratic time
	for at := 0; at < len(text); {
		line := text[at : at+past(data[at:], "\n")]
		word := strings.TrimLeft(line, " \t\r\n")
		if word == "" || word[0] == '#' {
			at += len(line)
			continue
		}
		s := statement{start: at}
		if word[0] == '[' {
			s.end = at + len(line)
			if table, err = pathOf(line); err != nil {
				return nil, err
			}
		} else {
			s.value[0], s.value[1], s.end = valueSpan(data, at)
			if s.key, err = pathOf(text[s.start:s.value[0]] + "0"); err == nil {
				err = toml.Unmarshal([]byte(text[s.start:s.end]), &s.tree)
			}
			if err != nil {
				return nil, err
			}
		}
		s.table = table
		all = append(all, s)
		at = s.end
	}
	return all, nil
}

// pathOf returns the keys of a header, or of a line with one value.
func pathOf(line string) (path []string, err error) {
	var tree map[string]any
	if err := toml.Unmarshal([]byte(line), &tree); err != nil {
		return nil, err
	}
	for len(tree) == 1 {
		for key, below := range tree {
			path = append(path, key)
			tree, _ = below.(map[string]any)
		}
	}
	return path, nil
}

// valueSpan returns the start and end of the value of the key at start, and the start of the next line.
func valueSpan(text []byte, start int) (begin, end, next int) {
	depth := 0
	for at := start; at < len(text); {
		size := 1
		switch c := text[at]; {
		case c == '\n' && depth == 0:
			return begin, end, at + 1
		case c == '#':
			at += len(bytes.TrimRight(text[at:at+past(text[at:], "\n")], "\n"))
			continue
		case c == '=' && begin == 0:
			begin = len(text) - len(bytes.TrimLeft(text[at+1:], " \t"))
		case c == '"' || c == '\'':
			size = stringLength(text[at:])
		case c == '[' || c == '{':
			depth++
		case c == ']' || c == '}':
			depth--
		}
		if at += size; !strings.ContainsRune(" \t\r\n", rune(text[at-1])) {
			end = at
		}
	}
	return begin, end, len(text)
}

// of reports whether a statement belongs to the table at path.
func (s *statement) of(path []string) bool {
	shared := min(len(s.table), len(path))
	if !slices.Equal(s.table[:shared], path[:shared]) {
		return false
	}
	tree := s.tree
	for _, key := range path[shared:] {
		below, ok := tree[key]
		if !ok {
			return false
		}
		tree, _ = below.(map[string]any)
	}
	return true
}

func (t *tomlText) list() (servers []Server, err error) {
	all, err := statements(t.text)
	if err != nil {
		return nil, err
	}
	table, _ := t.doc[t.client.Key].(map[string]any)
	lines := t.firstLines(all)
	for name, v := range table {
		s := Server{Name: name, Line: max(lines[name], 1)}
		if decoded, ok := v.(map[string]any); ok {
			s.Argv = t.client.argv(decoded)
		}
		servers = append(servers, s)
	}
	slices.SortFunc(servers, func(a, b Server) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return strings.Compare(a.Name, b.Name)
	})
	return servers, nil
}

// firstLines returns the line of each server's first statement.
func (t *tomlText) firstLines(all []statement) map[string]int {
	lines := map[string]int{}
	line, counted := 1, 0 // line number at offset counted
	for _, s := range all {
		line, counted = line+strings.Count(t.text[counted:s.start], "\n"), s.start
		for _, name := range s.servers(t.client.Key) {
			if lines[name] == 0 {
				lines[name] = line
			}
		}
	}
	return lines
}

// servers returns the names of the servers in the table key that a statement belongs to.
func (s *statement) servers(key string) []string {
	if len(s.table) > 1 && s.table[0] == key {
		return s.table[1:2]
	}
	tree := s.tree
	switch {
	case len(s.table) == 0:
		tree, _ = s.tree[key].(map[string]any)
	case s.table[0] != key:
		return nil
	}
	return slices.Collect(maps.Keys(tree))
}

func (t *tomlText) put(name string, argv []string, env map[string]string) error {
	path := []string{t.client.Key, name}
	if table, _ := t.doc[t.client.Key].(map[string]any); table[name] != nil {
		return t.set(path, map[string]string{"command": literal.String(argv[0]), "args": literal.List(argv[1:])})
	}
	all, err := statements(t.text)
	if err != nil {
		return err
	}
	for _, s := range all { // readers disagree on whether a header may extend an inline table
		if len(s.table) == 0 && slices.Equal(s.key, path[:1]) {
			return errByHand
		}
	}
	newline := "\n"
	if strings.Contains(t.text, "\r\n") {
		newline = "\r\n"
	}
	lines := []string{
		fmt.Sprintf("[%s.%s]", t.client.Key, name),
		"command = " + literal.String(argv[0]),
		"args = " + literal.List(argv[1:]),
	}
	if len(env) > 0 {
		lines = append(lines, t.client.Env()+" = "+literal.Map(env, " = "))
	}
	if t.text != "" && !strings.HasSuffix(t.text, "\n") {
		t.text += newline
	}
	if strings.TrimSpace(t.text) != "" {
		t.text += newline
	}
	t.text += strings.Join(lines, newline) + newline
	return nil
}

// set replaces the values of keys in a table that has a header.
func (t *tomlText) set(path []string, values map[string]string) error {
	all, err := statements(t.text)
	if err != nil {
		return err
	}
	values = maps.Clone(values)
	for _, s := range slices.Backward(all) { // from the end, so that earlier offsets stay valid
		if !slices.Equal(s.table, path) {
			continue
		}
		for key, value := range values {
			if _, ok := s.tree[key]; ok {
				t.text = t.text[:s.value[0]] + value + t.text[s.value[1]:]
				delete(values, key)
			}
		}
	}
	if len(values) > 0 {
		return errByHand
	}
	return nil
}

// remove removes the statements of a server. The enclosing table needs no statement of its own, so an empty one
// vanishes.
func (t *tomlText) remove(name string, _ bool) error {
	all, err := statements(t.text)
	if err != nil {
		return err
	}
	for _, s := range slices.Backward(all) {
		if !s.of([]string{t.client.Key, name}) {
			continue
		}
		before := t.text[:s.start]
		if s.tree == nil { // a header takes the empty line above it along
			before = strings.TrimSuffix(before, "\n")
			before = strings.TrimSuffix(before, "\r")
			if !strings.HasSuffix(before, "\n") {
				before = t.text[:s.start]
			}
		}
		t.text = before + t.text[s.end:]
	}
	return nil
}

func (t *tomlText) bytes() []byte { return []byte(t.text) }
