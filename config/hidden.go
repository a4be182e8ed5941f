package config

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// minHidden is the length of the shortest value that is hidden: shorter ones occur by chance.
const minHidden = 4

// hiding returns what replaces the values of these variables, by name, with the reference by
// which a file has them. Only variables that look like secrets, by name or value, are hidden.
func hiding(variables map[string]string) *strings.Replacer {
	type pair struct{ value, reference string }
	var pairs []pair
	for name, value := range variables {
		if len(value) < minHidden || !secret(name, value) {
			continue
		}
		reference := "${" + name + "}"
		pairs = append(pairs, pair{value, reference})
		if quoted := strconv.Quote(value); quoted[1:len(quoted)-1] != value { // as an error quotes it
			pairs = append(pairs, pair{quoted[1 : len(quoted)-1], reference})
		}
	}
	slices.SortFunc(pairs, func(a, b pair) int { // one value may be part of another
		return cmp.Or(len(b.value)-len(a.value), cmp.Compare(a.reference, b.reference))
	})
	var list []string
	for _, p := range pairs {
		list = append(list, p.value, p.reference)
	}
	return strings.NewReplacer(list...)
}

// hide returns v, which is made of scalars, lists and maps, with the values of secret variables
// replaced.
func (c *Config) hide(v any) any {
	switch v := v.(type) {
	case string:
		if c.hidden != nil {
			return c.hidden.Replace(v)
		}
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = c.hide(v[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for key := range v {
			out[key] = c.hide(v[key])
		}
		return out
	}
	return v
}
