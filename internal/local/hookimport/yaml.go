package hookimport

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"

	"github.com/exthost/exthost/internal/text/rawjson"
)

// YAML returns the hooks section of the host's configuration.
func (r *Result) YAML() []byte {
	var b bytes.Buffer
	if len(r.Hooks) == 0 {
		return []byte("hooks: []\n")
	}
	b.WriteString("hooks:\n")
	for i := range r.Hooks {
		h := &r.Hooks[i]
		fmt.Fprintf(&b, "  - event: %s\n", h.Event)
		if h.Matcher != "" {
			fmt.Fprintf(&b, "    matcher: %s\n", scalar(h.Matcher))
		}
		words := make([]string, len(h.Command))
		for i, word := range h.Command {
			words[i] = scalar(word)
		}
		fmt.Fprintf(&b, "    command: [%s]\n", strings.Join(words, ", "))
		if h.Timeout != nil {
			fmt.Fprintf(&b, "    timeout: %s\n", h.Timeout)
		}
		fmt.Fprintf(&b, "    on_error: %s\n", h.OnError)
	}
	return b.Bytes()
}

// scalar quotes text as a YAML scalar in which the configuration replaces no variables. A
// JSON string is such a scalar.
func scalar(text string) string {
	var out strings.Builder
	for _, r := range string(rawjson.Quote(strings.ReplaceAll(text, "${", "$${"))) {
		switch {
		case unicode.IsPrint(r):
			out.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&out, `\U%08x`, r)
		default: // YAML forbids some control characters
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return out.String()
}
