// Package hidden replaces the values of secret variables by the references that files have for them.
package hidden

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// minLength is the length of the shortest value that is hidden: shorter ones occur by chance.
const minLength = 4

// Values are what is replaced. The zero value replaces nothing.
type Values struct{ replacer *strings.Replacer }

// Of returns the values of those variables, by name, that isSecret selects by name and value.
func Of(variables map[string]string, isSecret func(name, value string) bool) Values {
	type pair struct{ value, reference string }
	var pairs []pair
	for name, value := range variables {
		if len(value) < minLength || !isSecret(name, value) {
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
	return Values{strings.NewReplacer(list...)}
}

// Text returns s without the values.
func (h Values) Text(s string) string {
	if h.replacer == nil {
		return s
	}
	return h.replacer.Replace(s)
}

// Tree returns v, which is made of scalars, lists and maps, without the values.
func (h Values) Tree(v any) any {
	switch v := v.(type) {
	case string:
		return h.Text(v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = h.Tree(v[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for key := range v {
			out[key] = h.Tree(v[key])
		}
		return out
	}
	return v
}
