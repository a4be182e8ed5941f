package strict

import (
	"strconv"
	"strings"

	"github.com/exthost/exthost/internal/nearest"
)

// DidYouMean is the hint for a word that is none of the candidates, "" when none
// is close.
func DidYouMean(word string, candidates []string) string {
	if c := nearest.Of(word, candidates); c != "" {
		return "did you mean " + quote(c) + "?"
	}
	return ""
}

// choose is [DidYouMean], or all there is to choose from.
func choose(word string, candidates []string) string {
	if hint := DidYouMean(word, candidates); hint != "" {
		return hint
	}
	return "one of " + strings.Join(candidates, ", ")
}

func quote(s string) string { return strconv.Quote(s) }

// snake turns camelCase into snake_case.
func snake(key string) string {
	var b strings.Builder
	for i, c := range key {
		if 'A' <= c && c <= 'Z' {
			if i > 0 {
				b.WriteByte('_')
			}
			c += 'a' - 'A'
		}
		b.WriteRune(c)
	}
	return b.String()
}
