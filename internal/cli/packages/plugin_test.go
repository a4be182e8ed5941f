package packages

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/internal/supply/consent"
	"github.com/exthost/exthost/internal/supply/packages"
	"github.com/exthost/exthost/internal/supply/store"
)

// TestDisplace: undoing exthost add removes the plugin's files if they were placed. If a file of the user was in the
// way, nothing was placed, and the user's files stay, also those that are the same as in the package.
func TestDisplace(t *testing.T) {
	files := map[string]string{"plugin.json": "{}", "LICENSE": "MIT", "skills/a/SKILL.md": "text", "README.md": "theirs"}
	for name, tt := range map[string]struct {
		before, placed map[string]string // content of the folder
	}{
		"placed": {placed: files},
		"beside a file": {
			before: map[string]string{"mine": "mine"},
			placed: map[string]string{"mine": "mine", "plugin.json": "{}", "LICENSE": "MIT", "skills/a/SKILL.md": "text",
				"README.md": "theirs"},
		},
		"refused": {
			before: map[string]string{"README.md": "mine", "LICENSE": "MIT", "skills/a/SKILL.md": "text"},
			placed: map[string]string{"README.md": "mine", "LICENSE": "MIT", "skills/a/SKILL.md": "text"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := store.New(t.TempDir(), consent.HoldsCode)
			d := &draft{
				dir:   filepath.Join(t.TempDir(), "reports"),
				store: &s,
				pkg:   &packages.Package{Tree: putTree(t, s, files)},
			}
			for name, text := range tt.before {
				path := filepath.Join(d.dir, name)
				if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
					os.WriteFile(path, []byte(text), 0o644)); err != nil {
					t.Fatal(err)
				}
			}
			_, err := d.place("")
			refused := errors.As(err, new(store.InTheWay))
			if refused != (name == "refused") || !refused && err != nil {
				t.Errorf("placed: %v", err)
			}
			if diff := cmp.Diff(tt.placed, read(t, d.dir)); diff != "" {
				t.Errorf("placed (-want +got):\n%s", diff)
			}
			if err := d.displace(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.before, read(t, d.dir)); diff != "" {
				t.Errorf("displaced (-want +got):\n%s", diff)
			}
		})
	}
}

// putTree puts a tree with the files into the store.
func putTree(t *testing.T, s store.Store, files map[string]string) (hash string) {
	t.Helper()
	tree, err := s.New()
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := tree.Add(name, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if hash, _, err = s.Put(tree); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = s.Remove(hash) }) // read-only directories
	return hash
}

// read returns the files below dir with their texts, nil if dir is missing.
func read(t *testing.T, dir string) (files map[string]string) {
	t.Helper()
	if _, err := os.Lstat(dir); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	files = map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		files[filepath.ToSlash(name)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
