package config

import (
	_ "embed"
	"slices"
)

//go:generate go test -run TestSchema$ -update .

//go:embed schema.json
var schema []byte

// Schema returns the JSON Schema of configuration files, generated from the structs and their comments.
func Schema() []byte { return slices.Clone(schema) }
