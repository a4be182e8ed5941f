// Package literal writes string literals that TOML, YAML and JSON read alike.
package literal

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/text/rawjson"
)

// String quotes text on one line. It escapes what any of the formats forbids unescaped: DEL in TOML, further
// control characters and noncharacters in YAML. Invalid UTF-8 becomes U+FFFD.
func String(text string) string {
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

// List writes a list of strings on one line.
func List(texts []string) string {
	quoted := make([]string, len(texts))
	for i, s := range texts {
		quoted[i] = String(s)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// Map writes the members of m on one line, sorted by key. is separates key and value: " = " in TOML, ": " in YAML
// and JSON.
func Map(m map[string]string, is string) string {
	var pairs []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		pairs = append(pairs, String(key)+is+String(m[key]))
	}
	return "{ " + strings.Join(pairs, ", ") + " }"
}
