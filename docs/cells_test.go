package docs_test

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/invopop/jsonschema"
)

// typeOf says in a word or two what a key takes.
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
	case len(s.OneOf) > 1 && s.OneOf[1].Type == "number":
		return "number"
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
	return goName.ReplaceAllStringFunc(comment,
		func(name string) string { return snake(strings.TrimPrefix(name, "Spec.")) })
}

var (
	goDoc  = regexp.MustCompile(`\[[A-Z]\w+\]|\bnil\b`)
	goName = regexp.MustCompile(`\b(Call|Max)[A-Z][a-z]+([A-Z][a-z]+)?\b|\bSpec\.[A-Z]\w+|\bWindow\b`)
)

// unsaid are the meanings of keys without a comment.
var unsaid = map[string]string{
	"tools[].title":            "for people",
	"tools[].description":      "for the model: what it does and when to use it",
	"extensions.watch.enabled": "whether the host watches for changes",
	"extensions.watch.mode":    "log: report changes; reload: apply them",
	"extensions.env.mode": "filter: the host's variables without secret-like ones; allowlist: a short list " +
		"of harmless ones",
	"extensions.entries.ID.hooks": "which calls its hooks see: all, those of its own tools, none",
	"destinations.NAME.type":      "how the host reaches the server",
	"hooks[].timeout":             "how long it may take",
	"transport.cwd":               "where it runs",
	"log.level":                   "less serious records are not logged",
	"log.format":                  "auto is text on a terminal, else JSON",
}
