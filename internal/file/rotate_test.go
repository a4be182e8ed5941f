package file

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

func content(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func writeLines(t *testing.T, f *Rotating, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if n, err := f.Write([]byte(line)); err != nil || n != len(line) {
			t.Fatal(n, err)
		}
	}
}

func openRotating(t *testing.T, path string, keep int) *Rotating {
	t.Helper()
	f, err := OpenRotating(path, 10, keep)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func TestRotatingIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, []byte("before\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := openRotating(t, path, 2)
	writeLines(t, f, "one\n", "two\n", "longer than the bound\n", "three\n", "four\n")
	for name, want := range map[string]string{
		path:                 "four\n",
		RotatedName(path, 1): "three\n",
		RotatedName(path, 2): "longer than the bound\n",
	} {
		if got := content(t, name); got != want {
			t.Errorf("%s has %q, want %q", name, got, want)
		}
	}
	if _, err := os.Stat(RotatedName(path, 3)); err == nil {
		t.Error("more files than keep are left")
	}
	none := openRotating(t, path, 0)
	writeLines(t, none, "12345678\n", "five\n")
	if got := content(t, path); got != "five\n" {
		t.Errorf("keep 0 leaves %q", got)
	}
	if _, err := os.Stat(RotatedName(path, 1)); err == nil {
		t.Error("keep 0 leaves older files")
	}
}

// If another program has moved, removed or emptied the file, writing continues with the file of that name.
func TestRotatingFollowsItsName(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("an open file cannot be moved")
	}
	path := filepath.Join(t.TempDir(), "log")
	f := openRotating(t, path, 2)
	writeLines(t, f, "one\n")
	if err := os.Rename(path, path+".moved"); err != nil {
		t.Fatal(err)
	}
	writeLines(t, f, "two\n")
	if got := content(t, path); got != "two\n" {
		t.Errorf("after a move: %q", got)
	}
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	writeLines(t, f, "three\n")
	if got := content(t, path); got != "three\n" {
		t.Errorf("after it was emptied: %q", got)
	}
}

// If rotation fails, the file keeps growing and no record is lost.
func TestRotatingThatCannotRotate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if err := os.MkdirAll(filepath.Join(RotatedName(path, 1), "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	f := openRotating(t, path, 1)
	writeLines(t, f, "12345678\n", "two\n")
	if got := content(t, path); got != "12345678\ntwo\n" {
		t.Errorf("got %q", got)
	}
}

// Several writers, as of several hosts in one directory, lose no record.
func TestWritersShareARotatingFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	var wg sync.WaitGroup
	for range 4 {
		f, err := OpenRotating(path, 1<<20, 3)
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			defer f.Close()
			for range 100 {
				if _, err := f.Write([]byte("a record\n")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if got := strings.Count(content(t, path), "a record\n"); got != 400 {
		t.Errorf("%d records, want 400", got)
	}
}
