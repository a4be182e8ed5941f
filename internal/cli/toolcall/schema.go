package toolcall

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/rawjson"
)

// schemaOf reads the types in the input schema of a tool.
type schemaOf struct{ root json.RawMessage }

// maxNesting bounds how far references and alternatives are followed.
const maxNesting = 8

// types are the types that a schema allows, as far as it states them at its top, behind
// a local reference or in its alternatives.
func (s *schemaOf) types(schema json.RawMessage, depth int) (types []string) {
	var in struct {
		Type         any               `json:"type"`
		Enum         []json.RawMessage `json:"enum"`
		Const        json.RawMessage   `json:"const"`
		AnyOf, OneOf []json.RawMessage
		Ref          string `json:"$ref"`
	}
	if depth > maxNesting || json.Unmarshal(schema, &in) != nil {
		return nil
	}
	switch given := in.Type.(type) {
	case string:
		types = append(types, given)
	case []any:
		for _, v := range given {
			if name, ok := v.(string); ok {
				types = append(types, name)
			}
		}
	}
	if len(types) > 0 {
		return types
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

// arrayOf is the schema, or the alternative in it, that describes a list.
func (s *schemaOf) arrayOf(schema json.RawMessage) json.RawMessage {
	var in struct{ AnyOf, OneOf []json.RawMessage }
	_ = json.Unmarshal(schema, &in) // a schema that cannot be read has no alternatives
	for _, alternative := range slices.Concat(in.AnyOf, in.OneOf) {
		if slices.Contains(s.types(alternative, 0), "array") {
			return alternative
		}
	}
	return schema
}

// resolve finds #/$defs/Name and other local references.
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
