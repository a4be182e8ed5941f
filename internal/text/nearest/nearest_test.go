package nearest

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
		if got := Of(word, candidates); got != want {
			t.Errorf("Of(%.20q) = %q, want %q", word, got, want)
		}
	}
}
