package clientsettings

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/exthost/exthost/internal/text"
)

// jsonText edits JSON with comments and trailing commas as a tree that keeps every byte.
type jsonText struct {
	client *Client
	tree   hujson.Value
	root   *hujson.Object
	lines  []byte // the text, to count lines

	newline string // line break
	unit    string // one level of indentation
	compact bool   // everything is on one line
}

func (c *Client) readJSON(body []byte) (*jsonText, error) {
	t := &jsonText{client: c, lines: body, newline: "\n", unit: "  "}
	if bytes.Contains(body, []byte("\r\n")) {
		t.newline = "\r\n"
	}
	if len(bytes.TrimSpace(body)) == 0 { // some clients create an empty file
		body = []byte("{}" + t.newline)
	}
	var err error
	if t.tree, err = parse(body); err != nil {
		return nil, invalidJSON(err)
	}
	root, ok := t.tree.Value.(*hujson.Object)
	if !ok {
		return nil, t.invalid(t.tree.StartOffset, "it is no JSON object")
	}
	t.root = root
	if len(root.Members) > 0 {
		_, indent, ok := lastLine(root.Members[0].Name.BeforeExtra)
		t.compact = !ok
		if ok && indent != "" {
			t.unit = indent
		}
	}
	return t, nil
}

// parse is [hujson.Parse], and accepts a final comment without a line break.
func parse(text []byte) (hujson.Value, error) {
	tree, err := hujson.Parse(text)
	if err == nil {
		return tree, nil
	}
	ended, failed := hujson.Parse(append(text[:len(text):len(text)], '\n'))
	if failed != nil {
		return tree, err
	}
	ended.AfterExtra = ended.AfterExtra[:len(ended.AfterExtra)-1]
	return ended, nil
}

// Standardize converts JSON with comments and trailing commas to plain JSON.
func Standardize(text []byte) ([]byte, error) {
	tree, err := parse(bytes.Clone(text))
	if err != nil {
		return nil, err
	}
	tree.Standardize()
	return tree.Pack(), nil
}

// invalidJSON extracts the position from a parser error.
func invalidJSON(err error) error {
	bad := &Invalid{Message: strings.TrimPrefix(err.Error(), "hujson: ")}
	var line, column int
	if n, _ := fmt.Sscanf(bad.Message, "line %d, column %d: ", &line, &column); n == 2 {
		_, rest, _ := strings.Cut(bad.Message, ": ")
		bad.Line, bad.Column, bad.Message = line, column, rest
	}
	return bad
}

func (t *jsonText) line(offset int) int {
	return bytes.Count(t.lines[:min(offset, len(t.lines))], []byte("\n")) + 1
}

func (t *jsonText) invalid(offset int, format string, args ...any) error {
	return &Invalid{t.line(offset), offset - bytes.LastIndexByte(t.lines[:offset], '\n'), fmt.Sprintf(format, args...)}
}

// find returns the index of a member, or -1. Duplicate names are an error, because clients disagree on which one
// counts.
func (t *jsonText) find(o *hujson.Object, name string) (int, error) {
	at := -1
	for i, m := range o.Members {
		if m.Name.Value.(hujson.Literal).String() != name {
			continue
		}
		if at >= 0 {
			return 0, t.twice(m.Name.StartOffset, name)
		}
		at = i
	}
	return at, nil
}

func (t *jsonText) twice(offset int, name string) error {
	return t.invalid(offset, "%q is there a second time", name)
}

// object returns the object in a member, or nil.
func (t *jsonText) object(o *hujson.Object, name string) (*hujson.Object, error) {
	at, err := t.find(o, name)
	if err != nil || at < 0 {
		return nil, err
	}
	value, ok := o.Members[at].Value.Value.(*hujson.Object)
	if !ok {
		return nil, t.invalid(o.Members[at].Value.StartOffset, "%q is no object", name)
	}
	return value, nil
}

func (t *jsonText) list() (servers []Server, err error) {
	table, err := t.object(t.root, t.client.Key)
	if err != nil || table == nil {
		return nil, err
	}
	seen := make(map[string]bool, len(table.Members))
	line, counted := 1, 0 // line number at offset counted
	for _, m := range table.Members {
		at := min(m.Name.StartOffset, len(t.lines))
		line, counted = line+bytes.Count(t.lines[counted:at], []byte("\n")), at
		s := Server{Name: m.Name.Value.(hujson.Literal).String(), Line: line}
		if seen[s.Name] {
			return nil, t.twice(m.Name.StartOffset, s.Name)
		}
		seen[s.Name] = true
		if _, ok := m.Value.Value.(*hujson.Object); ok {
			decoded, err := decodeJSON(m.Value.Pack())
			if err != nil {
				return nil, t.invalid(m.Value.StartOffset, "%v", err)
			}
			s.Argv = t.client.argv(decoded)
		}
		servers = append(servers, s)
	}
	return servers, nil
}

func (t *jsonText) put(name string, argv []string, env map[string]string) error {
	members := t.members(argv)
	table, err := t.object(t.root, t.client.Key)
	if err != nil {
		return err
	}
	if table != nil {
		server, err := t.object(table, name)
		if err != nil {
			return err
		}
		if server != nil {
			return t.set(server, members)
		}
	}
	if t.client.Kind != "" {
		members = append([][2]string{{"type", text.Literal(t.client.Kind)}}, members...)
	}
	if len(env) > 0 {
		members = append(members, [2]string{t.client.Env(), text.LiteralMap(env, ": ")})
	}
	server := func(indent string, flat bool) string { return t.braces(members, indent, flat) }
	if table == nil {
		return t.add(t.root, "", t.client.Key, func(indent string, flat bool) string {
			return t.braces([][2]string{{name, server(indent+t.unit, flat)}}, indent, flat)
		})
	}
	at, _ := t.find(t.root, t.client.Key)
	_, indent, _ := lastLine(t.root.Members[at].Name.BeforeExtra)
	return t.add(table, indent, name, server)
}

// members returns the members that hold a command line.
func (t *jsonText) members(argv []string) [][2]string {
	if t.client.Joined {
		return [][2]string{{"command", text.LiteralList(argv)}}
	}
	return [][2]string{{"command", text.Literal(argv[0])}, {"args", text.LiteralList(argv[1:])}}
}

// braces formats an object with these members, whose values are JSON: on one line if flat, else on lines of their
// own, below a line with this indentation.
func (t *jsonText) braces(members [][2]string, indent string, flat bool) string {
	begin, between, end, is := t.newline+indent+t.unit, ","+t.newline+indent+t.unit, t.newline+indent, ": "
	switch {
	case t.compact:
		begin, between, end, is = "", ",", "", ":"
	case flat:
		begin, between, end = " ", ", ", " "
	}
	var texts []string
	for _, m := range members {
		texts = append(texts, text.Literal(m[0])+is+m[1])
	}
	return "{" + begin + strings.Join(texts, between) + end + "}"
}

// add appends a member to an object whose first line has this indentation. value gets the indentation of the
// member's line, and whether to stay on that line.
func (t *jsonText) add(o *hujson.Object, indent, name string, value func(indent string, flat bool) string) error {
	before, end := t.newline+indent+t.unit, t.newline+indent
	if t.compact {
		before, end = "", ""
	}
	head, _, _ := lastLine(o.AfterExtra) // comments after the last member
	var last *hujson.ObjectMember
	if n := len(o.Members); n > 0 {
		last = &o.Members[n-1]
		before, end = string(space(last.Name.BeforeExtra)), string(space(o.AfterExtra))
	}
	_, own, lines := lastLine([]byte(before))
	if strings.Contains(lineOf(head), "//") && !lines {
		before = t.newline + before
	}
	parsed, err := hujson.Parse([]byte(value(own, !lines)))
	if err != nil {
		return err
	}
	m := hujson.ObjectMember{
		Name:  hujson.Value{BeforeExtra: append(head, before...), Value: hujson.String(name)},
		Value: parsed,
	}
	if !t.compact {
		m.Value.BeforeExtra = hujson.Extra(" ")
	}
	if last != nil && last.Value.AfterExtra != nil { // keep a trailing comma
		m.Value.AfterExtra = hujson.Extra{}
	}
	o.Members, o.AfterExtra = append(o.Members, m), hujson.Extra(end)
	return nil
}

// set replaces the values of existing members.
func (t *jsonText) set(o *hujson.Object, members [][2]string) error {
	for _, m := range members {
		at, err := t.find(o, m[0])
		if err != nil {
			return err
		}
		if at < 0 {
			return errors.New("the entry has no " + m[0])
		}
		parsed, err := hujson.Parse([]byte(m[1]))
		if err != nil {
			return err
		}
		o.Members[at].Value.Value = parsed.Value
	}
	return nil
}

func (t *jsonText) remove(name string, table bool) error {
	servers, err := t.object(t.root, t.client.Key)
	if err != nil || servers == nil {
		return err
	}
	at, err := t.find(servers, name)
	if err != nil || at < 0 {
		return err
	}
	t.cut(servers, at)
	if table && len(servers.Members) == 0 && len(bytes.TrimSpace(servers.AfterExtra)) == 0 {
		at, _ := t.find(t.root, t.client.Key)
		t.cut(t.root, at)
	}
	return nil
}

// cut removes a member and keeps the comments around it.
func (t *jsonText) cut(o *hujson.Object, at int) {
	m := o.Members[at]
	head, _, _ := lastLine(m.Name.BeforeExtra)
	left := append(head, bytes.TrimRight(m.Value.AfterExtra, " \t\r\n")...)
	rest := &o.AfterExtra
	last := at == len(o.Members)-1
	if !last {
		rest = &o.Members[at+1].Name.BeforeExtra
	} else if at > 0 {
		before := &o.Members[at-1].Value.AfterExtra
		if m.Value.AfterExtra == nil { // keep it without a trailing comma
			left = append(bytes.Clone(*before), left...)
			*before = nil
		} else if *before == nil {
			*before = hujson.Extra{}
		}
	}
	if strings.Contains(lineOf(left), "//") && !bytes.HasPrefix(bytes.TrimLeft(*rest, " \t\r"), []byte("\n")) {
		left = append(left, t.newline...)
	}
	*rest = append(left, *rest...)
	o.Members = append(o.Members[:at:at], o.Members[at+1:]...)
	if len(o.Members) == 0 && len(bytes.TrimSpace(o.AfterExtra)) == 0 {
		o.AfterExtra = nil
	}
}

func (t *jsonText) bytes() []byte { return t.tree.Pack() }

// lastLine splits extra into comments and the space after the last comment. indent is the space on the last line;
// ok reports whether the space contains a line break.
func lastLine(extra []byte) (head []byte, indent string, ok bool) {
	s := space(extra)
	at := bytes.LastIndexByte(s, '\n')
	return bytes.Clone(extra[:len(extra)-len(s)]), string(s[at+1:]), at >= 0
}

// space returns the trailing whitespace.
func space(extra []byte) []byte { return extra[len(bytes.TrimRight(extra, " \t\r\n")):] }

// lineOf returns the last line of text.
func lineOf(text []byte) string { return string(text[bytes.LastIndexByte(text, '\n')+1:]) }
