package config

import (
	_ "embed"
	"slices"
)

//go:generate go test -run TestSchema$ -update .
//go:generate go test ../internal/supply/lock -run TestSchema$ -update

//go:embed schema.json
var schema []byte

//go:embed lock.schema.json
var lockSchema []byte

// Schema returns the JSON Schema of configuration files, generated from the structs and their comments.
func Schema() []byte { return slices.Clone(schema) }

// LockSchema returns the JSON Schema of exthost.lock, generated in the same way. It lies here because the address of
// this folder stays.
func LockSchema() []byte { return slices.Clone(lockSchema) }
