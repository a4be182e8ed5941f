package check

import (
	"encoding/json"
	"slices"

	"github.com/exthost/exthost/internal/rawjson"
	"github.com/exthost/exthost/tools"
)

// readOnly reports whether a tool says that it changes nothing.
func readOnly(e *tools.Entry) bool {
	return string(rawjson.Get(e.Annotations, "readOnlyHint")) == "true"
}

// mayCall reports whether a tool may be called with any arguments.
func (s *subject) mayCall(e *tools.Entry) bool {
	return readOnly(e) || slices.ContainsFunc(s.fixture.Calls, func(c *fixtureCall) bool { return c.Tool == e.Tool && !c.Cancel })
}

// shape is the part of an object's schema that is looked at.
type shape struct {
	Type       string                     `json:"type"`
	Properties map[string]json.RawMessage `json:"properties"`
	Required   []string                   `json:"required"`
}

func shapeOf(schema json.RawMessage) (s shape) {
	_ = json.Unmarshal(schema, &s) // one that is odd has no properties
	return s
}

// exampleOf is an object of what a schema gives as examples, defaults or only
// values of what it requires.
func exampleOf(schema json.RawMessage) (json.RawMessage, bool) {
	s := shapeOf(schema)
	object := json.RawMessage("{}")
	for _, name := range s.Required {
		var p struct {
			Examples, Enum []json.RawMessage
			Default, Const json.RawMessage
		}
		_ = json.Unmarshal(s.Properties[name], &p) // no examples then
		candidates := slices.Concat(p.Examples, []json.RawMessage{p.Default, p.Const}, p.Enum)
		i := slices.IndexFunc(candidates, func(v json.RawMessage) bool { return v != nil })
		if i < 0 {
			return nil, false
		}
		object = rawjson.Set(object, name, candidates[i])
	}
	return object, true
}

// freeProperty is a property of that type that takes any value of it.
func freeProperty(schema json.RawMessage, typ string) (name string) {
	s := shapeOf(schema)
	var names []string
	for name, raw := range s.Properties {
		p := members(string(raw))
		var t string
		if json.Unmarshal(p["type"], &t) != nil || t != typ {
			continue
		}
		if !slices.ContainsFunc([]string{"enum", "const", "pattern", "format", "maxLength", "maximum", "exclusiveMaximum", "multipleOf"}, func(k string) bool { return p[k] != nil }) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return names[0]
}
