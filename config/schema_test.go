package config_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/invopop/jsonschema"
	validator "github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/manifest"
)

var update = flag.Bool("update", false, "rewrite generated and golden files")

// The committed schema is up to date.
func TestSchema(t *testing.T) {
	got := generate(t)
	if *update {
		if err := os.WriteFile("schema.json", got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(config.Schema()), string(got)); diff != "" {
		t.Errorf("schema.json is not what the structs say: run go generate ./config (-have +want):\n%s", diff)
	}
}

// The schema accepts the files that load, and refuses those that the decoder refuses.
func TestSchemaAgreesWithLoad(t *testing.T) {
	doc, err := validator.UnmarshalJSON(bytes.NewReader(config.Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := validator.NewCompiler()
	if err := c.AddResource("config.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("config.json")
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		json string
		ok   bool
	}{
		{`{}`, true},
		{`{"extensions": {"max_depth": 3, "watch": {"debounce_ms": 250}, "defaults": {"call_timeout": "5s", "call_timeout_ms": 5}}}`, true},
		{`{"plugins": [{"name": "a", "category": "audit", "timeoutMs": 10, "commitHash": "x"}]}`, true},
		{`{"destinations": {"a": {"command": "npx a"}}}`, true},
		{`{"destinations": [{"name": "a", "command": ["npx", "a"], "instances": 3}]}`, true},
		{`{"extensions": {"max_dept": 3}}`, false},
		{`{"extensions": {"max_depth": 0}}`, false},
		{`{"log": {"level": "loud"}}`, false},
		{`{"plugins": [{"name": "a", "category": "auditing"}]}`, false},
		{`{"server": {"metrics": "yes"}}`, false},
	}
	for _, tt := range tests {
		v, err := validator.UnmarshalJSON(strings.NewReader(tt.json))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(v); (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.json, err)
		}
	}
}

// generate makes the schema from the structs; their comments become descriptions.
func generate(t *testing.T) []byte {
	t.Helper()
	t.Chdir("..") // jsonschema looks for comments relative to the module's root
	r := &jsonschema.Reflector{RequiredFromJSONSchemaTags: true, Mapper: mapType}
	for _, dir := range []string{
		"config",
		"governance",
		"internal/recording/faults",
		"internal/listing/toolsearch",
		"internal/listing/toolset",
		"manifest",
	} {
		if err := r.AddGoComments("github.com/exthost/exthost", dir); err != nil {
			t.Fatal(err)
		}
	}
	maps.DeleteFunc(r.CommentMap, func(key, _ string) bool {
		return strings.Contains(key, "/internal/") && !strings.Contains(key, "/internal/listing/toolset.") &&
			!strings.Contains(key, "/internal/recording/faults.") &&
			!strings.Contains(key, "/internal/listing/toolsearch.")
	})
	for name, comment := range r.CommentMap {
		r.CommentMap[name] = strings.ReplaceAll(comment, "\n", " ")
	}
	s := r.Reflect(&config.Config{})
	s.ID = "https://raw.githubusercontent.com/exthost/exthost/main/config/schema.json"
	s.Title = "exthost configuration"
	for name, def := range s.Definitions {
		aliases(def, name == "Spec" || name == "MCP" || name == "Condition")
	}
	list(s)
	out, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir("config")
	return append(out, '\n')
}

// mapType returns the schemas of types with an unmarshaler of their own.
func mapType(t reflect.Type) *jsonschema.Schema {
	text := func(pattern string) *jsonschema.Schema { return &jsonschema.Schema{Type: "string", Pattern: pattern} }
	whole := &jsonschema.Schema{Type: "integer", Minimum: "0"}
	switch t {
	case reflect.TypeFor[manifest.Duration]():
		return text(`^([0-9.]+(ns|us|µs|ms|s|m|h))+$|^0$|\$\{`)
	case reflect.TypeFor[manifest.Size]():
		return &jsonschema.Schema{
			OneOf: []*jsonschema.Schema{text(`^[0-9]+ ?([kKmMgG]([iI]?[bB])?|[bB])?$|\$\{`), whole},
		}
	case reflect.TypeFor[config.Ratio]():
		return &jsonschema.Schema{
			OneOf: []*jsonschema.Schema{{Type: "string"}, {Type: "number", Minimum: "0", Maximum: "1"}},
		}
	case reflect.TypeFor[manifest.Instances]():
		return &jsonschema.Schema{
			OneOf: []*jsonschema.Schema{
				{Enum: []any{"shared", "per_session"}},
				{Type: "integer", Minimum: "1", Maximum: "1024"},
			},
		}
	case reflect.TypeFor[manifest.Command]():
		return &jsonschema.Schema{
			OneOf: []*jsonschema.Schema{{Type: "string"}, {Type: "array", Items: &jsonschema.Schema{Type: "string"}}},
		}
	}
	if e, ok := reflect.Zero(t).Interface().(interface{ Values() []string }); ok && t.Kind() == reflect.String {
		s := &jsonschema.Schema{Type: "string"}
		for _, v := range e.Values() {
			s.Enum = append(s.Enum, v)
		}
		return s
	}
	return nil
}

// aliases adds the other accepted spellings of each key.
func aliases(def *jsonschema.Schema, camel bool) {
	if def.Properties == nil {
		return
	}
	var keys []string
	for p := def.Properties.Oldest(); p != nil; p = p.Next() {
		keys = append(keys, p.Key)
	}
	for _, key := range keys {
		value, _ := def.Properties.Get(key)
		base, ms := strings.CutSuffix(key, "_ms")
		switch {
		case ms:
			value.Type, value.Pattern, value.Minimum = "integer", "", "0"
			def.Properties.Set(base, &jsonschema.Schema{Type: "string", Description: value.Description})
		case value.Type == "string" && strings.HasPrefix(value.Pattern, "^([0-9.]+"):
			def.Properties.Set(key+"_ms",
				&jsonschema.Schema{Type: "integer", Minimum: "0", Description: value.Description})
		}
		if c := camelCase(key); camel && c != key {
			def.Properties.Set(c, value)
		}
	}
}

func camelCase(key string) string {
	parts := strings.Split(key, "_")
	for i, p := range parts[1:] {
		parts[i+1] = strings.ToUpper(p[:1]) + p[1:]
	}
	return strings.Join(parts, "")
}

// list allows destinations to be a list of elements with a name.
func list(s *jsonschema.Schema) {
	named := *s.Definitions["Destination"]
	named.Properties = jsonschema.NewProperties()
	named.Properties.Set("name", &jsonschema.Schema{Type: "string"})
	for p := s.Definitions["Destination"].Properties.Oldest(); p != nil; p = p.Next() {
		named.Properties.Set(p.Key, p.Value)
	}
	named.Required = slices.Concat(named.Required, []string{"name"})
	s.Definitions["NamedDestination"] = &named
	s.Definitions["Destinations"] = &jsonschema.Schema{OneOf: []*jsonschema.Schema{
		s.Definitions["Destinations"],
		{Type: "array", Items: &jsonschema.Schema{Ref: "#/$defs/NamedDestination"}},
	}}
}
