package clientsettings

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/exthost/exthost/internal/text"
	"github.com/exthost/exthost/internal/text/strict"
)

// tomlText edits a TOML text by the places of its statements.
type tomlText struct {
	client     *Client
	text       string
	doc        map[string]any
	root       *strict.Node
	statements []strict.Statement
}

func (c *Client) readTOML(body []byte) (*tomlText, error) {
	src := strict.NewSource("", body)
	root, bad := strict.TOML(src, strict.Rules{})
	if bad != nil {
		return nil, &Invalid{bad.Line, bad.Column, bad.Message}
	}
	t := &tomlText{client: c, text: src.Text, root: root, statements: strict.Statements(src)}
	return t, toml.Unmarshal(body, &t.doc)
}

func (t *tomlText) list() (servers []Server, err error) {
	located := t.root.At(t.client.Key)
	if located == nil {
		return nil, nil
	}
	table, _ := t.doc[t.client.Key].(map[string]any)
	for _, f := range located.Fields {
		s := Server{Name: f.Key, Line: f.Pos.Line}
		if decoded, ok := table[f.Key].(map[string]any); ok {
			s.Argv = t.client.argv(decoded)
		}
		servers = append(servers, s)
	}
	return servers, nil
}

func (t *tomlText) put(name string, argv []string, env map[string]string) error {
	path := []string{t.client.Key, name}
	if table, _ := t.doc[t.client.Key].(map[string]any); table[name] != nil {
		return t.set(path, map[string]string{"command": text.Literal(argv[0]), "args": text.LiteralList(argv[1:])})
	}
	for _, s := range t.statements { // readers disagree on whether a header may extend an inline table
		if len(s.Table) == 0 && slices.Equal(s.Key, path[:1]) {
			return errByHand
		}
	}
	newline := "\n"
	if strings.Contains(t.text, "\r\n") {
		newline = "\r\n"
	}
	lines := []string{
		fmt.Sprintf("[%s.%s]", t.client.Key, name),
		"command = " + text.Literal(argv[0]),
		"args = " + text.LiteralList(argv[1:]),
	}
	if len(env) > 0 {
		lines = append(lines, t.client.Env()+" = "+text.LiteralMap(env, " = "))
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
	values = maps.Clone(values)
	for _, s := range slices.Backward(t.statements) { // from the end, so that earlier offsets stay valid
		if s.Key == nil || !slices.Equal(s.Table, path) {
			continue
		}
		if value, ok := values[s.Key[0]]; ok {
			t.text = t.text[:s.Place.Start] + value + t.text[s.Place.End:]
			delete(values, s.Key[0])
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
	path := []string{t.client.Key, name}
	server, ok := strict.LocateTOML([]byte(t.text), path...)
	if !ok {
		return nil
	}
	for _, s := range slices.Backward(t.statements) {
		keys := slices.Concat(s.Table, s.Key)
		within := len(keys) >= len(path) && slices.Equal(keys[:len(path)], path)
		around := s.Place.Start <= server.Key && server.Key < s.Place.End // an inline table of servers
		if !within && !around {
			continue
		}
		before := t.text[:s.Start]
		if s.Key == nil { // a header takes the empty line above it along
			before = strings.TrimSuffix(before, "\n")
			before = strings.TrimSuffix(before, "\r")
			if !strings.HasSuffix(before, "\n") {
				before = t.text[:s.Start]
			}
		}
		t.text = before + t.text[s.End:]
	}
	return nil
}

func (t *tomlText) bytes() []byte { return []byte(t.text) }
