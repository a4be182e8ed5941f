package store

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/exthost/exthost/internal/supply/consent"
)

// TestCarryIsWhole: where a data file cannot be written to its end, the new version has no part of the file, and gets
// the whole of it next time. What a program has left that was killed while it wrote is removed after a day.
func TestCarryIsWhole(t *testing.T) {
	const limit = 1 << 20 // of the size of files, in place of a full disk
	text, second := strings.Repeat("d", 2*limit), map[string]string{"main.js": "2"}
	dir := t.TempDir()
	s := New(dir, consent.HoldsCode)
	one, two := putFiles(t, s, map[string]string{"main.js": "1"}), putFiles(t, s, second)
	from, err := s.Path(one)
	if err != nil {
		t.Fatal(err)
	}
	to, err := s.Path(two)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(from, "data.db"), text, 0o644)

	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &was); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: limit, Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	copies, err := s.Carry(one, two)
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &was); err != nil {
		t.Fatal(err)
	}
	if err == nil || len(copies) > 0 || !strings.Contains(err.Error(), filepath.Join(to, "data.db")) {
		t.Errorf("%v, %v", copies, err)
	}
	if got := content(t, to); !same(got, second) {
		t.Errorf("there are %d files and not %d", len(got), len(second))
	}
	unfinished := func() []string {
		t.Helper()
		paths, err := filepath.Glob(filepath.Join(dir, newPrefix+"*"))
		if err != nil {
			t.Fatal(err)
		}
		return paths
	}
	if left := unfinished(); left != nil {
		t.Errorf("left %q", left)
	}

	part := filepath.Join(dir, newPrefix+"KILLED")
	write(t, part, text[:limit], 0o644)
	if copies, err := s.Carry(one, two); err != nil || len(copies) != 1 {
		t.Fatal(copies, err)
	}
	if got := content(t, to); got["data.db"] != text || len(got) != len(second)+1 {
		t.Errorf("%d bytes of %d, in %d files", len(got["data.db"]), len(text), len(got))
	}
	old := time.Now().Add(-2 * givenUp)
	if err := os.Chtimes(part, old, old); err != nil {
		t.Fatal(err)
	}
	tree, err := s.New()
	if err != nil {
		t.Fatal(err)
	}
	if err := tree.Drop(); err != nil {
		t.Fatal(err)
	}
	if left := unfinished(); left != nil {
		t.Errorf("left after a day: %q", left)
	}
}
