package strict

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/tailscale/hujson"
)

// JSON reads one object; comments and trailing commas are allowed unless the rules say Plain. Only Depth, AtKeys and
// Plain of the rules apply.
func JSON(src *Source, rules Rules) (*Node, *Refusal) {
	rules = rules.resolved()
	if off := tooDeep(src.Text, rules.Depth); off >= 0 {
		return nil, &Refusal{src.Pos(off), fmt.Sprintf("more than %d levels of objects and arrays", rules.Depth), true}
	}
	v, err := hujson.Parse([]byte(src.Text))
	if err != nil {
		return nil, jsonRefusal(src, err)
	}
	if rules.Plain && !v.IsStandard() {
		return nil, &Refusal{src.Pos(beyondJSON(src.Text)), "JSON has neither comments nor trailing commas", false}
	}
	if _, ok := v.Value.(*hujson.Object); !ok {
		return nil, &Refusal{src.Pos(v.StartOffset), "the file is not a JSON object", false}
	}
	j := jsonReader{Source: src, atKeys: rules.AtKeys}
	return j.node(v), nil
}

// beyondJSON returns the offset of the first comment or trailing comma.
func beyondJSON(text string) int {
	syntax, ok := errors.AsType[*json.SyntaxError](json.Unmarshal([]byte(text), new(json.RawMessage)))
	if !ok {
		return 0 // cannot happen
	}
	return int(syntax.Offset) - 1
}

// jsonRefusal extracts the position from the parser's message.
func jsonRefusal(src *Source, err error) *Refusal {
	var line, column int
	message := strings.TrimPrefix(err.Error(), "hujson: ")
	if n, _ := fmt.Sscanf(message, "line %d, column %d:", &line, &column); n < 2 || line > len(src.starts) {
		return &Refusal{src.Pos(0), message, false}
	}
	_, message, _ = strings.Cut(message, ": ")
	return &Refusal{src.Pos(src.starts[line-1] + column - 1), message, false}
}

// jsonNesting matches brackets, and the strings and comments in which they do not count.
var jsonNesting = regexp.MustCompile(`(?s)"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/|[][{}]`)

// tooDeep returns the offset at which brackets exceed limit, or -1.
func tooDeep(text string, limit int) int {
	depth := 0
	for _, at := range jsonNesting.FindAllStringIndex(text, -1) {
		switch text[at[0]] {
		case '[', '{':
			if depth++; depth > limit {
				return at[0]
			}
		case ']', '}':
			depth--
		}
	}
	return -1
}

// jsonReader converts nodes of hujson.
type jsonReader struct {
	*Source
	atKeys bool
}

func (j *jsonReader) node(v hujson.Value) *Node {
	n := &Node{Pos: j.Pos(v.StartOffset), Text: j.Text[v.StartOffset:v.EndOffset]}
	switch t := v.Value.(type) {
	case *hujson.Object:
		n.Kind = Map
		for _, m := range t.Members {
			f := Field{
				Key:   m.Name.Value.(hujson.Literal).String(),
				Pos:   j.Pos(m.Name.StartOffset),
				Value: j.node(m.Value),
			}
			if j.atKeys {
				f.Value.Pos = f.Pos
			}
			n.Fields = append(n.Fields, f)
		}
	case *hujson.Array:
		n.Kind = List
		for _, item := range t.Elements {
			n.Items = append(n.Items, j.node(item))
		}
	case hujson.Literal:
		_ = json.Unmarshal(t, &n.Value) // the parser accepts only valid literals
		switch v := n.Value.(type) {
		case bool:
			n.Kind = Bool
		case float64:
			n.Kind = Float
			if i, err := strconv.ParseInt(n.Text, 10, 64); err == nil {
				n.Kind, n.Value = Int, i
			}
		case string:
			n.Kind, n.Text, n.Value = String, v, nil
		}
	}
	return n
}
