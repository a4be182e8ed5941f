package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// compiledSchema is a compiled [config_schema]. Checking a config against it takes bounded work.
type compiledSchema struct {
	compiled *jsonschema.Schema
	parts    int // its size, counting a definition once for each reference
}

// schemaAddress names a schema within its own compiler.
const schemaAddress = "config_schema.json"

// noLoader loads nothing: a schema may refer only to itself.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("%s is not part of the schema, and nothing is fetched", url)
}

// compileSchema compiles a JSON Schema object. It refuses external references, circular ones and schemas that are too
// large.
func compileSchema(text json.RawMessage) (*compiledSchema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	parts, err := weigh(doc)
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	if err := c.AddResource(schemaAddress, doc); err != nil {
		return nil, err
	}
	compiled, err := c.Compile(schemaAddress)
	return &compiledSchema{compiled, parts}, err
}

// finding is a value that violates the schema.
type finding struct {
	location []string // keys and indices down to the value
	message  string
}

// path returns the path of the value: config.a[0].
func (f finding) path() string {
	path := "config"
	for _, step := range f.location {
		if i, err := strconv.Atoi(step); err == nil {
			path += fmt.Sprintf("[%d]", i)
		} else {
			path += "." + step
		}
	}
	return path
}

// Error names the value with dots only: config.a.0.
func (f finding) Error() string {
	return strings.Join(append([]string{"config"}, f.location...), ".") + ": " + f.message
}

// affords reports whether checking config stays within the work limit.
func (s *compiledSchema) affords(config json.RawMessage) bool {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(config))
	return err != nil || s.parts*countValues(doc) <= maxWork
}

// check returns all violations. With partial, missing properties are not reported.
func (s *compiledSchema) check(config json.RawMessage, partial bool) []finding {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(config))
	if err != nil {
		return []finding{{message: err.Error()}}
	}
	verr := (*jsonschema.ValidationError)(nil)
	if !errors.As(s.compiled.Validate(doc), &verr) {
		return nil
	}
	return findings(verr, partial, message.NewPrinter(language.English))
}

func findings(e *jsonschema.ValidationError, partial bool, p *message.Printer) (out []finding) {
	switch e.ErrorKind.(type) {
	case *kind.AnyOf, *kind.OneOf, *kind.Not:
		if partial && lacksSomething(e) {
			return nil // one of the alternatives may still match
		}
		return []finding{{e.InstanceLocation, e.ErrorKind.LocalizedString(p)}}
	case *kind.Required, *kind.DependentRequired, *kind.MinProperties:
		if partial {
			return nil
		}
	}
	if len(e.Causes) == 0 {
		return []finding{{e.InstanceLocation, e.ErrorKind.LocalizedString(p)}}
	}
	for _, cause := range e.Causes {
		out = append(out, findings(cause, partial, p)...)
	}
	return out
}

// lacksSomething reports whether a missing property is among the causes.
func lacksSomething(e *jsonschema.ValidationError) bool {
	if _, ok := e.ErrorKind.(*kind.Required); ok {
		return true
	}
	return slices.ContainsFunc(e.Causes, lacksSomething)
}

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
