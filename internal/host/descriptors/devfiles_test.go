package descriptors

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/runtime"
)

func TestDevFiles(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{
		"main.py",
		"README.md",
		"lib/a.py",
		"lib/deep/b.py",
		"lib/node_modules/c.py",
		"data/x.json",
		"other/y.json",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct{ globs, files, dirs []string }{
		{nil, nil, nil},
		{[]string{"*.py"}, []string{"main.py"}, []string{"."}},
		{[]string{"./lib/*.py"}, []string{"lib/a.py"}, []string{".", "lib"}},
		{[]string{"**/*.py"}, []string{"lib/a.py", "lib/deep/b.py", "main.py"},
			[]string{".", "data", "lib", "lib/deep", "other"}},
		{[]string{"lib/**"}, []string{"lib/a.py", "lib/deep/b.py"}, []string{".", "lib", "lib/deep"}},
		{[]string{"d*/*.json", "*.md"}, []string{"README.md", "data/x.json"}, []string{".", "data"}},
		{[]string{"../../*", "[", "/etc/passwd"}, nil, []string{"."}},
	} {
		s := &runtime.Spec{Dir: dir, Manifest: &manifest.Manifest{Dev: manifest.Dev{Watch: tt.globs}}}
		rel := func(paths []string) (list []string) {
			for _, path := range paths {
				list = append(list, relative(dir, path))
			}
			return list
		}
		files, dirs := devFiles(s)
		if got := rel(files); !slices.Equal(got, tt.files) {
			t.Errorf("%q: files %q, want %q", tt.globs, got, tt.files)
		}
		if got := rel(dirs); !slices.Equal(got, tt.dirs) {
			t.Errorf("%q: directories %q, want %q", tt.globs, got, tt.dirs)
		}
	}
}

func TestMatchElements(t *testing.T) {
	deep := strings.Repeat("a/", 60)
	for _, tt := range []struct {
		glob, name string
		want       bool
	}{
		{"**", "a", true}, {"**/**", "a/b", true}, {"a/**", "a", true}, {"**/a", "a", true},
		{"**/b/*", "a/b/b/c", true}, {"**/b/**/d", "a/b/c/d", true},
		{"**/b/*/d", "a/b/d", false}, {"a/**/b", "a", false}, {"a", "a/b", false}, {"*/b", "b", false}, {"", "", true},
		{strings.Repeat("**/a/", 40) + "b", deep + "b", true},
		// naive backtracking would take years
		{strings.Repeat("**/a/", 40) + "b", deep + "c", false},
	} {
		if got := matchElements(strings.Split(tt.glob, "/"), strings.Split(tt.name, "/")); got != tt.want {
			t.Errorf("%.20s fits %.20s: %t", tt.glob, tt.name, got)
		}
	}
}
