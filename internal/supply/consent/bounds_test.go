package consent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestBounds refuses folders over the limits before they exhaust memory or time.
func TestBounds(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.py"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	files := Files{}
	for i := range maxFiles {
		files[fmt.Sprint(i)] = File{}
	}
	for name, fill := range map[string]func(*reader){
		"files":   func(r *reader) { r.files = files },
		"entries": func(r *reader) { r.entries = maxEntries },
		"bytes":   func(r *reader) { r.bytes = maxBytes },
	} {
		r := newReader(nil, nil)
		fill(r)
		if err := r.walk(dir, ""); err == nil || !strings.Contains(err.Error(), "too many to compare") ||
			!strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestPluginBounds counts the files of a plugin, those behind links too, and refuses it before one is read.
func TestPluginBounds(t *testing.T) {
	dir, beside := t.TempDir(), t.TempDir()
	for _, path := range []string{filepath.Join(dir, "a"), filepath.Join(dir, "b"), filepath.Join(beside, "c")} {
		if err := os.WriteFile(path, []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"link": beside, "loop": "."} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Skip("NOT TESTED: links cannot be made: ", err)
		}
	}
	for _, tt := range []struct {
		count
		fits bool
	}{
		{count{files: maxPluginFiles - 5, bytes: maxPluginBytes - 3}, true}, // a, b, c and two links
		{count{files: maxPluginFiles - 4}, false},
		{count{bytes: maxPluginBytes - 2}, false},
	} {
		tt.seen = map[string]bool{}
		if err := tt.add(dir); (err == nil) != tt.fits {
			t.Errorf("%+v: %v", tt.count, err)
		}
	}
	if err := os.Truncate(filepath.Join(dir, "a"), 1<<40); err != nil {
		t.Skip("NOT TESTED: no sparse file of 1 TiB: ", err)
	}
	r := newReader(nil, nil)
	r.every = true
	if _, err := folder(dir, nil, r); !errors.Is(err, errPluginTooLarge) || len(r.files) > 0 {
		t.Errorf("%v, read %v", err, r.files)
	}
}
