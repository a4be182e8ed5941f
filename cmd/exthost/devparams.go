package main

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/rawjson"
)

// param is one argument of a tool, as an author thinks of it.
type param struct {
	name, kind string
	required   bool
}

func (p param) String() string {
	if p.required {
		return p.name + ": " + p.kind
	}
	return p.name + "?: " + p.kind
}

func signature(tool string, params []param) string {
	parts := make([]string, len(params))
	for i, p := range params {
		parts[i] = p.String()
	}
	return tool + "(" + strings.Join(parts, ", ") + ")"
}

// paramsOf reads the properties of a schema, in their order.
func paramsOf(schema json.RawMessage) (params []param) {
	var s struct{ Required []string }
	_ = json.Unmarshal(schema, &s) // a schema without requires nothing
	t := typer{root: schema}
	for name, property := range rawjson.Members(rawjson.Get(schema, "properties")) {
		kind := strings.Join(t.types(property, 0), "|")
		if kind == "array" {
			kind = strings.Join(t.types(rawjson.Get(t.arrayOf(property), "items"), 0), "|") + "[]"
		}
		if choices := choicesOf(property); len(choices) > 0 {
			kind = strings.Join(choices, "|")
		}
		if kind == "" {
			kind = "any"
		}
		params = append(params, param{name, kind, slices.Contains(s.Required, name)})
	}
	return params
}

// choicesOf are the values of an enum, as they are typed.
func choicesOf(property json.RawMessage) (choices []string) {
	var s struct{ Enum []json.RawMessage }
	_ = json.Unmarshal(property, &s)
	for _, value := range s.Enum {
		var text string
		if json.Unmarshal(value, &text) != nil {
			text = string(value)
		}
		choices = append(choices, text)
	}
	return choices
}

// diffParams says how the arguments changed: +greeting?: string, -name.
func diffParams(before, now []param) (diff []string) {
	find := func(list []param, name string) int {
		return slices.IndexFunc(list, func(p param) bool { return p.name == name })
	}
	for _, p := range now {
		switch i := find(before, p.name); {
		case i < 0:
			diff = append(diff, "+"+p.String())
		case before[i] != p:
			diff = append(diff, before[i].String()+" → "+p.String())
		}
	}
	for _, p := range before {
		if find(now, p.name) < 0 {
			diff = append(diff, "-"+p.name)
		}
	}
	return diff
}
