package file

import (
	"os"
	"path/filepath"
	"testing"
)

func TestRemoveIn(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a/b/c/file", "a/other", "top"} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for _, name := range []string{"a/b/c/file", "top", "missing/x"} {
		if err := RemoveIn(root, name); err != nil {
			t.Error(err)
		}
	}
	for name, stays := range map[string]bool{"a/b": false, "a/other": true, "top": false, ".": true} {
		if _, err := root.Stat(name); (err == nil) != stays {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := RemoveIn(root, "a"); err == nil {
		t.Error("a directory with a file is removed")
	}
}
