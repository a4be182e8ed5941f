package schema

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/internal/text/rawjson"
)

// Show renders a value in one short line.
func Show(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return string(rawjson.AppendText(nil, display.Cut(v, 80)))
	case json.Number:
		return display.Cut(v.String(), 80)
	case []any:
		return fmt.Sprintf("an array of %d", len(v))
	case map[string]any:
		return "an object with " + showKeys(v)
	}
	return fmt.Sprint(v)
}

// showTyped is Show with the type of a scalar as prefix.
func showTyped(v any) string {
	switch v.(type) {
	case string:
		return "string " + Show(v)
	case json.Number:
		return "number " + Show(v)
	case bool:
		return "boolean " + Show(v)
	}
	return Show(v)
}

func showKeys(m map[string]any) string {
	switch {
	case len(m) == 0:
		return "no properties"
	case len(m) > 100:
		return fmt.Sprintf("%d properties", len(m))
	}
	keys := slices.Sorted(maps.Keys(m))
	texts := make([]string, 0, 5)
	for _, k := range keys[:min(len(keys), 5)] {
		texts = append(texts, display.Cut(k, 40))
	}
	if len(keys) > 5 {
		texts = append(texts, "…")
	}
	return strings.Join(texts, ", ")
}

// allowed shortens a list of values for a fault.
func allowed(values []any) []any {
	out := make([]any, 0, min(len(values), maxAllowed+1))
	for _, v := range values[:min(len(values), maxAllowed)] {
		switch v := v.(type) {
		case string:
			out = append(out, display.Cut(v, maxText))
		case []any, map[string]any:
			out = append(out, Show(v))
		default:
			out = append(out, v)
		}
	}
	if more := len(values) - maxAllowed; more > 0 {
		out = append(out, fmt.Sprintf("… and %d more", more))
	}
	return out
}
