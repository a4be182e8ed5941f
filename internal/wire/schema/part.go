package schema

import (
	"encoding/json"
	"net/url"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Accepts reports whether the schema at a JSON Pointer of the document accepts a value. The error says why the schema
// or the value cannot be read.
func (d Document) Accepts(pointer string, value json.RawMessage) (bool, error) {
	k := &Schema{doc: d}
	err := k.compile((&url.URL{Fragment: pointer}).String())
	if err != nil {
		return false, err
	}
	v, s, err := decode(value, bounds{MaxArgumentNodes, MaxArgumentDepth})
	if err != nil {
		return false, err
	}
	switch err := k.validate(v, s.nodes); err.(type) {
	case nil:
		return true, nil
	case *jsonschema.ValidationError:
		return false, nil
	default:
		return false, err
	}
}
