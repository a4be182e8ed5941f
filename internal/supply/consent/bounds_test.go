package consent

import (
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
