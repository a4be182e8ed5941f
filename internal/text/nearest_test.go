package text

import (
	"strings"
	"testing"
)

func TestTyposAreFound(t *testing.T) {
	candidates := []string{"max_depth", "search_paths", "follow_links", "id"}
	for word, want := range map[string]string{
		"maxDepth": "max_depth", "serach_paths": "search_paths", "folow_link": "follow_links",
		"di": "id", "entirely-else": "", "": "", strings.Repeat("x", 5000): "",
	} {
		if got := Nearest(word, candidates); got != want {
			t.Errorf("Nearest(%.20q) = %q, want %q", word, got, want)
		}
	}
}
