package consent

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/exthost/exthost/discovery"
)

// TestContentChecks: an extension writes files under ever new names, and what is known about those that it has removed
// does not stay in memory.
func TestContentChecks(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "kit")
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("plugin.toml", "[plugin]\nid = \"kit\"\nversion = \"0.1.0\"\n[transport]\ncommand = \"python3\"\n")
	write("STATE", "data")
	found, err := discovery.Discover(t.Context(), discovery.Options{SearchPaths: []string{dir}})
	if err != nil || len(found.Candidates) != 1 {
		t.Fatal(found, err)
	}
	k := &Consent{Store: NewStore(filepath.Join(t.TempDir(), "trust"))}
	for n := range 3 {
		name := fmt.Sprintf("cache/f%d", n)
		write(name, "data")
		if _, err := k.Extension(&found.Candidates[0]); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		var known []string
		k.contents.Range(func(_, checks any) bool {
			for path := range checks.(map[string]contentCheck) {
				known = append(known, filepath.Base(path))
			}
			return true
		})
		if slices.Sort(known); !slices.Equal(known, []string{"STATE", filepath.Base(name)}) {
			t.Errorf("known after walk %d: %q", n, known)
		}
	}
}
