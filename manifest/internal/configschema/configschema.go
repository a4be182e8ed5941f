// Package configschema checks an extension's config against its config_schema, with bounded work for any schema.
package configschema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// Schema is a compiled config_schema.
type Schema struct {
	compiled *jsonschema.Schema
	parts    int // its size, counting a definition once for each reference
}

// address names a schema within its own compiler.
const address = "config_schema.json"

// refuse loads nothing: a schema may refer only to itself.
type refuse struct{}

func (refuse) Load(url string) (any, error) {
	return nil, fmt.Errorf("%s is not part of the schema, and nothing is fetched", url)
}

// Compile compiles a JSON Schema object. It refuses external references, circular ones and schemas that are too
// large.
func Compile(text json.RawMessage) (*Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	parts, err := weigh(doc)
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(refuse{})
	if err := c.AddResource(address, doc); err != nil {
		return nil, err
	}
	compiled, err := c.Compile(address)
	return &Schema{compiled, parts}, err
}

// Finding is a value that violates the schema.
type Finding struct {
	Location []string // keys and indices down to the value
	Message  string
}

// Path returns the path of the value: config.a[0].
func (f Finding) Path() string {
	path := "config"
	for _, step := range f.Location {
		if i, err := strconv.Atoi(step); err == nil {
			path += fmt.Sprintf("[%d]", i)
		} else {
			path += "." + step
		}
	}
	return path
}

// Error names the value with dots only: config.a.0.
func (f Finding) Error() string {
	return strings.Join(append([]string{"config"}, f.Location...), ".") + ": " + f.Message
}

// Affords reports whether checking config stays within the work limit.
func (s *Schema) Affords(config json.RawMessage) bool {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(config))
	return err != nil || s.parts*size(doc) <= maxWork
}

// Check returns all violations. With partial, missing properties are not reported.
func (s *Schema) Check(config json.RawMessage, partial bool) []Finding {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(config))
	if err != nil {
		return []Finding{{Message: err.Error()}}
	}
	verr := (*jsonschema.ValidationError)(nil)
	if !errors.As(s.compiled.Validate(doc), &verr) {
		return nil
	}
	return findings(verr, partial, message.NewPrinter(language.English))
}

func findings(e *jsonschema.ValidationError, partial bool, p *message.Printer) (out []Finding) {
	switch e.ErrorKind.(type) {
	case *kind.AnyOf, *kind.OneOf, *kind.Not:
		if partial && lacksSomething(e) {
			return nil // one of the alternatives may still match
		}
		return []Finding{{e.InstanceLocation, e.ErrorKind.LocalizedString(p)}}
	case *kind.Required, *kind.DependentRequired, *kind.MinProperties:
		if partial {
			return nil
		}
	}
	if len(e.Causes) == 0 {
		return []Finding{{e.InstanceLocation, e.ErrorKind.LocalizedString(p)}}
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
