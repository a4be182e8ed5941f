// Package toolcall parses the arguments of a tool call from command-line words, and describes tools' arguments and
// results for people.
package toolcall

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/text/rawjson"
)

// Arguments sets key=value and key:=JSON pairs in arguments. The tool's schema decides the type of a value, so that
// count=3 is a number and id=007 stays a string; for a list, the value is appended.
func Arguments(arguments json.RawMessage, pairs []string, tool string, schema json.RawMessage,
) (json.RawMessage, error) {
	s := schemaOf{root: schema}
	for _, pair := range pairs {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || strings.TrimSuffix(key, ":") == "" {
			return nil, console.Usagef("exthost tools schema "+tool, "%q is not key=value", pair)
		}
		raw := json.RawMessage(value)
		if literal, isJSON := strings.CutSuffix(key, ":"); isJSON {
			key = literal
			if !json.Valid(raw) {
				return nil, console.Usagef("exthost call "+tool+" '"+key+":=\"text\"', quotes are part of JSON",
					"%s is not JSON: %s", key, value)
			}
		} else {
			raw = s.read(rawjson.Get(rawjson.Get(s.root, "properties"), key), value, rawjson.Get(arguments, key))
		}
		arguments = rawjson.Set(arguments, key, raw)
	}
	return arguments, nil
}

// read converts value to a type that schema allows. A value that is JSON of an allowed type is used as it is. If only a
// list is allowed, read appends value to before, the list so far. Otherwise value becomes a string.
func (s *schemaOf) read(schema json.RawMessage, value string, before json.RawMessage) json.RawMessage {
	types := s.types(schema, 0)
	spelled := jsonType(value)
	switch {
	case slices.Contains(types, "string"):
	case slices.Contains(types, spelled), spelled == "integer" && slices.Contains(types, "number"),
		spelled == "number" && slices.Contains(types, "integer"):
		return json.RawMessage(value)
	case slices.Contains(types, "array"):
		element := s.read(rawjson.Get(s.arrayOf(schema), "items"), value, nil)
		if jsonType(string(before)) != "array" {
			return slices.Concat([]byte("["), element, []byte("]"))
		}
		list := strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(string(before)), "]"))
		if list != "[" {
			list += ","
		}
		return json.RawMessage(list + string(element) + "]")
	}
	text, _ := json.Marshal(value) // a string always encodes
	return text
}

// jsonType returns the JSON Schema type of text; "" if text is not JSON.
func jsonType(text string) string {
	var v any
	if json.Unmarshal([]byte(text), &v) != nil {
		return ""
	}
	switch v.(type) {
	case float64:
		if strings.ContainsAny(text, ".eE") {
			return "number"
		}
		return "integer"
	case string:
		return "string"
	case bool:
		return "boolean"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	}
	return "null"
}

// schemaOf reads the types in the input schema of a tool.
type schemaOf struct{ root json.RawMessage }

// maxNesting is how deep references and alternatives are followed.
const maxNesting = 8

// types returns the types that a schema allows, as far as the schema states them at its top level, in its alternatives,
// or behind a local reference.
func (s *schemaOf) types(schema json.RawMessage, depth int) (types []string) {
	var in struct {
		Type         json.RawMessage   `json:"type"`
		Enum         []json.RawMessage `json:"enum"`
		Const        json.RawMessage   `json:"const"`
		AnyOf, OneOf []json.RawMessage
		Ref          string `json:"$ref"`
	}
	if depth > maxNesting || json.Unmarshal(schema, &in) != nil {
		return nil
	}
	var one string
	var several []string
	if json.Unmarshal(in.Type, &one) == nil && one != "" {
		return []string{one}
	}
	if json.Unmarshal(in.Type, &several) == nil && len(several) > 0 {
		return several
	}
	for _, v := range append(in.Enum, in.Const) {
		if len(v) > 0 {
			types = append(types, jsonType(string(v)))
		}
	}
	for _, alternative := range slices.Concat(in.AnyOf, in.OneOf) {
		types = append(types, s.types(alternative, depth+1)...)
	}
	if in.Ref != "" {
		types = append(types, s.types(s.resolve(in.Ref), depth+1)...)
	}
	return types
}

// arrayOf returns the alternative that describes a list, or the schema itself if there is none.
func (s *schemaOf) arrayOf(schema json.RawMessage) json.RawMessage {
	var in struct{ AnyOf, OneOf []json.RawMessage }
	_ = json.Unmarshal(schema, &in) // an invalid schema has no alternatives
	for _, alternative := range slices.Concat(in.AnyOf, in.OneOf) {
		if slices.Contains(s.types(alternative, 0), "array") {
			return alternative
		}
	}
	return schema
}

// resolve resolves a local reference such as #/$defs/Name.
func (s *schemaOf) resolve(ref string) json.RawMessage {
	path, local := strings.CutPrefix(ref, "#/")
	if !local {
		return nil
	}
	at := s.root
	for key := range strings.SplitSeq(path, "/") {
		at = rawjson.Get(at, key)
	}
	return at
}
