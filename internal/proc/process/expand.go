package process

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/exthost/exthost/internal/text/display"
)

var varName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Expand replaces ${VAR} by the result of lookup, ${VAR:-default} by default if VAR is missing or empty, and $${ by ${.
// All other text, including $VAR, stays unchanged. The error names all missing variables, or the malformed reference.
func Expand(s string, lookup func(name string) (string, bool)) (string, error) {
	var b strings.Builder
	var missing []string
	for rest := s; ; {
		before, after, ok := strings.Cut(rest, "${")
		if literal, escaped := strings.CutSuffix(before, "$"); ok && escaped {
			b.WriteString(literal + "${")
			rest = after
			continue
		}
		b.WriteString(before)
		if !ok {
			break
		}
		ref, after, ok := strings.Cut(after, "}")
		name, fallback, hasFallback := strings.Cut(ref, ":-")
		if !ok || !varName.MatchString(name) {
			return "", fmt.Errorf("malformed reference ${%s: write ${NAME} or ${NAME:-default}, or $${ for a plain ${",
				display.Escape(ref))
		}
		value, found := lookup(name)
		switch {
		case hasFallback && value == "":
			value = fallback
		case !found:
			missing = append(missing, name)
		}
		b.WriteString(value)
		rest = after
	}
	if len(missing) > 0 {
		return "", fmt.Errorf("not set, or withheld from extensions: %s; set and declare it, or write ${NAME:-default}",
			strings.Join(missing, ", "))
	}
	return b.String(), nil
}
