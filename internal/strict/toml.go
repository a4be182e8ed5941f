package strict

import (
	"errors"
	"strings"
	"time"

	"github.com/BurntSushi/toml"
)

// TOML reads one document. It returns nil after a syntax error.
//
// The parser has the values and no places, [locate] has the places and no
// values; the tree is made of both.
func TOML(file string, data []byte, r *Report) *Node {
	src := newSource(file, data, r)
	if src == nil {
		return nil
	}
	root, bad := locate(src.data)
	if bad != nil && bad.guard {
		r.Add(src.pos(bad.offset), "", "%s", bad.message)
		return nil
	}
	text := string(src.data)
	if bad != nil { // what is located is safe to parse, and the parser explains better
		if end := strings.IndexByte(text[bad.offset:], '\n'); end >= 0 {
			text = text[:bad.offset+end]
		}
	}
	var doc map[string]any
	if _, err := toml.Decode(text, &doc); err != nil {
		r.Add(tomlErrorPos(src, err), "", "not valid TOML: %s", tomlMessage(err))
		return nil
	}
	if bad != nil {
		r.Add(src.pos(bad.offset), "", "not valid TOML: %s", bad.message)
		return nil
	}
	t := tomlReader{source: src, report: r}
	return t.node(doc, root)
}

func tomlErrorPos(src *source, err error) Pos {
	var parse toml.ParseError
	if !errors.As(err, &parse) {
		return Pos{File: src.file}
	}
	pos := src.pos(parse.Position.Start)
	if pos.Line != parse.Position.Line { // some errors have a line and no offset
		pos = Pos{File: src.file, Line: parse.Position.Line, Column: parse.Position.Col}
	}
	return pos
}

func tomlMessage(err error) string {
	var parse toml.ParseError
	if errors.As(err, &parse) && parse.Message != "" {
		return parse.Message
	}
	return strings.TrimPrefix(err.Error(), "toml: ")
}

// tomlReader joins the parser's values with their places.
type tomlReader struct {
	*source
	report *Report
}

func (t *tomlReader) node(v any, m *mark) *Node {
	n := &Node{Pos: t.pos(m.start), Text: string(t.data[m.start:m.end])}
	switch v := v.(type) {
	case map[string]any:
		n.Kind = Map
		for _, key := range m.keys {
			if value, ok := v[key.name]; ok {
				n.Fields = append(n.Fields, Field{Key: key.name,
					Pos: t.pos(key.start), Value: t.node(value, m.fields[key.name])})
			}
		}
	case []map[string]any:
		n.Kind = List
		for i, item := range v {
			n.Items = append(n.Items, t.node(item, m.items[i]))
		}
	case []any:
		n.Kind = List
		for i, item := range v {
			n.Items = append(n.Items, t.node(item, m.items[i]))
		}
	case bool:
		n.Kind, n.Value = Bool, v
	case int64:
		n.Kind, n.Value = Int, v
	case float64:
		n.Kind = Float
		n.setFloat(v, t.report)
	case string:
		n.Kind, n.Text = String, v
	case time.Time: // as written; the parser has no better text for it
		n.Kind = String
	}
	return n
}

// LocateTOML returns the offset of the value that keys lead to. For a table it is
// that of its brace, else of the first header or key that names it. false means that
// there is none, or that data is not TOML.
func LocateTOML(data []byte, keys ...string) (offset int, ok bool) {
	m, bad := locate(data)
	if bad != nil {
		return 0, false
	}
	for _, key := range keys {
		if m = m.fields[key]; m == nil {
			return 0, false
		}
	}
	return m.start, true
}
