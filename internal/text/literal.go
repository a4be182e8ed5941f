package text

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/text/rawjson"
)

// Literal quotes text on one line, in a form that TOML, YAML and JSON read alike. It escapes what any of them forbids
// unescaped: DEL in TOML, further control characters and noncharacters in YAML. Invalid UTF-8 becomes U+FFFD.
func Literal(text string) string {
	var b strings.Builder
	for _, c := range string(rawjson.Quote(text)) {
		if c >= 0x7f && c <= 0x9f || c == 0xfeff || c == 0xfffe || c == 0xffff {
			fmt.Fprintf(&b, "\\u%04x", c)
		} else {
			b.WriteRune(c)
		}
	}
	return b.String()
}

// LiteralList writes a list of strings on one line, see [Literal].
func LiteralList(texts []string) string {
	quoted := make([]string, len(texts))
	for i, s := range texts {
		quoted[i] = Literal(s)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// LiteralMap writes the members of m on one line, sorted by key. is separates key and value: " = " in TOML, ": " in
// YAML and JSON.
func LiteralMap(m map[string]string, is string) string {
	var pairs []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		pairs = append(pairs, Literal(key)+is+Literal(m[key]))
	}
	return "{ " + strings.Join(pairs, ", ") + " }"
}
