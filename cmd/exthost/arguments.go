package main

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/rawjson"
)

// withPairs lays key=value and key:=JSON pairs over arguments. A value is read as
// the tool's schema types it, so that count=3 is a number and id=007 stays a
// string; for a list it is the next element.
func withPairs(arguments json.RawMessage, pairs []string, tool string, schema json.RawMessage) (json.RawMessage, error) {
	t := typer{root: schema}
	for _, pair := range pairs {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || strings.TrimSuffix(key, ":") == "" {
			return nil, usagef("exthost tools schema "+tool, "%q is not key=value", pair)
		}
		raw := json.RawMessage(value)
		if literal, isJSON := strings.CutSuffix(key, ":"); isJSON {
			key = literal
			if !json.Valid(raw) {
				return nil, usagef("exthost call "+tool+" '"+key+":=\"text\"', quotes are part of JSON", "%s is not JSON: %s", key, value)
			}
		} else {
			raw = t.read(rawjson.Get(rawjson.Get(t.root, "properties"), key), value, rawjson.Get(arguments, key))
		}
		arguments = rawjson.Set(arguments, key, raw)
	}
	return arguments, nil
}

// typer reads words as the types of a JSON Schema.
type typer struct{ root json.RawMessage }

// read returns value as the schema wants it: JSON where that spells a type it
// allows, the next element of before where only a list is allowed, else a string.
func (t *typer) read(schema json.RawMessage, value string, before json.RawMessage) json.RawMessage {
	types := t.types(schema, 0)
	spelled := jsonType(value)
	switch {
	case slices.Contains(types, "string"):
	case slices.Contains(types, spelled), spelled == "integer" && slices.Contains(types, "number"), spelled == "number" && slices.Contains(types, "integer"):
		return json.RawMessage(value)
	case slices.Contains(types, "array"):
		element := t.read(rawjson.Get(t.arrayOf(schema), "items"), value, nil)
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

// maxNesting bounds how far references and alternatives are followed.
const maxNesting = 8

// types are those that the schema allows, as far as it says so at its top, behind
// a local reference or in its alternatives.
func (t *typer) types(schema json.RawMessage, depth int) (types []string) {
	var s struct {
		Type         any               `json:"type"`
		Enum         []json.RawMessage `json:"enum"`
		Const        json.RawMessage   `json:"const"`
		AnyOf, OneOf []json.RawMessage
		Ref          string `json:"$ref"`
	}
	if depth > maxNesting || json.Unmarshal(schema, &s) != nil {
		return nil
	}
	switch given := s.Type.(type) {
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
	for _, v := range append(s.Enum, s.Const) {
		if len(v) > 0 {
			types = append(types, jsonType(string(v)))
		}
	}
	for _, alternative := range slices.Concat(s.AnyOf, s.OneOf) {
		types = append(types, t.types(alternative, depth+1)...)
	}
	if s.Ref != "" {
		types = append(types, t.types(t.resolve(s.Ref), depth+1)...)
	}
	return types
}

// arrayOf is the schema, or the alternative of it, that is of a list.
func (t *typer) arrayOf(schema json.RawMessage) json.RawMessage {
	var s struct{ AnyOf, OneOf []json.RawMessage }
	_ = json.Unmarshal(schema, &s) // no alternatives then
	for _, alternative := range slices.Concat(s.AnyOf, s.OneOf) {
		if slices.Contains(t.types(alternative, 0), "array") {
			return alternative
		}
	}
	return schema
}

// resolve finds #/$defs/Name and the like.
func (t *typer) resolve(ref string) json.RawMessage {
	path, local := strings.CutPrefix(ref, "#/")
	if !local {
		return nil
	}
	at := t.root
	for key := range strings.SplitSeq(path, "/") {
		at = rawjson.Get(at, key)
	}
	return at
}

// jsonType is the JSON Schema type of the JSON that text spells; "" when it is
// no JSON.
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
