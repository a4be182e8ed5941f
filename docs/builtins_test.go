package docs_test

import (
	"fmt"
	"go/ast"
	"maps"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/governance/builtin"
)

// builtinCategories are where the examples of the built-in policies belong.
var builtinCategories = map[string]string{
	"access":        "authorization",
	"approval":      "authorization",
	"budget":        "rate_limiting",
	"cel":           "authorization",
	"hidden_text":   "content",
	"loop":          "rate_limiting",
	"output_schema": "validation",
	"pin":           "authorization",
	"rate_limit":    "rate_limiting",
	"redact":        "content",
	"schema":        "validation",
	"size_cap":      "content",
}

// builtinReference is a section for each built-in policy, of what the code says of
// its config: a sentence, an example that names every key, and the rest.
func builtinReference(t testing.TB) string {
	if diff := cmp.Diff(builtin.Names(), slices.Sorted(maps.Keys(builtinCategories))); diff != "" {
		t.Fatalf("builtinCategories (-builtin.Names +here):\n%s", diff)
	}
	configs := builtinConfigs(t)
	var b strings.Builder
	for _, name := range builtin.Names() {
		c, ok := configs[name]
		if !ok {
			t.Errorf("neither governance/builtin nor celpolicy has a type with a comment that begins \"is the config "+
				"of the built-in policy %s, which\"", name)
			continue
		}
		for _, key := range c.keys {
			if !strings.Contains(c.example, key+":") {
				t.Errorf("the example of %s does not name %s", name, key)
			}
		}
		fmt.Fprintf(&b, "### %s\n\n%s\n\n```yaml\nplugins:\n  - name: %s\n    category: %s\n    builtin: %s\n    "+
			"config:\n%s```\n\n%s\n\n",
			name, c.sentence, name, builtinCategories[name], name, c.example, c.rest)
	}
	return b.String()
}

// builtinConfig is what the code says of the config of a built-in policy.
type builtinConfig struct {
	sentence, example, rest string
	keys                    []string
}

var configComment = regexp.MustCompile(
	`(?s)^\w+ is the config of the built-in policy (\w+), which (.*?):\n\n(\t.*?)\n\n([^\t].*)$`)

// builtinConfigs reads all of them.
func builtinConfigs(t testing.TB) map[string]builtinConfig {
	var files []string
	for _, dir := range []string{"builtin", "celpolicy"} {
		found, err := filepath.Glob(filepath.Join(root, "governance", dir, "*.go"))
		if err != nil || len(found) == 0 {
			t.Fatal(dir, err)
		}
		files = append(files, found...)
	}
	configs := make(map[string]builtinConfig)
	for _, file := range files {
		rel, _ := filepath.Rel(root, file)
		parsed := parse(t, rel)
		keys := jsonKeys(parsed)
		ast.Inspect(parsed, func(n ast.Node) bool {
			d, ok := n.(*ast.GenDecl)
			if !ok {
				return true
			}
			if m := configComment.FindStringSubmatch(strings.TrimSpace(d.Doc.Text())); m != nil {
				c := builtinConfig{sentence: "It " + oneLine(m[2]) + ".", rest: oneLine(m[4]), keys: keys}
				for line := range strings.Lines(m[3] + "\n") {
					c.example += "      " + strings.TrimPrefix(line, "\t")
				}
				configs[m[1]] = c
			}
			return true
		})
	}
	return configs
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// jsonKeys are the keys of the structs of a file.
func jsonKeys(f *ast.File) (keys []string) {
	ast.Inspect(f, func(n ast.Node) bool {
		s, ok := n.(*ast.StructType)
		if !ok {
			return true
		}
		for _, field := range s.Fields.List {
			if field.Tag == nil {
				continue
			}
			// a result of redact
			if key := reflect.StructTag(strings.Trim(field.Tag.Value, "`")).Get("json"); key != "found" {
				keys = append(keys, key)
			}
		}
		return true
	})
	return keys
}
