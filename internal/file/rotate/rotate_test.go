package rotate

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func write(t *testing.T, f *File, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if n, err := f.Write([]byte(line)); err != nil || n != len(line) {
			t.Fatal(n, err)
		}
	}
}

func open(t *testing.T, path string, keep int) *File {
	t.Helper()
	f, err := Open(path, 10, keep)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func TestFileIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, []byte("before\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := open(t, path, 2)
	write(t, f, "one\n", "two\n", "longer than the bound\n", "three\n", "four\n")
	for name, want := range map[string]string{
		path:          "four\n",
		Name(path, 1): "three\n",
		Name(path, 2): "longer than the bound\n",
	} {
		if got := read(t, name); got != want {
			t.Errorf("%s has %q, want %q", name, got, want)
		}
	}
	if _, err := os.Stat(Name(path, 3)); err == nil {
		t.Error("more files than keep are left")
	}
	none := open(t, path, 0)
	write(t, none, "12345678\n", "five\n")
	if got := read(t, path); got != "five\n" {
		t.Errorf("keep 0 leaves %q", got)
	}
	if _, err := os.Stat(Name(path, 1)); err == nil {
		t.Error("keep 0 leaves older files")
	}
}

// If another program has moved, removed or emptied the file, writing continues with the file of that name.
func TestFileFollowsItsName(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("an open file cannot be moved")
	}
	path := filepath.Join(t.TempDir(), "log")
	f := open(t, path, 2)
	write(t, f, "one\n")
	if err := os.Rename(path, path+".moved"); err != nil {
		t.Fatal(err)
	}
	write(t, f, "two\n")
	if got := read(t, path); got != "two\n" {
		t.Errorf("after a move: %q", got)
	}
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	write(t, f, "three\n")
	if got := read(t, path); got != "three\n" {
		t.Errorf("after it was emptied: %q", got)
	}
}

// If rotation fails, the file keeps growing and no record is lost.
func TestFileThatCannotRotate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if err := os.MkdirAll(filepath.Join(Name(path, 1), "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	f := open(t, path, 1)
	write(t, f, "12345678\n", "two\n")
	if got := read(t, path); got != "12345678\ntwo\n" {
		t.Errorf("got %q", got)
	}
}

// Several writers, as of several hosts in one directory, lose no record.
func TestWritersShareAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	var wg sync.WaitGroup
	for range 4 {
		f, err := Open(path, 1<<20, 3)
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
	if got := strings.Count(read(t, path), "a record\n"); got != 400 {
		t.Errorf("%d records, want 400", got)
	}
}
