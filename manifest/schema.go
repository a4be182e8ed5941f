package manifest

import (
	_ "embed"
	"slices"

	"github.com/invopop/jsonschema"

	"github.com/exthost/exthost/protocol"
)

//go:generate go test -run ^TestSchemaIsCurrent$ -update .

//go:embed plugin.schema.json
var schema []byte

// Schema returns the JSON Schema of plugin.toml, generated from the structs and their comments.
func Schema() []byte { return slices.Clone(schema) }

// JSONSchema accepts text or whole milliseconds.
func (Duration) JSONSchema() *jsonschema.Schema {
	return textOr(`a duration: "500ms", "10s", "5m", or a whole number of milliseconds`,
		`^\d+$|^(\d+(\.\d*)?(ns|us|µs|ms|s|m|h))+$`,
		jsonschema.Schema{Type: "integer", Minimum: "0"})
}

// JSONSchema accepts text or whole bytes.
func (Size) JSONSchema() *jsonschema.Schema {
	return textOr(`a size: "512MiB" or a whole number of bytes`, `^\d+ ?([kKmMgG]i?)?[bB]?$`,
		jsonschema.Schema{Type: "integer", Minimum: "0"})
}

// JSONSchema accepts the words of a risk.
func (Risks) JSONSchema() *jsonschema.Schema {
	risk := &jsonschema.Schema{Type: "string"}
	for _, word := range protocol.Risk("").Values() {
		risk.Enum = append(risk.Enum, word)
	}
	return &jsonschema.Schema{Type: "object", AdditionalProperties: risk}
}

// JSONSchema accepts a word or a number.
func (Instances) JSONSchema() *jsonschema.Schema {
	return textOr("how many children run", `^(shared|per_session|[1-9]\d{0,3})$`,
		jsonschema.Schema{Type: "integer", Minimum: "1", Maximum: "1024"})
}

// JSONSchema accepts a string or an array.
func (Command) JSONSchema() *jsonschema.Schema {
	return textOr("a command line: one string, or its words", "",
		jsonschema.Schema{Type: "array", Items: &jsonschema.Schema{Type: "string"}})
}

// textOr returns a schema of text with a pattern, or of one other form.
func textOr(description, pattern string, other jsonschema.Schema) *jsonschema.Schema {
	return &jsonschema.Schema{
		Description: description,
		OneOf:       []*jsonschema.Schema{{Type: "string", Pattern: pattern}, &other},
	}
}

// JSONSchemaExtend adds the limits of id and description.
func (Plugin) JSONSchemaExtend(s *jsonschema.Schema) {
	if id, ok := s.Properties.Get("id"); ok {
		id.Pattern, id.MaxLength = idPattern.String(), new(uint64(MaxIDLength))
	}
	if d, ok := s.Properties.Get("description"); ok {
		d.MaxLength = new(uint64(maxDescription))
	}
}

// JSONSchemaExtend adds the allowed words and the alias of kind.
func (Transport) JSONSchemaExtend(s *jsonschema.Schema) {
	enum(s, "kind", kinds...)
	enum(s, "protocol", ProtocolNative, ProtocolMCP, ProtocolLite)
	enum(s, "mcp_version", mcpVersions...)
	enum(s, "match", MatchStrict, MatchNearest)
	enum(s, "latency", LatencyNone, LatencyReal)
	alsoNamed(s, "kind", "type")
}

// JSONSchemaExtend adds the alias of type, which has too many spellings for an enum.
func (Server) JSONSchemaExtend(s *jsonschema.Schema) { alsoNamed(s, "type", "transport") }

// JSONSchemaExtend adds the allowed words.
func (Runtime) JSONSchemaExtend(s *jsonschema.Schema) {
	enum(s, "activation", ActivationEager, ActivationLazy)
	enum(s, "replay", ReplayNever, ReplayIdempotent)
	enum(s, "reload", ReloadOverlap, ReloadStopFirst)
	enum(s, "isolate", IsolateNone, IsolatePID)
}

// JSONSchemaExtend adds the allowed words.
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
