package manifest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A schema that refers to itself, or twice to one definition at every level, takes exponential time on a small
// document. So it may refer only to its own definitions, never in a circle, and its size counts a definition once
// for each reference.
const (
	maxParts = 10_000     // objects, arrays and values, references followed
	maxWork  = 10_000_000 // the parts times the size of the config
)

// weigher caches sizes of definitions; 0 marks one that is being weighed.
type weigher struct {
	root map[string]any
	defs map[string]int
}

// weigh returns the size of a schema, or why the schema is refused.
func weigh(schema any) (parts int, err error) {
	root, _ := schema.(map[string]any)
	w := weigher{root: root, defs: map[string]int{}}
	return w.value(schema)
}

func (w *weigher) value(v any) (total int, err error) {
	total = 1
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			n, err := w.member(key, v[key])
			if total += n; err != nil {
				return total, err
			}
		}
	case []any:
		for _, elem := range v {
			n, err := w.value(elem)
			if total += n; err != nil {
				return total, err
			}
		}
	}
	if total > maxParts {
		return total, fmt.Errorf("with all that it refers to it has more than %d parts", maxParts)
	}
	return total, nil
}

func (w *weigher) member(key string, v any) (int, error) {
	ref, isText := v.(string)
	switch {
	case key == "$ref" && isText:
		return w.definition(ref)
	case (key == "$dynamicRef" || key == "$recursiveRef") && isText:
		return 0, fmt.Errorf("%s is not supported here", key)
	}
	return w.value(v)
}

func (w *weigher) definition(ref string) (int, error) {
	if n, ok := w.defs[ref]; ok {
		if n == 0 {
			return 0, fmt.Errorf("%s refers to itself", ref)
		}
		return n, nil
	}
	section, name, _ := strings.Cut(strings.TrimPrefix(ref, "#/"), "/")
	table, _ := w.root[section].(map[string]any)
	def, ok := table[name]
	if !ok || section != "$defs" && section != "definitions" {
		return 0, fmt.Errorf("$ref is #/$defs/NAME, not %q: nothing else is part of the schema, and nothing is fetched",
			ref)
	}
	w.defs[ref] = 0
	n, err := w.value(def)
	w.defs[ref] = n
	return n, err
}

// countValues counts the values in a config.
func countValues(v any) int {
	n := 1
	switch v := v.(type) {
	case map[string]any:
		for _, elem := range v {
			n += countValues(elem)
		}
	case []any:
		for _, elem := range v {
			n += countValues(elem)
		}
	}
	return n
}
