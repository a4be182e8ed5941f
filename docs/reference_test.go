package docs_test

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/invopop/jsonschema"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/manifest"
)

var update = flag.Bool("update", false, "rewrite the generated parts of the pages")

// TestReference holds the generated parts of the pages against the code.
func TestReference(t *testing.T) {
	for _, part := range []struct {
		page, name string
		text       func(testing.TB) string
	}{
		{"docs/manifest.md", "manifest", manifestReference},
		{"docs/config.md", "config", configReference},
		{"docs/governance.md", "built-in policies", builtinReference},
		{"docs/protocol.md", "kinds", kindsTable},
		{"docs/errors.md", "exit codes", exitCodes},
		{"docs/hooks.md", "points", pointsTable},
		{"docs/diagnose.md", "metrics", metricsTable},
	} {
		p := readPage(t, part.page)
		before, rest, ok1 := strings.Cut(p.text, "<!-- generated: "+part.name+" -->\n")
		got, after, ok2 := strings.Cut(rest, "<!-- end -->\n")
		if !ok1 || !ok2 {
			t.Fatalf("%s has no place for %s", part.page, part.name)
		}
		want := "\n" + strings.TrimSpace(part.text(t)) + "\n\n"
		if *update {
			text := before + "<!-- generated: " + part.name + " -->\n" + want + "<!-- end -->\n" + after
			if err := os.WriteFile(filepath.Join(root, part.page), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("%s is stale, run go generate ./docs (-want +got):\n%s", part.page, diff)
		}
	}
}

// reference writes the tables of one JSON Schema.
type reference struct {
	testing.TB
	out          strings.Builder
	defs         jsonschema.Definitions
	defaults     any                  // what [config.Default] says; nil has none
	elsewhere    map[string]string    // tables described on another page: where
	runtime      map[string][2]string // of [runtime]: default and meaning by key
	milliseconds map[string]bool      // the keys that may end in _ms
	title        func(path string) string
	wait         []table // tables to come
}

// table is an object that gets a heading.
type table struct {
	path   string
	schema *jsonschema.Schema
}

func newReference(t testing.TB, schema []byte) (*reference, *jsonschema.Schema) {
	t.Helper()
	var s jsonschema.Schema
	if err := json.Unmarshal(schema, &s); err != nil {
		t.Fatal(err)
	}
	r := &reference{TB: t, defs: s.Definitions, runtime: runtimeFields(t), milliseconds: map[string]bool{}}
	return r, r.resolve(&s)
}

func (r *reference) resolve(s *jsonschema.Schema) *jsonschema.Schema {
	if name, ok := strings.CutPrefix(s.Ref, "#/$defs/"); ok {
		return r.defs[name]
	}
	return s
}

func manifestReference(t testing.TB) string {
	r, s := newReference(t, manifest.Schema())
	r.title = func(path string) string {
		if name, ok := strings.CutSuffix(path, "[]"); ok {
			return "[[" + name + "]]"
		}
		return "[" + path + "]"
	}
	r.children("", s)
	r.tables()
	return r.out.String()
}

func configReference(t testing.TB) string {
	r, s := newReference(t, config.Schema())
	data, err := json.Marshal(config.Default())
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &r.defaults); err != nil {
		t.Fatal(err)
	}
	r.elsewhere = map[string]string{"Runtime": "manifest.md#runtime", "HookSpec": "manifest.md#hooks"}
	r.title = func(path string) string { return path }
	r.children("", s)
	r.tables()
	return r.out.String()
}

func (r *reference) tables() {
	for len(r.wait) > 0 {
		t := r.wait[0]
		r.wait = r.wait[1:]
		r.table(t)
	}
}

// table writes one heading with its fields, then the tables within.
func (r *reference) table(t table) {
	later := r.wait
	r.wait = nil
	fmt.Fprintf(&r.out, "### %s\n\n%s\n\n", r.title(t.path), r.sentence(t.schema.Description))
	if t.schema.Properties.Len() > 0 {
		r.out.WriteString("| key | type | default | meaning |\n|---|---|---|---|\n")
		r.children(t.path, t.schema)
		r.out.WriteString("\n")
	}
	r.wait = append(r.wait, later...)
}

// children writes a row for each field of s, but sets tables aside.
func (r *reference) children(path string, s *jsonschema.Schema) {
	for p := s.Properties.Oldest(); p != nil; p = p.Next() {
		if twin(s, p.Key) {
			continue
		}
		key := strings.TrimPrefix(path+"."+p.Key, ".")
		if _, ok := s.Properties.Get(p.Key + "_ms"); ok {
			r.milliseconds[key] = true
		}
		switch inner, suffix := r.object(p.Value); {
		case inner != nil && r.elsewhere[r.refName(p.Value)] == "":
			r.wait = append(r.wait, table{key + suffix, inner})
		case path == "":
			description := p.Value.Description
			if where := r.elsewhere[r.refName(p.Value)]; where != "" {
				description += "; each has [these keys](" + where + ")"
			}
			r.wait = append(r.wait,
				table{key, &jsonschema.Schema{Description: description, Properties: jsonschema.NewProperties()}})
		default:
			r.row(key, p.Key, p.Value, slices.Contains(s.Required, p.Key))
		}
	}
}

func (r *reference) row(path, key string, s *jsonschema.Schema, required bool) {
	def, meaning := splitDefault(r.plain(s.Description))
	meaning = cmp.Or(meaning, unsaid[path])
	if known := r.defaultOf(path); known != "" {
		def = known
	}
	if stated, ok := r.runtime[path]; ok && r.defaults == nil {
		def, meaning = stated[0], cmp.Or(r.plain(stated[1]), meaning)
	}
	if def == "" && s.Default != nil {
		def = fmt.Sprintf("`%v`", s.Default)
	}
	if required {
		def = "required"
	}
	kind := r.typeOf(s)
	if r.milliseconds[path] {
		kind = "duration"
		if _, err := strconv.Atoi(def); err == nil {
			def += " ms"
		}
	}
	if meaning == "" {
		r.Errorf("nothing says what %s means", path)
	}
	fmt.Fprintf(&r.out, "| `%s` | %s | %s | %s |\n", key, cell(kind), cell(def), cell(meaning))
}

// twin reports whether key is an alias of another key of s: *_ms for a duration, camelCase for snake_case, or a key
// whose description calls it the same as another.
func twin(s *jsonschema.Schema, key string) bool {
	p, _ := s.Properties.Get(key)
	if strings.HasPrefix(p.Description, "the same as ") {
		return true
	}
	for _, other := range []string{strings.TrimSuffix(key, "_ms"), snake(key)} {
		if _, ok := s.Properties.Get(other); ok && other != key {
			return true
		}
	}
	return false
}

func snake(s string) string {
	return strings.ToLower(regexp.MustCompile(`([a-z])([A-Z])`).ReplaceAllString(s, "${1}_$2"))
}

// object returns the fields behind a property that is a table, a list of tables
// or a map of them.
func (r *reference) object(s *jsonschema.Schema) (*jsonschema.Schema, string) {
	s = r.resolve(s)
	switch {
	case s.Properties != nil && s.Properties.Len() > 0:
		return s, ""
	case s.Items != nil:
		if o, suffix := r.object(s.Items); o != nil && suffix == "" {
			return o, "[]"
		}
	case s.AdditionalProperties != nil:
		if o := r.resolve(s.AdditionalProperties); o.Properties != nil && o.Properties.Len() > 0 {
			if strings.HasSuffix(s.AdditionalProperties.Ref, "/Entry") {
				return o, ".ID"
			}
			return o, ".NAME"
		}
	case len(s.OneOf) > 0:
		return r.object(s.OneOf[0])
	}
	return nil, ""
}

func (r *reference) refName(s *jsonschema.Schema) string {
	for s.Items != nil {
		s = s.Items
	}
	return strings.TrimPrefix(s.Ref, "#/$defs/")
}
