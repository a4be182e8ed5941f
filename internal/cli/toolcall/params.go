package toolcall

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
)

// Param is one argument of a tool, for people.
type Param struct {
	Name     string
	Kind     string // types or values: string|null, integer[], warm|cold
	Required bool
	Values   []string // all values of an enum or boolean, as users type them; else nil
}

func (p Param) String() string {
	if p.Required {
		return p.Name + ": " + p.Kind
	}
	return p.Name + "?: " + p.Kind
}

// Signature renders a tool with its arguments: say(text: string, loud?: boolean).
func Signature(tool string, params []Param) string {
	parts := make([]string, len(params))
	for i, p := range params {
		parts[i] = p.String()
	}
	return tool + "(" + strings.Join(parts, ", ") + ")"
}

// Params returns the properties of an input schema, in their order.
func Params(schema json.RawMessage) (params []Param) {
	var in struct{ Required []string }
	_ = json.Unmarshal(schema, &in) // an invalid schema requires nothing
	s := schemaOf{root: schema}
	for name, property := range rawjson.Members(rawjson.Get(schema, "properties")) {
		types, choices := s.types(property, 0), choicesOf(property)
		p := Param{
			Name:     name,
			Kind:     strings.Join(types, "|"),
			Required: slices.Contains(in.Required, name),
			Values:   choices,
		}
		if slices.Contains(types, "boolean") {
			p.Values = append(p.Values, "true", "false")
		}
		switch {
		case len(choices) > 0:
			p.Kind = strings.Join(choices, "|")
		case p.Kind == "array":
			p.Kind = strings.Join(s.types(rawjson.Get(s.arrayOf(property), "items"), 0), "|") + "[]"
		case p.Kind == "":
			p.Kind = "any"
		}
		params = append(params, p)
	}
	return params
}

// Complete returns the completions of word: the keys that the call does not have yet or, if word has a key, the values
// of that key.
func Complete(params []Param, word string, given []string) (all []string) {
	key, _, hasValue := strings.Cut(word, "=")
	for _, param := range params {
		switch {
		case hasValue && param.Name == key:
			for _, value := range param.Values {
				all = append(all, key+"="+value)
			}
		case !hasValue && !slices.ContainsFunc(given,
			func(g string) bool { return strings.HasPrefix(g, param.Name+"=") }):
			all = append(all, param.Name+"=")
		}
	}
	return all
}

// choicesOf returns the values of an enum, as users type them.
func choicesOf(property json.RawMessage) (choices []string) {
	var in struct{ Enum []json.RawMessage }
	_ = json.Unmarshal(property, &in) // an invalid property has no enum
	for _, value := range in.Enum {
		var text string
		if json.Unmarshal(value, &text) != nil {
			text = string(value)
		}
		choices = append(choices, text)
	}
	return choices
}

// DiffParams describes how arguments changed: +greeting?: string, -name.
func DiffParams(before, now []Param) (diff []string) {
	find := func(list []Param, name string) int {
		return slices.IndexFunc(list, func(p Param) bool { return p.Name == name })
	}
	for _, p := range now {
		switch i := find(before, p.Name); {
		case i < 0:
			diff = append(diff, "+"+p.String())
		case before[i].String() != p.String():
			diff = append(diff, before[i].String()+" → "+p.String())
		}
	}
	for _, p := range before {
		if find(now, p.Name) < 0 {
			diff = append(diff, "-"+p.Name)
		}
	}
	return diff
}

// Content returns the text of a result, or its structured content if there is no text. others describes the content
// that is not text.
func Content(result protocol.ToolResult) (text string, others []string) {
	var r struct {
		Content []struct{ Type, MimeType string } `json:"content"`
	}
	_ = json.Unmarshal(result, &r) // a result may have no content
	for _, c := range r.Content {
		if c.Type != "text" {
			others = append(others, strings.TrimSpace("content of type "+c.Type+" "+c.MimeType))
		}
	}
	if text = result.Text(); text == "" {
		text = string(result.Structured())
	}
	return text, others
}
