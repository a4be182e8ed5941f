package schema

import (
	"encoding/json"
	"net/url"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Parts are the schemas within a document. Each is compiled once, at its first use. They are for one goroutine.
type Parts struct {
	of       *Schema
	compiler *jsonschema.Compiler
}

// Parts returns the schemas within the document.
func (d Document) Parts() *Parts {
	p := &Parts{of: &Schema{doc: d}}
	p.compiler, p.of.err = p.of.compiler()
	return p
}

// Accepts reports whether the schema at a JSON Pointer of the document accepts a value. The error says why the schema
// or the value cannot be read.
func (p *Parts) Accepts(pointer string, value json.RawMessage) (bool, error) {
	if p.of.err != nil {
		return false, p.of.err
	}
	if err := p.of.compile(p.compiler, (&url.URL{Fragment: pointer}).String()); err != nil {
		return false, err
	}
	v, s, err := decode(value, bounds{MaxArgumentNodes, MaxArgumentDepth})
	if err != nil {
		return false, err
	}
	switch err := p.of.validate(v, s.nodes); err.(type) {
	case nil:
		return true, nil
	case *jsonschema.ValidationError:
		return false, nil
	default:
		return false, err
	}
}
