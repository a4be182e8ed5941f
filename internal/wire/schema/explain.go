package schema

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/exthost/exthost/internal/text/display"
)

// explainer converts the schema library's error tree to faults.
type explainer struct {
	schema any // the decoded schema
	value  any // the decoded arguments
}

func (x explainer) problems(err *jsonschema.ValidationError) []Fault {
	path := pointer(err.InstanceLocation)
	got := x.at(err.InstanceLocation)
	one := func(expected string) []Fault {
		return found(path, display.Cut(expected, maxText), showTyped(got))
	}
	switch k := err.ErrorKind.(type) {
	case *kind.AnyOf:
		return x.closest(err)
	case *kind.OneOf:
		if len(k.Subschemas) == 0 {
			return x.closest(err)
		}
		return one(fmt.Sprintf("a match of exactly one alternative, not of %d and %d", k.Subschemas[0]+1,
			k.Subschemas[1]+1))
	case *kind.Type:
		return one(strings.Join(k.Want, " or "))
	case *kind.Enum:
		return x.choice(path, got, k.Want)
	case *kind.Const:
		return x.choice(path, got, []any{k.Want})
	case *kind.RefCycle:
		return nil
	}
	if fs := x.properties(err, path, got); fs != nil {
		return fs
	}
	if expected := keyword(err.ErrorKind); expected != "" {
		return one(expected)
	}
	var fs []Fault
	for _, cause := range err.Causes {
		if fs = append(fs, x.problems(cause)...); len(fs) >= maxFaults {
			break
		}
	}
	return fs
}

// properties returns the faults of missing, unknown and forbidden properties, or nil for errors of another kind.
func (x explainer) properties(err *jsonschema.ValidationError, path string, got any) []Fault {
	switch k := err.ErrorKind.(type) {
	case *kind.Required:
		return x.missing(err, k.Missing, "")
	case *kind.Dependency:
		return x.missing(err, k.Missing, k.Prop)
	case *kind.DependentRequired:
		return x.missing(err, k.Missing, k.Prop)
	case *kind.AdditionalProperties:
		return x.unknown(path, got, err.SchemaURL, k.Properties)
	case *kind.FalseSchema:
		return x.forbidden(err, path, got)
	case *kind.PropertyNames:
		return found(path, "property names that match the schema's propertyNames", Show(k.Property))
	}
	return nil
}

// keyword describes the requirement of a keyword with a simple value; it returns "" for keywords that group others.
func keyword(k jsonschema.ErrorKind) string {
	return cmp.Or(numberKeyword(k), stringKeyword(k), arrayKeyword(k), objectKeyword(k))
}

func numberKeyword(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Minimum:
		return "a number ≥ " + number(k.Want)
	case *kind.Maximum:
		return "a number ≤ " + number(k.Want)
	case *kind.ExclusiveMinimum:
		return "a number > " + number(k.Want)
	case *kind.ExclusiveMaximum:
		return "a number < " + number(k.Want)
	case *kind.MultipleOf:
		return "a multiple of " + number(k.Want)
	}
	return ""
}

func stringKeyword(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.MinLength:
		return fmt.Sprintf("at least %d characters (there are %d)", k.Want, k.Got)
	case *kind.MaxLength:
		return fmt.Sprintf("at most %d characters (there are %d)", k.Want, k.Got)
	case *kind.Pattern:
		return "a string that matches the pattern " + k.Want
	case *kind.Format:
		return "a string of format " + k.Want
	}
	return ""
}

func arrayKeyword(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.MinItems:
		return fmt.Sprintf("at least %d items", k.Want)
	case *kind.MaxItems:
		return fmt.Sprintf("at most %d items", k.Want)
	case *kind.AdditionalItems:
		return fmt.Sprintf("%d items fewer", k.Count)
	case *kind.UniqueItems:
		return fmt.Sprintf("no two equal items (%d and %d are)", k.Duplicates[0], k.Duplicates[1])
	case *kind.Contains:
		return "an item that matches the schema's contains"
	case *kind.MinContains:
		return fmt.Sprintf("at least %d items that match the schema's contains", k.Want)
	case *kind.MaxContains:
		return fmt.Sprintf("at most %d items that match the schema's contains", k.Want)
	}
	return ""
}

func objectKeyword(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.MinProperties:
		return fmt.Sprintf("at least %d properties", k.Want)
	case *kind.MaxProperties:
		return fmt.Sprintf("at most %d properties", k.Want)
	case *kind.Not: // applies to values of any type
		return "something that the schema's not does not match"
	}
	return ""
}

// closest returns the faults of the alternative that has the fewest faults. Alternatives that
// differ only in type or value are merged into one fault.
func (x explainer) closest(err *jsonschema.ValidationError) []Fault {
	here := pointer(err.InstanceLocation)
	var best, merged []Fault
	var types []string
	var values []any
	for _, cause := range err.Causes {
		fs := x.problems(cause)
		if len(fs) == 1 && fs[0].Path == here { // only the type or the value differs
			merged = append(merged, fs[0])
			if fs[0].Allowed != nil {
				values = append(values, fs[0].Allowed...)
			} else {
				types = append(types, fs[0].Expected)
			}
			continue
		}
		if best == nil || len(fs) < len(best) {
			best = fs
		}
	}
	switch {
	case best != nil:
		return best
	case len(merged) == 0:
		return nil
	case len(types) == 0:
		return x.choice(here, x.at(err.InstanceLocation), values)
	}
	if len(values) > 0 {
		types = append(types, "one of the allowed values")
	}
	merged[0].Expected, merged[0].Allowed = display.Cut(strings.Join(types, ", or "), 2*maxText), allowed(values)
	return merged[:1]
}

func (x explainer) choice(path string, got any, want []any) []Fault {
	fs := found(path, "one of the allowed values", showTyped(got))
	fs[0].Allowed = allowed(want)
	if got, ok := got.(string); ok {
		fs[0].Name = got
		for _, w := range want {
			if w, ok := w.(string); ok {
				fs[0].Names = append(fs[0].Names, w)
			}
		}
	}
	return fs
}

func found(path, expected, got string) []Fault {
	return []Fault{{Path: path, Expected: expected, Got: got}}
}

// missing returns a fault for each missing property. because is the property that requires them, or "".
func (x explainer) missing(err *jsonschema.ValidationError, names []string, because string) []Fault {
	at, _ := x.schemaAt(err.SchemaURL).(map[string]any)
	properties, _ := at["properties"].(map[string]any)
	fs := make([]Fault, 0, min(len(names), maxMissing))
	for _, name := range names[:min(len(names), maxMissing)] {
		expected := "a value, it is required"
		if because != "" {
			expected = fmt.Sprintf("a value, it is required beside %q", because)
		}
		if what := x.describe(properties[name]); what != "" {
			expected += ": " + what
		}
		fs = append(fs, found(pointer(err.InstanceLocation)+pointer([]string{display.Cut(name, maxText)}),
			display.Cut(expected, 2*maxText), "nothing")...)
	}
	return fs
}

// describe returns the type and description of a property.
func (x explainer) describe(schema any) string {
	s, _ := schema.(map[string]any)
	var texts []string
	switch t := s["type"].(type) {
	case string:
		texts = append(texts, t)
	case []any:
		for i, one := range t {
			if i > 0 {
				texts = append(texts, "or")
			}
			texts = append(texts, fmt.Sprint(one))
		}
	}
	if d, ok := s["description"].(string); ok && d != "" {
		texts = append(texts, "("+display.Cut(display.Visible(strings.Join(strings.Fields(d), " ")), maxText)+")")
	}
	return strings.Join(texts, " ")
}

// unknown returns a fault for each property that the schema at location does not allow.
func (x explainer) unknown(path string, got any, location string, names []string) []Fault {
	at, _ := x.schemaAt(location).(map[string]any)
	properties, _ := at["properties"].(map[string]any)
	known := slices.Sorted(maps.Keys(properties))
	values := make([]any, len(known))
	for i, k := range known {
		values[i] = k
	}
	values = allowed(values)
	object, _ := got.(map[string]any)
	fs := make([]Fault, 0, len(names))
	for _, name := range names {
		fs = append(fs, Fault{
			Name:     name,
			Names:    known,
			Path:     path + pointer([]string{display.Cut(name, maxText)}),
			Expected: "no such property",
			Got:      showTyped(object[name]),
			Allowed:  values,
		})
	}
	return fs
}

// forbidden returns the fault of a value whose schema is false, including properties refused by
// unevaluatedProperties.
func (x explainer) forbidden(err *jsonschema.ValidationError, path string, got any) []Fault {
	if parent, ok := strings.CutSuffix(err.SchemaURL, "/unevaluatedProperties"); ok && len(err.InstanceLocation) > 0 {
		last := len(err.InstanceLocation) - 1
		outer := err.InstanceLocation[:last]
		return x.unknown(pointer(outer), x.at(outer), parent, err.InstanceLocation[last:])
	}
	return found(path, "nothing here", showTyped(got))
}

func number(r *big.Rat) string {
	if r.IsInt() {
		return display.Cut(r.Num().String(), 40)
	}
	f, _ := r.Float64()
	return json.Number(strconv.FormatFloat(f, 'g', -1, 64)).String()
}
