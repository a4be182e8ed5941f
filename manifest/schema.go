package manifest

import (
	_ "embed"

	"github.com/invopop/jsonschema"
)

//go:generate go test -run ^TestSchemaIsCurrent$ -update .

//go:embed plugin.schema.json
var schema []byte

// Schema returns the JSON Schema of plugin.toml. Its descriptions are the
// comments of this package's fields.
func Schema() []byte { return append([]byte(nil), schema...) }

// JSONSchema is the schema of a duration.
func (Duration) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{Description: `a duration: "500ms", "10s", "5m", or a whole number of milliseconds`,
		OneOf: []*jsonschema.Schema{
			{Type: "string", Pattern: `^\d+$|^(\d+(\.\d*)?(ns|us|µs|ms|s|m|h))+$`},
			{Type: "integer", Minimum: "0"},
		}}
}

// JSONSchema is the schema of a size.
func (Size) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{Description: `a size: "512MiB" or a whole number of bytes`,
		OneOf: []*jsonschema.Schema{
			{Type: "string", Pattern: `^\d+ ?([kKmMgG]i?)?[bB]?$`},
			{Type: "integer", Minimum: "0"},
		}}
}

// JSONSchema is the schema of a number of instances.
func (Instances) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{Description: "how many children run",
		OneOf: []*jsonschema.Schema{
			{Type: "string", Pattern: `^(shared|per_session|[1-9]\d{0,3})$`},
			{Type: "integer", Minimum: "1", Maximum: "1024"},
		}}
}

// JSONSchema is the schema of a command line.
func (Command) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{Description: "a command line: one string, or its words",
		OneOf: []*jsonschema.Schema{
			{Type: "string"},
			{Type: "array", Items: &jsonschema.Schema{Type: "string"}},
		}}
}

// JSONSchemaExtend states what an id and a description may be.
func (Plugin) JSONSchemaExtend(s *jsonschema.Schema) {
	if id, ok := s.Properties.Get("id"); ok {
		id.Pattern, id.MaxLength = `^[a-z][a-z0-9_-]*$`, new(uint64(MaxIDLength))
	}
	if d, ok := s.Properties.Get("description"); ok {
		d.MaxLength = new(uint64(maxDescription))
	}
}

// JSONSchemaExtend states the words allowed and the other name of kind.
func (Transport) JSONSchemaExtend(s *jsonschema.Schema) {
	enum(s, "kind", kinds...)
	enum(s, "protocol", ProtocolNative, ProtocolMCP, ProtocolLite)
	enum(s, "mcp_version", mcpVersions...)
	alsoNamed(s, "kind", "type")
}

// JSONSchemaExtend states the other name of type, which has many spellings.
func (Server) JSONSchemaExtend(s *jsonschema.Schema) { alsoNamed(s, "type", "transport") }

// JSONSchemaExtend states the words allowed.
func (Runtime) JSONSchemaExtend(s *jsonschema.Schema) {
	enum(s, "activation", ActivationEager, ActivationLazy)
	enum(s, "replay", ReplayNever, ReplayIdempotent)
	enum(s, "reload", ReloadOverlap, ReloadStopFirst)
	enum(s, "isolate", IsolateNone, IsolatePID)
}

// JSONSchemaExtend states the words allowed.
func (HookSpec) JSONSchemaExtend(s *jsonschema.Schema) {
	enum(s, "event", eventNames()...)
	enum(s, "on_error", "allow", "deny")
}

func enum(s *jsonschema.Schema, key string, words ...string) {
	if p, ok := s.Properties.Get(key); ok {
		for _, w := range words {
			p.Enum = append(p.Enum, w)
		}
	}
}

func alsoNamed(s *jsonschema.Schema, key, alias string) {
	if p, ok := s.Properties.Get(key); ok {
		same := *p
		same.Description = "the same as " + key
		s.Properties.Set(alias, &same)
	}
}
