package strict

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/BurntSushi/toml"
)

// Rules bound a file of one kind. They apply before the parser runs, because a small text can make it use hundreds
// of megabytes: its memory grows with the square of a key's depth.
type Rules struct {
	Depth    int  // nesting of keys and arrays; default 64
	Parts    int  // parts of one dotted TOML key; default 16
	Values   int  // default 50,000
	KeyBytes int  // total of all keys down to a value; default: unlimited
	Work     int  // parts of each key times its depth, summed; default: unlimited
	AtKeys   bool // the position of a value is that of its key; default: where it begins
	Plain    bool // JSON without comments and trailing commas
}

const (
	maxDepth = 64
	maxParts = 16
	maxNodes = 50_000
)

func (r Rules) resolved() Rules {
	r.Depth, r.Parts, r.Values = cmp.Or(r.Depth, maxDepth), cmp.Or(r.Parts, maxParts), cmp.Or(r.Values, maxNodes)
	return r
}

// Refusal says why a text cannot be read.
type Refusal struct {
	Pos
	Message string
	Limit   bool // a limit of [Rules] is exceeded; false: a syntax error
}

// TOML reads one document. The parser knows values without positions and the locator positions without values;
// TOML joins both.
func TOML(src *Source, rules Rules) (*Node, *Refusal) {
	root, stopped, bad := locate(src, rules, nil)
	if bad != nil && bad.Limit {
		return nil, bad
	}
	text := src.Text
	if bad != nil { // the parser's message is better, but it must not read beyond the located keys
		text = text[:cut(text, stopped)]
	}
	doc, err := parse(text)
	switch syntax, ok := errors.AsType[toml.ParseError](err); {
	case ok: // some positions of the parser have the right line, but the offset of a later line
		return nil, &Refusal{Pos: src.onLine(syntax.Position.Line, syntax.Position.Start), Message: syntax.Message}
	case err != nil:
		return nil, &Refusal{Pos: src.Pos(0), Message: err.Error()}
	case bad != nil:
		return nil, bad
	}
	root.fill(doc)
	return root, nil
}

// cut returns where to cut the text so that the parser fails where the locator did and reads little beyond.
func cut(text string, offset int) int {
	line, _, _ := strings.Cut(text[offset:], "\n")
	end := min(offset+len(line)+1, offset+128, len(text))
	return offset + len(strings.ToValidUTF8(text[offset:end], ""))
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

// fill sets the values of n and the nodes below it.
func (n *Node) fill(v any) {
	switch v := v.(type) {
	case map[string]any:
		n.Kind = Map
		for _, f := range n.Fields {
			f.Value.fill(v[f.Key])
		}
	case []map[string]any:
		n.Kind = List
		for i, item := range n.Items {
			item.fill(v[i])
		}
	case []any:
		n.Kind = List
		for i, item := range n.Items {
			item.fill(v[i])
		}
	case bool:
		n.Kind, n.Value = Bool, v
	case int64:
		n.Kind, n.Value = Int, v
	case float64:
		n.Kind, n.Value = Float, v
	case string:
		n.Kind, n.Text = String, v
	case time.Time: // as written: the parser has no better text
		n.Kind, n.Value = String, v
	}
}
