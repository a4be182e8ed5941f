package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/exthost/exthost/internal/strict"
)

// MergeConfig returns the extension's configuration: [config] with the
// operator's values laid over it, table by table, checked against
// [config_schema]. Without either it is {}.
func (m *Manifest) MergeConfig(operator map[string]any) (json.RawMessage, error) {
	raw, err := JSON(merge(m.Config, operator))
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	schema, err := compile(m.ConfigSchema)
	if err != nil || schema == nil {
		return raw, err
	}
	var errs []error
	for _, f := range check(schema, raw, false) {
		errs = append(errs, errors.New(f.String()))
	}
	return raw, errors.Join(errs...)
}

// merge lays top over base without changing either.
func merge(base, top map[string]any) map[string]any {
	out := make(map[string]any, len(base)+len(top))
	maps.Copy(out, base)
	for key, v := range top {
		below, isTable := out[key].(map[string]any)
		if above, ok := v.(map[string]any); ok && isTable {
			v = merge(below, above)
		}
		out[key] = v
	}
	return out
}

// config checks that [config] can be handed over, and what it states against
// [config_schema]. What it leaves out the operator may still supply.
func (v *validator) config() {
	raw, err := JSON(v.m.Config)
	if err != nil {
		v.errorf("config", "", "config: %v", err)
		return
	}
	schema, err := compile(v.m.ConfigSchema)
	if err != nil {
		v.errorf("config_schema", "", "config_schema is not a JSON Schema: %v", err)
		return
	}
	if schema == nil || v.m.Config == nil {
		return
	}
	if weigh(v.m.ConfigSchema).total*size(v.m.Config) > maxSchemaWork {
		v.errorf("config_schema", "", "config_schema is too large to check this config against")
		return
	}
	for _, f := range check(schema, raw, true) {
		v.errorf(f.path(), "", "%s", f)
	}
}

// schemaURL names a schema within its own compiler.
const schemaURL = "config_schema.json"

// refuse loads nothing: a schema is whole or it is refused.
type refuse struct{}

func (refuse) Load(url string) (any, error) {
	return nil, fmt.Errorf("%s is not part of the schema, and nothing is fetched", url)
}

// compile returns nil for no schema at all.
func compile(schema map[string]any) (*jsonschema.Schema, error) {
	if schema == nil {
		return nil, nil
	}
	raw, err := JSON(schema)
	if err != nil {
		return nil, err
	}
	if w := weigh(schema); w.err != nil {
		return nil, w.err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(refuse{})
	if err := c.AddResource(schemaURL, doc); err != nil {
		return nil, err
	}
	return c.Compile(schemaURL)
}

// finding is one value that does not match its schema.
type finding struct {
	location []string
	message  string
}

func (f finding) String() string {
	return strings.Join(append([]string{"config"}, f.location...), ".") + ": " + f.message
}

// path returns the place in the manifest.
func (f finding) path() string {
	path := "config"
	for _, step := range f.location {
		if i, err := strconv.Atoi(step); err == nil {
			path = strict.Index(path, i)
		} else {
			path += "." + step
		}
	}
	return path
}

// check validates a document; partial does not mind what is missing.
func check(schema *jsonschema.Schema, raw json.RawMessage, partial bool) []finding {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return []finding{{message: err.Error()}}
	}
	verr := (*jsonschema.ValidationError)(nil)
	if !errors.As(schema.Validate(doc), &verr) {
		return nil
	}
	return findings(verr, partial, message.NewPrinter(language.English))
}

func findings(e *jsonschema.ValidationError, partial bool, p *message.Printer) (out []finding) {
	switch e.ErrorKind.(type) {
	case *kind.AnyOf, *kind.OneOf, *kind.Not:
		if partial && lacksSomething(e) {
			return nil // one of the alternatives may fit yet
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
	for _, cause := range e.Causes {
		if lacksSomething(cause) {
			return true
		}
	}
	return false
}
