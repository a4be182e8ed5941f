package lock

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/google/go-cmp/cmp"
	reflector "github.com/invopop/jsonschema"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/exthost/exthost/config"
)

var update = flag.Bool("update", false, "rewrite the schema")

// TestSchema holds the schema of lock files against the structs and their comments.
func TestSchema(t *testing.T) {
	r := reflector.Reflector{Anonymous: true, ExpandedStruct: true, RequiredFromJSONSchemaTags: true}
	if err := r.AddGoComments("github.com/exthost/exthost/internal/supply/lock", "."); err != nil {
		t.Fatal(err)
	}
	for name, comment := range r.CommentMap {
		r.CommentMap[name] = strings.NewReplacer("\n", " ", "[", "", "]", "").Replace(comment)
	}
	s := r.Reflect(&File{})
	s.ID = "https://raw.githubusercontent.com/exthost/exthost/main/config/lock.schema.json"
	s.Title = FileName
	want, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	want = append(want, '\n')
	if *update {
		if err := os.WriteFile(filepath.Join("..", "..", "..", "config", "lock.schema.json"), want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(want), string(config.LockSchema())); diff != "" {
		t.Errorf("config/lock.schema.json is stale, run go generate ./config (-want +got):\n%s", diff)
	}
}

// TestSchemaAgreesWithParse checks that the schema accepts what is written, and refuses what parse refuses.
func TestSchemaAgreesWithParse(t *testing.T) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(config.LockSchema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("lock.json", doc); err != nil {
		t.Fatal(err)
	}
	schema := c.MustCompile("lock.json")
	whole := string(sample().Text())
	for name, tt := range map[string]struct {
		text string
		ok   bool
	}{
		"all there is":        {whole, true},
		"nothing":             {"version = 1\n", true},
		"no version":          {strings.Replace(whole, "version = 1\n", "", 1), false},
		"another version":     {strings.Replace(whole, "version = 1\n", "version = 2\n", 1), false},
		"an unknown key":      {strings.Replace(whole, "version = 1\n", "version = 1\nfrozen = true\n", 1), false},
		"an unknown field":    {strings.Replace(whole, "approved_by", "approver", 1), false},
		"no manifest":         {"version = 1\n[extensions.x]\nfiles = \"sha256:ab\"\n", false},
		"a manifest's name":   {"version = 1\n[extensions.x]\nmanifest = \"x\"\nfiles = \"sha256:ab\"\n", false},
		"no files":            {"version = 1\n[extensions.x]\nmanifest = \"" + Sum(nil) + "\"\n", false},
		"a tree of another":   {strings.Replace(whole, "h1:", "h2:", 1), false},
		"a word for a list":   {strings.Replace(whole, `["esbuild"]`, `"esbuild"`, 1), false},
		"a number for a word": {strings.Replace(whole, `version = "1.2.3"`, `version = 1.2`, 1), false},
	} {
		var values map[string]any
		if _, err := toml.Decode(tt.text, &values); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		raw, err := json.Marshal(values)
		if err != nil {
			t.Fatal(err)
		}
		instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(instance); (err == nil) != tt.ok {
			t.Errorf("%s: the schema says %v", name, err)
		}
		if f, diags := parse(FileName, []byte(tt.text)); (f != nil) != tt.ok {
			t.Errorf("%s: parse says %v", name, diags)
		}
	}
}
