package schema

import (
	"net/url"
	"strconv"
	"strings"
)

// at returns the argument at a location, or nil.
func (x explainer) at(location []string) any { return walk(x.value, location) }

// schemaAt returns the schema object at the URL in an error.
func (x explainer) schemaAt(location string) any {
	fragment, ok := strings.CutPrefix(location, schemaURL+"#")
	if !ok {
		return nil
	}
	text, err := url.PathUnescape(fragment)
	if err != nil || text == "" {
		return x.schema
	}
	return walk(x.schema, SplitPointer(text[1:]))
}

var (
	escape   = strings.NewReplacer("~", "~0", "/", "~1")
	unescape = strings.NewReplacer("~1", "/", "~0", "~")
)

// SplitPointer splits a JSON Pointer that has no leading slash.
func SplitPointer(pointer string) []string {
	ts := strings.Split(pointer, "/")
	for i, t := range ts {
		ts[i] = unescape.Replace(t)
	}
	return ts
}

// EscapePointer returns a key as a part of a JSON Pointer.
func EscapePointer(key string) string { return escape.Replace(key) }

func walk(v any, location []string) any {
	for _, t := range location {
		switch at := v.(type) {
		case map[string]any:
			v = at[t]
		case []any:
			i, err := strconv.Atoi(t)
			if err != nil || i < 0 || i >= len(at) {
				return nil
			}
			v = at[i]
		default:
			return nil
		}
	}
	return v
}

// pointer returns the JSON Pointer of a location.
func pointer(location []string) string {
	var b strings.Builder
	for _, t := range location {
		b.WriteByte('/')
		b.WriteString(escape.Replace(t))
	}
	return b.String()
}
