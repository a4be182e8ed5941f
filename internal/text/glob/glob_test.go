package glob

import (
	"path"
	"strings"
	"testing"
)

func TestMatch(t *testing.T) {
	tests := []struct {
		glob, name string
		want       bool
	}{
		{"*", "", true}, {"*", "a/b/c", true}, {"a*c", "a/b/c", true}, {"a*c", "a/b/cd", false}, {"**a", "ba", true},
		{"", "", true}, {"a", "", false},
		{"?", "ä", true}, {"?", "/", true}, {"?", "ab", false}, {"[a-cä]x", "äx", true}, {"[^a]x", "ax", false},
		{"[^a]x", "bx", true}, {`[\]]`, "]", true},
		{`\*`, "*", true}, {`\*`, "a", false}, {"*a*b*c", "xxaxxbxxc", true}, {"*a*b*c", "xxaxxbxx", false},
		{"a*", "A", false}, {"[", "[", false},
		{"ext_*_?", "ext_x_yz_z", true}, {strings.Repeat("*a", 50), strings.Repeat("a", 5000) + "b", false},
	}
	for _, tt := range tests {
		if got := Match(tt.glob, tt.name); got != tt.want {
			t.Errorf("%q fits %q: %t", tt.glob, tt.name, got)
		}
	}
}

func TestCheck(t *testing.T) {
	for _, glob := range []string{"", "[", "[b", "a\\", "[]a]"} {
		if err := Check(glob); err == nil || !strings.Contains(err.Error(), "is not a glob") {
			t.Errorf("Check(%q) = %v", glob, err)
		}
	}
	for _, glob := range []string{"a*", "[b]", "?", "[^a-z]", `\[`} {
		if err := Check(glob); err != nil {
			t.Error(err)
		}
	}
}

// Match agrees with [path.Match], except for names with a slash.
func FuzzMatch(f *testing.F) {
	for _, seed := range [][2]string{
		{"a*b?[c-e]", "axxbyd"},
		{`\**`, "*"},
		{"[^ä]*", "öa"},
		{"*\xff?", "a\xffb"},
		{"*/?*", "a/bc/d"},
		{"*[^x]?", "a/b"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, glob, name string) {
		want, err := path.Match(glob, name)
		if err != nil || Check(glob) != nil {
			return
		}
		if got := Match(glob, name); got != want && !(got && strings.Contains(name, "/")) {
			t.Errorf("%q fits %q: %t", glob, name, got)
		}
	})
}
