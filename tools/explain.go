package tools

import (
	"encoding/json"
	"fmt"
	"math/big"
	"net/url"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// explainer turns the library's tree of failures into problems.
type explainer struct {
	schema any // the decoded schema
	value  any // the decoded arguments
}

// explain returns the problems behind err. A schema that refers to itself
// without end is at fault itself and yields none.
func explain(schema, value any, err *jsonschema.ValidationError) []fault {
	return explainer{schema, value}.problems(err)
}

func (x explainer) problems(err *jsonschema.ValidationError) []fault {
	path := pointer(err.InstanceLocation)
	got := x.at(err.InstanceLocation)
	one := func(expected string) []fault {
		return found(path, cut(expected, maxText), showTyped(got))
	}
	switch k := err.ErrorKind.(type) {
	case *kind.AnyOf:
		return x.closest(err)
	case *kind.OneOf:
		if len(k.Subschemas) == 0 {
			return x.closest(err)
		}
		return one(fmt.Sprintf("a match of exactly one alternative, not of %d and %d", k.Subschemas[0]+1, k.Subschemas[1]+1))
	case *kind.Type:
		return one(strings.Join(k.Want, " or "))
	case *kind.Enum:
		return x.choice(path, got, k.Want)
	case *kind.Const:
		return x.choice(path, got, []any{k.Want})
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
		return found(path, "property names that match the schema's propertyNames", show(k.Property))
	case *kind.RefCycle:
		return nil
	}
	if expected := x.keyword(err); expected != "" {
		return one(expected)
	}
	var fs []fault
	for _, cause := range err.Causes {
		if fs = append(fs, x.problems(cause)...); len(fs) >= maxFound {
			break
		}
	}
	return fs
}

// keyword says what a keyword with a plain value wants; "" for the kinds that
// only group others.
func (x explainer) keyword(err *jsonschema.ValidationError) string {
	switch k := err.ErrorKind.(type) {
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
	case *kind.MinLength:
		return fmt.Sprintf("at least %d characters (there are %d)", k.Want, k.Got)
	case *kind.MaxLength:
		return fmt.Sprintf("at most %d characters (there are %d)", k.Want, k.Got)
	case *kind.Pattern:
		return "a string that matches the pattern " + k.Want
	case *kind.Format:
		return "a string of format " + k.Want
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
	case *kind.MinProperties:
		return fmt.Sprintf("at least %d properties", k.Want)
	case *kind.MaxProperties:
		return fmt.Sprintf("at most %d properties", k.Want)
	case *kind.Not:
		return "something that the schema's not does not match"
	}
	return ""
}

// closest explains the alternative that was probably meant. Alternatives that
// only differ in type or value are offered together.
func (x explainer) closest(err *jsonschema.ValidationError) []fault {
	here := pointer(err.InstanceLocation)
	var best, merged []fault
	var types []string
	var values []any
	for _, cause := range err.Causes {
		fs := x.problems(cause)
		if len(fs) == 1 && fs[0].Path == here { // another type, or another value
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
	merged[0].Expected, merged[0].Allowed = cut(strings.Join(types, ", or "), 2*maxText), allowed(values)
	return merged[:1]
}

func (x explainer) choice(path string, got any, want []any) []fault {
	fs := found(path, "one of the allowed values", showTyped(got))
	fs[0].Allowed = allowed(want)
	if sent, ok := got.(string); ok {
		fs[0].sent = sent
		for _, w := range want {
			if w, ok := w.(string); ok {
				fs[0].names = append(fs[0].names, w)
			}
		}
	}
	return fs
}

func found(path, expected, got string) []fault {
	return []fault{{Problem: Problem{Path: path, Expected: expected, Got: got}}}
}

// missing describes required properties that are not there; because names the
// property that requires them, if one does.
func (x explainer) missing(err *jsonschema.ValidationError, names []string, because string) []fault {
	at, _ := x.schemaAt(err.SchemaURL).(map[string]any)
	properties, _ := at["properties"].(map[string]any)
	fs := make([]fault, 0, min(len(names), maxProblems))
	for _, name := range names[:min(len(names), maxProblems)] {
		expected := "a value, it is required"
		if because != "" {
			expected = fmt.Sprintf("a value, it is required beside %q", because)
		}
		if what := x.describe(properties[name]); what != "" {
			expected += ": " + what
		}
		fs = append(fs, found(pointer(err.InstanceLocation)+pointer([]string{cut(name, maxText)}),
			cut(expected, 2*maxText), "nothing")...)
	}
	return fs
}

// describe says what a property is for: its type and its description.
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
		texts = append(texts, "("+cut(visible(strings.Join(strings.Fields(d), " ")), maxText)+")")
	}
	return strings.Join(texts, " ")
}

// unknown describes properties that the schema at location does not know.
func (x explainer) unknown(path string, got any, location string, names []string) []fault {
	at, _ := x.schemaAt(location).(map[string]any)
	properties, _ := at["properties"].(map[string]any)
	known := sortedKeys(properties)
	values := make([]any, len(known))
	for i, k := range known {
		values[i] = k
	}
	values = allowed(values)
	object, _ := got.(map[string]any)
	fs := make([]fault, 0, len(names))
	for _, name := range names {
		fs = append(fs, fault{sent: name, names: known, Problem: Problem{Path: path + pointer([]string{cut(name, maxText)}),
			Expected: "no such property", Got: showTyped(object[name]), Allowed: values}})
	}
	return fs
}

// forbidden describes a value where the schema is false, which it is for what
// unevaluatedProperties refuses.
func (x explainer) forbidden(err *jsonschema.ValidationError, path string, got any) []fault {
	if parent, ok := strings.CutSuffix(err.SchemaURL, "/unevaluatedProperties"); ok && len(err.InstanceLocation) > 0 {
		last := len(err.InstanceLocation) - 1
		outer := err.InstanceLocation[:last]
		return x.unknown(pointer(outer), x.at(outer), parent, err.InstanceLocation[last:])
	}
	return found(path, "nothing here", showTyped(got))
}

// at finds the argument at a location; nil when there is none.
func (x explainer) at(location []string) any { return walk(x.value, location) }

// schemaAt finds the schema object a failure's URL points to.
func (x explainer) schemaAt(location string) any {
	fragment, ok := strings.CutPrefix(location, schemaURL+"#")
	if !ok {
		return nil
	}
	text, err := url.PathUnescape(fragment)
	if err != nil || text == "" {
		return x.schema
	}
	return walk(x.schema, tokens(text[1:]))
}

var (
	escape   = strings.NewReplacer("~", "~0", "/", "~1")
	unescape = strings.NewReplacer("~1", "/", "~0", "~")
)

// tokens splits a JSON Pointer without its leading slash.
func tokens(pointer string) []string {
	ts := strings.Split(pointer, "/")
	for i, t := range ts {
		ts[i] = unescape.Replace(t)
	}
	return ts
}

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

// pointer is the JSON Pointer of a location.
func pointer(location []string) string {
	var b strings.Builder
	for _, t := range location {
		b.WriteByte('/')
		b.WriteString(escape.Replace(t))
	}
	return b.String()
}

func number(r *big.Rat) string {
	if r.IsInt() {
		return cut(r.Num().String(), 40)
	}
	f, _ := r.Float64()
	return json.Number(strconv.FormatFloat(f, 'g', -1, 64)).String()
}
