package strict

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/BurntSushi/toml"
)

// Rules bound a file of one kind. They hold before a parser sees the text, because
// a small text can make a parser use hundreds of megabytes: the memory of the TOML
// parser grows with the square of a key's depth.
type Rules struct {
	Depth    int  // of keys and arrays; default 64
	Parts    int  // of one dotted TOML key; default 16
	Values   int  // default 50,000
	KeyBytes int  // of all keys down to a value; default: no bound
	Work     int  // the parts of all keys, each times its depth; default: no bound
	AtKeys   bool // a value stands where its key does; default: where it begins
}

const (
	maxDepth = 64
	maxParts = 16
	maxNodes = 50_000
)

func (r Rules) resolved() Rules {
	or := func(n *int, otherwise int) {
		if *n == 0 {
			*n = otherwise
		}
	}
	or(&r.Depth, maxDepth)
	or(&r.Parts, maxParts)
	or(&r.Values, maxNodes)
	return r
}

// Refusal is why a text cannot be read.
type Refusal struct {
	Pos
	Message string
	Limit   bool // the text exceeds a limit of [Rules]; false: it is not of the format
}

// TOML reads one document. The parser knows the values and not their places,
// [locate] knows the places and not the values; TOML joins both.
func TOML(src *Source, rules Rules) (*Node, *Refusal) {
	root, bad := locate(src.text, rules)
	text := src.text
	if bad != nil && bad.limit {
		return nil, &Refusal{src.Pos(bad.offset), bad.message, true}
	} else if bad != nil { // the parser explains better, but may see no key beyond the ones located
		text = text[:cut(text, bad.offset)]
	}
	doc, err := parse(text)
	if parse := (toml.ParseError{}); errors.As(err, &parse) {
		// Some positions have the right line and the offset of a later one.
		return nil, &Refusal{src.onLine(parse.Position.Line, parse.Position.Start), parse.Message, false}
	} else if err != nil {
		return nil, &Refusal{src.Pos(0), err.Error(), false}
	} else if bad != nil {
		return nil, &Refusal{src.Pos(bad.offset), bad.message, false}
	}
	t := tomlReader{Source: src, atKeys: rules.AtKeys}
	return t.node(doc, root), nil
}

// cut returns where to end the text so that the parser fails where the locator
// did and sees little beyond it.
func cut(text string, offset int) int {
	rest := text[offset:]
	if i := strings.IndexByte(rest, '\n'); i >= 0 {
		rest = rest[:i+1]
	}
	return offset + len(strings.ToValidUTF8(rest[:min(len(rest), 128)], ""))
}

// parse turns a panic of the parser, which odd texts cause, into an error.
func parse(text string) (doc any, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the parser fails: %v", r)
		}
	}()
	_, err = toml.Decode(text, &doc)
	return doc, err
}

// tomlReader joins the parser's values with their places.
type tomlReader struct {
	*Source
	atKeys bool
}

func (t *tomlReader) node(v any, m *mark) *Node {
	n := &Node{Pos: t.Pos(m.start), Text: t.text[m.start:m.end]}
	switch v := v.(type) {
	case map[string]any:
		n.Kind = Map
		for _, key := range m.keys {
			value, ok := v[key.name]
			if !ok {
				continue
			}
			f := Field{Key: key.name, Pos: t.Pos(key.start), Value: t.node(value, m.fields[key.name])}
			if t.atKeys {
				f.Value.Pos = f.Pos
			}
			n.Fields = append(n.Fields, f)
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
		n.Kind, n.Value = Float, v
	case string:
		n.Kind, n.Text = String, v
	case time.Time: // as written: the parser has no better text for it
		n.Kind, n.Value = String, v
	}
	return n
}

// LocateTOML returns the offset of the value that keys lead to. The offset of a
// table is that of its brace, else of the first header or key that names it. ok is
// false when there is no such value and when data is not TOML.
func LocateTOML(data []byte, keys ...string) (offset int, ok bool) {
	m, bad := locate(string(data), Rules{})
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

// mark is where one TOML value is. Tables have fields, arrays items.
type mark struct {
	start, end int // offsets of the value, or of the first header that names a table
	fields     map[string]*mark
	keys       []markedKey
	items      []*mark
}

type markedKey struct {
	name  string
	start int
}

// field returns the mark of key in m, new when there is none.
func (m *mark) field(key markedKey, start int) *mark {
	if f := m.fields[key.name]; f != nil {
		return f
	}
	f := &mark{start: start, end: start}
	if m.fields == nil {
		m.fields = map[string]*mark{}
	}
	m.fields[key.name] = f
	m.keys = append(m.keys, key)
	return f
}

// descend follows keys down from m; of an array of tables it enters the last.
func (m *mark) descend(keys []markedKey, start int) *mark {
	for _, key := range keys {
		m = m.field(key, start)
		if len(m.items) > 0 {
			m = m.items[len(m.items)-1]
		}
	}
	return m
}

func (m *mark) add(start int) *mark {
	item := &mark{start: start, end: start}
	m.items = append(m.items, item)
	return item
}
