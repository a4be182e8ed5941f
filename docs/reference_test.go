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
		{"docs/decisions.md", "pending", pendingList},
		{"docs/manifest.md", "manifest", manifestReference},
		{"docs/config.md", "config", configReference},
		{"docs/protocol.md", "kinds", kindsTable},
		{"docs/operators.md", "exit codes", exitCodes},
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
	page string // begins the keys of [pending]
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
	r.page = "manifest:"
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
	r.page = "config:"
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
	fmt.Fprintf(&r.out, "### %s\n\n%s\n\n", r.title(t.path), r.sentence(t.schema.Description)+r.sentence(note(r.page+t.path, " It is checked, and has ")))
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
			r.wait = append(r.wait, table{key, &jsonschema.Schema{Description: p.Value.Description, Properties: jsonschema.NewProperties()}})
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
	if required {
		def = "required"
	}
	kind := r.typeOf(s)
	if _, ok := r.milliseconds[path]; ok {
		kind = "duration"
	}
	fmt.Fprintf(&r.out, "| `%s` | %s | %s | %s |\n", key, cell(kind), cell(def), cell(strings.TrimPrefix(meaning+note(r.page+path, "; "), "; ")))
}

// twin reports whether key is another spelling of a key that s has: *_ms beside a
// duration, camelCase beside snake_case, a word that is accepted as well.
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

func (r *reference) typeOf(s *jsonschema.Schema) string {
	if where := r.elsewhere[r.refName(s)]; where != "" {
		return "[table](" + where + ")"
	}
	if name := strings.TrimPrefix(s.Ref, "#/$defs/"); name != "" {
		return strings.ToLower(name)
	}
	switch {
	case len(s.Enum) > 0:
		var words []string
		for _, w := range s.Enum {
			if word := fmt.Sprint(w); word == snake(word) || s.Enum[0] == "STDIO" {
				words = append(words, "`"+word+"`")
			}
		}
		return strings.Join(words, " ")
	case len(s.OneOf) > 0 && strings.Contains(s.OneOf[0].Pattern, "kKmMgG"):
		return "size"
	case len(s.OneOf) > 0 && len(s.OneOf[0].Enum) > 0:
		return "instances"
	case len(s.OneOf) > 0:
		return "command"
	case strings.Contains(s.Pattern, "ns|us"):
		return "duration"
	case s.Type == "array" && s.Items != nil:
		return "list of " + strings.Replace(r.typeOf(s.Items), "string", "strings", 1)
	case s.Type == "object" && s.AdditionalProperties != nil && s.AdditionalProperties.Type != "":
		return "table of " + s.AdditionalProperties.Type + "s"
	case s.Type == "object":
		return "table"
	}
	return s.Type
}

// defaultOf looks a key up in what the code says when nobody says anything.
func (r *reference) defaultOf(path string) string {
	value := r.defaults
	for key := range strings.SplitSeq(path, ".") {
		table, ok := value.(map[string]any)
		if !ok {
			return ""
		}
		value = table[key]
	}
	switch v := value.(type) {
	case nil, map[string]any:
		return ""
	case []any:
		words := make([]string, len(v))
		for i, w := range v {
			words[i] = fmt.Sprintf("`%v`", w)
		}
		return strings.Join(words, " ")
	case string:
		if v == "" {
			return ""
		}
	case float64:
		return "`" + number(int64(v)) + "`"
	}
	return fmt.Sprintf("`%v`", value)
}

var statedDefault = regexp.MustCompile(`(^|[;,]? )\(?default:? ([^;)]+)\)?`)

// splitDefault takes the default out of a comment.
func splitDefault(comment string) (def, meaning string) {
	if m := statedDefault.FindStringSubmatch(comment); m != nil {
		def = m[2]
		comment = strings.Trim(strings.Replace(comment, m[0], "", 1), ":;, ")
	}
	return def, comment
}

func cell(s string) string { return strings.ReplaceAll(strings.TrimSpace(s), "|", `\|`) }

// number writes what is a round number of bytes as one.
func number(n int64) string {
	if n >= 1<<20 && n%(1<<20) == 0 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprint(n)
}

// sentence makes the comment of a Go type one about what it describes.
func (r *reference) sentence(comment string) string {
	comment = r.plain(comment)
	if first, rest, ok := strings.Cut(comment, " "); ok && r.defs[first] != nil {
		comment = strings.TrimPrefix(strings.TrimPrefix(rest, "is "), "are ")
	}
	if comment == "" {
		return ""
	}
	if comment[0] == ' ' {
		return comment + "."
	}
	return strings.ToUpper(comment[:1]) + strings.TrimSuffix(comment[1:], ".") + "."
}

// plain says what comment says without Go in it.
func (r *reference) plain(comment string) string {
	if goDoc.MatchString(comment) {
		r.Errorf("this speaks to readers of the code: %s", comment)
	}
	return goName.ReplaceAllStringFunc(comment, func(name string) string { return snake(strings.TrimPrefix(name, "Spec.")) })
}

var (
	goDoc  = regexp.MustCompile(`\[[A-Z]\w+\]|\bnil\b`)
	goName = regexp.MustCompile(`\b(Call|Max)[A-Z][a-z]+([A-Z][a-z]+)?\b|\bSpec\.[A-Z]\w+|\bWindow\b`)
)

// unsaid are the meanings of keys without a comment.
var unsaid = map[string]string{
	"tools[].title":               "for people",
	"tools[].description":         "for the model: what it does and when to use it",
	"extensions.watch.enabled":    "whether anything is watched",
	"extensions.watch.mode":       "say what changed, or reload it",
	"extensions.env.mode":         "the host's variables less the secret-like ones, or a short list of harmless ones",
	"extensions.entries.ID.hooks": "which calls its hooks see: all, those of its own tools, none",
	"destinations.NAME.type":      "how it is reached",
	"hooks[].timeout":             "how long it may take",
	"transport.cwd":               "where it runs",
	"log.level":                   "what is less serious is not logged",
	"log.format":                  "auto is text on a terminal, else JSON",
}
