package manifest

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/google/go-cmp/cmp"
	reflector "github.com/invopop/jsonschema"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

var update = flag.Bool("update", false, "rewrite the schemas")

func TestSchemaIsCurrent(t *testing.T) {
	r := reflector.Reflector{Anonymous: true, ExpandedStruct: true}
	const pkg = "github.com/exthost/exthost/manifest"
	if err := r.AddGoComments(pkg, "."); err != nil {
		t.Fatal(err)
	}
	for name, comment := range r.CommentMap {
		r.CommentMap[name] = strings.ReplaceAll(comment, "\n", " ")
	}
	for _, f := range []struct {
		name, title string
		of          any
		got         []byte
	}{
		{"plugin.schema.json", "plugin.toml", &Manifest{}, Schema()},
		{"tables.schema.json", "io.github.exthost in a plugin.json", &Tables{}, TablesSchema()},
	} {
		s := r.Reflect(f.of)
		s.ID = reflector.ID("https://raw.githubusercontent.com/exthost/exthost/main/manifest/" + f.name)
		s.Title = f.title
		want, err := json.MarshalIndent(s, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, '\n')
		if *update {
			if err := os.WriteFile(f.name, want, 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if diff := cmp.Diff(string(want), string(f.got)); diff != "" {
			t.Errorf("%s is stale, run go generate (-want +got):\n%s", f.name, diff)
		}
	}
}

// againstSchema validates a manifest as an editor would.
func againstSchema(t *testing.T, text string) error {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("plugin.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if _, err := toml.Decode(text, &values); err != nil {
		t.Fatal(err)
	}
	raw, err := EncodeJSON(values)
	if err != nil {
		t.Fatal(err)
	}
	instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	return c.MustCompile("plugin.schema.json").Validate(instance)
}

func TestSchemaAcceptsWhatParseAccepts(t *testing.T) {
	for name, text := range validManifests {
		if err := againstSchema(t, text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSchemaRefuses(t *testing.T) {
	for name, more := range map[string]string{
		"an unknown table":      "[plugins]\n",
		"an unknown key":        "[context]\npassthru = true\n",
		"an unknown nested key": "[runtime.restart]\nattempts = 3\n",
		"a wrong type":          "[requires]\nbins = \"ffmpeg\"\n",
		"an unknown word":       "[runtime]\nactivation = \"soon\"\n",
		"a bad duration":        "[runtime]\ncall_timeout = \"soon\"\n",
		"a tool without a name": "[[tools]]\ndescription = \"x\"\n",
	} {
		if err := againstSchema(t, minimal+more); err == nil {
			t.Errorf("the schema accepts %s", name)
		}
	}
}
