package config

import (
	_ "embed"
	"slices"
)

//go:generate go test -run TestSchema$ -update .

//go:embed schema.json
var schema []byte

// Schema returns the JSON Schema of the host's files, for editors. It is generated
// from the structs and their comments.
func Schema() []byte { return slices.Clone(schema) }
