package tools

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/internal/wire/schema"
)

// children applies f to every direct subschema of ms.
func children(ms []member, f func(json.RawMessage) json.RawMessage) []member {
	ms = slices.Clone(ms)
	for i, m := range ms {
		switch {
		case isObject(m.value) && slices.Contains(schema.Maps, m.key):
			inner := mustMembers(m.value)
			for j := range inner {
				inner[j].value = f(inner[j].value)
			}
			ms[i].value = object(inner)
		case isArray(m.value) && slices.Contains(schema.Lists, m.key):
			list := items(m.value)
			for j := range list {
				list[j] = f(list[j])
			}
			ms[i].value = rawjson.AppendList(nil, list)
		case isObject(m.value) && slices.Contains(schema.Single, m.key):
			ms[i].value = f(m.value)
		}
	}
	return ms
}

// rewrite applies f to every subschema, innermost first. Schemas that f does not change keep their bytes.
func rewrite(schema json.RawMessage, f func([]member) ([]member, bool)) (json.RawMessage, bool) {
	if !isObject(schema) {
		return schema, false
	}
	inside := false
	ms := children(mustMembers(schema), func(child json.RawMessage) json.RawMessage {
		out, changed := rewrite(child, f)
		inside = inside || changed
		return out
	})
	ms, changed := f(ms)
	if !inside && !changed {
		return schema, false
	}
	return object(ms), true
}

// completeArray adds empty items to an array schema without items, and converts a tuple of older drafts to
// prefixItems.
func completeArray(ms []member) ([]member, bool) {
	t := at(ms, "type")
	var many []string
	if string(t) != `"array"` && (json.Unmarshal(t, &many) != nil || !slices.Contains(many, "array")) {
		return ms, false
	}
	i := slices.IndexFunc(ms, func(m member) bool { return m.key == "items" })
	switch {
	case i < 0:
		return append(ms, member{"items", json.RawMessage("{}")}), true
	case isArray(ms[i].value):
		rest := at(ms, "additionalItems")
		if rest == nil {
			rest = json.RawMessage("{}")
		}
		ms[i].key = "prefixItems"
		ms = slices.DeleteFunc(ms, func(m member) bool { return m.key == "additionalItems" })
		return append(ms, member{"items", rest}), true
	}
	return ms, false
}

// flatten removes keywords that a vendor refuses at the top level of a schema, if the result is equivalent. The
// error names a keyword that it cannot remove.
func flatten(description string, schema json.RawMessage, refused ...string) (string, json.RawMessage, error) {
	ms := mustMembers(schema)
	changed := false
	for _, key := range refused {
		value := at(ms, key)
		if value == nil {
			continue
		}
		changed = true
		without := slices.DeleteFunc(slices.Clone(ms), func(m member) bool { return m.key == key })
		var ok bool
		switch {
		case !isArray(value): // an invalid schema: NewCatalog keeps such a tool unchecked
		case key == "allOf":
			ms, ok = mergeAll(without, value)
		case key == "anyOf", key == "oneOf":
			var choice string
			if choice, ok = requiredChoice(value, key); ok {
				ms, description = without, description+choice
			}
		}
		if !ok {
			return "", nil, fmt.Errorf("the vendor takes no %s at the top level of a schema", key)
		}
	}
	if !changed {
		return description, schema, nil
	}
	return description, object(ms), nil
}

// mergeAll merges branches of properties and required into ms. ok is false if two definitions of a property
// differ.
func mergeAll(ms []member, branches json.RawMessage) ([]member, bool) {
	if at(ms, "additionalProperties") != nil { // it would also apply to the branches' properties
		return nil, false
	}
	properties := mustMembers(at(ms, "properties"))
	var required []string
	_ = json.Unmarshal(at(ms, "required"), &required)
	for _, branch := range items(branches) {
		for _, m := range mustMembers(branch) {
			var names []string
			switch {
			case m.key == "type" && string(m.value) == `"object"`, m.key == "title", m.key == "description":
			case m.key == "required" && json.Unmarshal(m.value, &names) == nil:
				required = append(required, names...)
			case m.key == "properties" && isObject(m.value):
				for _, p := range mustMembers(m.value) {
					if have := at(properties, p.key); have == nil {
						properties = append(properties, p)
					} else if !bytes.Equal(have, p.value) {
						return nil, false
					}
				}
			default:
				return nil, false
			}
		}
		if !isObject(branch) {
			return nil, false
		}
	}
	ms = set(ms, member{"properties", object(properties)})
	if len(required) > 0 {
		slices.Sort(required)
		names, _ := json.Marshal(slices.Compact(required))
		ms = set(ms, member{"required", names})
	}
	return ms, true
}

// requiredChoice describes alternatives that only list required properties.
func requiredChoice(branches json.RawMessage, key string) (string, bool) {
	var choices []string
	for _, branch := range items(branches) {
		ms, err := members(branch)
		var names []string
		if err != nil || len(ms) != 1 || ms[0].key != "required" || json.Unmarshal(ms[0].value, &names) != nil ||
			len(names) == 0 {
			return "", false
		}
		choices = append(choices, strings.Join(names, " and "))
	}
	what := "at least"
	if key == "oneOf" {
		what = "exactly"
	}
	return fmt.Sprintf(" (Required: %s one of: %s.)", what, strings.Join(choices, "; ")), true
}
