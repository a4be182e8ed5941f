// Package schema compiles the input schemas of tools, checks arguments against them and explains violations. The work
// is bounded even for hostile schemas and arguments.
package schema

import "errors"

// Bounds of schemas and arguments.
const (
	MaxNodes           = 10_000     // JSON values in a schema
	MaxDepth           = 64         // nesting of a schema
	MaxRefs            = 500        // references in a schema
	maxPatterns        = 10_000     // instructions of all regular expressions, repeats expanded
	MaxArgumentNodes   = 200_000    // JSON values in arguments
	MaxArgumentDepth   = 128        // nesting of arguments
	maxVisits          = 20_000_000 // schema values × argument values
	maxUnmeteredVisits = 1_000_000  // products up to this one are not counted
	baseFuel           = 50_000     // counted visits of one check …
	fuelPerNode        = 20         // … plus this for each argument value
	maxMatchWork       = 50_000_000 // instructions of a regular expression × bytes of its string
)

// Bounds of the faults of one check.
const (
	maxFaults  = 1000
	maxMissing = 10  // missing properties of one object
	maxAllowed = 20  // values of Fault.Allowed
	maxText    = 160 // bytes of one text
)

// Keywords whose values are schemas: a single one, a list of them, or a map from names to them.
var (
	Single = []string{"items", "additionalItems", "additionalProperties", "unevaluatedItems", "unevaluatedProperties",
		"propertyNames", "contains", "not", "if", "then", "else", "contentSchema"}
	Lists = []string{"allOf", "anyOf", "oneOf", "prefixItems", "items"}
	Maps  = []string{"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"}
)

// Document is a decoded schema.
type Document struct {
	root any
	refs int // references
	size int // values
}

// Read decodes a schema. It must be an object or a boolean within the bounds.
func Read(raw []byte) (Document, error) {
	root, s, err := decode(raw, bounds{MaxNodes, MaxDepth})
	if err != nil {
		return Document{}, err
	}
	switch root.(type) {
	case map[string]any, bool:
		return Document{root, s.refs, s.nodes}, nil
	}
	return Document{}, errors.New("expected an object")
}

// Fault is one violation of a schema.
type Fault struct {
	Path     string   // JSON Pointer into the arguments; "" for the arguments themselves
	Expected string   // the requirement, in words
	Got      string   // the value sent, shortened
	Allowed  []any    // the values or property names to choose from, shortened
	Name     string   // the name sent instead of one of Names
	Names    []string // the valid names, if a name is wrong
}
