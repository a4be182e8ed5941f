package manifest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A schema that refers to itself, or to one definition twice at every level,
// takes exponential time on a small document. So a config_schema may refer only
// to its own definitions, never in a circle, and its size counts what it refers
// to each time.
const (
	maxSchemaSize = 10_000     // tables, arrays and values, references followed
	maxSchemaWork = 10_000_000 // the size times that of the config it checks
)

// weight is the size of a schema, or why it has none.
type weight struct {
	total int
	err   error
}

// weigher remembers definitions; one that is being weighed is there with 0.
type weigher struct {
	root map[string]any
	defs map[string]int
}

func weigh(schema map[string]any) weight {
	w := weigher{root: schema, defs: map[string]int{}}
	total, err := w.value(schema)
	return weight{total, err}
}

func (w *weigher) value(v any) (total int, err error) {
	total = 1
	if table, ok := v.(map[string]any); ok {
		for _, key := range slices.Sorted(maps.Keys(table)) {
			n, err := w.member(key, table[key])
			if total += n; err != nil {
				return total, err
			}
		}
	}
	list, _ := asList(v)
	for _, elem := range list {
		n, err := w.value(elem)
		if total += n; err != nil {
			return total, err
		}
	}
	if total > maxSchemaSize {
		return total, fmt.Errorf("with all that it refers to it has more than %d parts", maxSchemaSize)
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
		return 0, fmt.Errorf("$ref is #/$defs/NAME, not %q: nothing else is part of the schema, and nothing is fetched", ref)
	}
	w.defs[ref] = 0
	n, err := w.value(def)
	w.defs[ref] = n
	return n, err
}

// size counts the values in a config.
func size(v any) int {
	n := 1
	if table, ok := v.(map[string]any); ok {
		for _, elem := range table {
			n += size(elem)
		}
	}
	list, _ := asList(v)
	for _, elem := range list {
		n += size(elem)
	}
	return n
}
