package check

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/tools"
)

// readOnly reports whether a tool changes nothing, by its annotations and the manifest.
func readOnly(e *tools.Entry) bool { return e.Risk == protocol.RiskRead }

// mayCall reports whether probes may call a tool with any arguments.
func (s *subject) mayCall(e *tools.Entry) bool {
	return readOnly(e) || slices.ContainsFunc(s.fixture.Calls,
		func(c *fixtureCall) bool { return c.Tool == e.Tool && !c.Cancel })
}

// shape is the part of a schema that probes use.
type shape struct {
	Type       string                     `json:"type"`
	Properties map[string]json.RawMessage `json:"properties"`
	Required   []string                   `json:"required"`
}

func shapeOf(schema json.RawMessage) (s shape) {
	_ = json.Unmarshal(schema, &s) // invalid: no properties
	return s
}

// exampleOf returns an object of the required properties, with values from their examples,
// defaults, const or enum.
func exampleOf(schema json.RawMessage) (json.RawMessage, bool) {
	s := shapeOf(schema)
	object := json.RawMessage("{}")
	for _, name := range s.Required {
		var p struct {
			Examples, Enum []json.RawMessage
			Default, Const json.RawMessage
		}
		_ = json.Unmarshal(s.Properties[name], &p) // invalid: no examples
		candidates := slices.Concat(p.Examples, []json.RawMessage{p.Default, p.Const}, p.Enum)
		i := slices.IndexFunc(candidates, func(v json.RawMessage) bool { return v != nil })
		if i < 0 {
			return nil, false
		}
		object = rawjson.Set(object, name, candidates[i])
	}
	return object, true
}

// freeProperty returns a property that accepts every value of type typ; "" if there is none.
func freeProperty(schema json.RawMessage, typ string) (name string) {
	s := shapeOf(schema)
	var names []string
	for name, raw := range s.Properties {
		p := maps.Collect(rawjson.Members(raw))
		var t string
		if json.Unmarshal(p["type"], &t) != nil || t != typ {
			continue
		}
		if !slices.ContainsFunc([]string{
			"enum",
			"const",
			"pattern",
			"format",
			"maxLength",
			"maximum",
			"exclusiveMaximum",
			"multipleOf",
		}, func(k string) bool { return p[k] != nil }) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return names[0]
}
