package file_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/exthost/exthost/internal/file"
)

// A new file has the usual mode, or is private. An existing one keeps its mode; if private, it loses the permissions of
// others.
func TestModeOfWrittenFile(t *testing.T) {
	dir := t.TempDir()
	probe := filepath.Join(dir, "probe") // shows the umask
	if err := os.WriteFile(probe, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(probe)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		write     func(string, []byte) error
		old, want fs.FileMode // old 0: no file
	}{
		{file.WriteAtomic, 0, info.Mode().Perm()},
		{file.WriteAtomic, 0o600, 0o600},
		{file.WriteAtomic, 0o666, 0o666},
		{file.WriteAtomic, 0o755, 0o755},
		{file.WritePrivate, 0, 0o600},
		{file.WritePrivate, 0o644, 0o600},
		{file.WritePrivate, 0o200, 0o200},
	} {
		path := filepath.Join(t.TempDir(), "file")
		if tt.old != 0 {
			if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, tt.old); err != nil {
				t.Fatal(err)
			}
		}
		if err := tt.write(path, []byte("new")); err != nil {
			t.Errorf("%v: %v", tt.old, err)
			continue
		}
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != tt.want || info.Size() != 3 {
			t.Errorf("%v became %v, not %v; %v", tt.old, info.Mode(), tt.want, err)
		}
	}
}

// A link stays a link, and its target gets the content.
func TestLinkIsKept(t *testing.T) {
	dir := t.TempDir()
	real, link := filepath.Join(dir, "real"), filepath.Join(dir, "link")
	if err := os.WriteFile(real, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("real", link); err != nil {
		t.Skip(err)
	}
	if err := file.WriteAtomic(link, []byte("new")); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(real); err != nil || string(got) != "new" {
		t.Errorf("%q, %v", got, err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode().Type() != fs.ModeSymlink {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// Protected and special files are left alone, and the error names them.
func TestWriteAtomicRefuses(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	if err := os.Mkdir(path("directory"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path("protected"), []byte("old"), 0o444); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("nothing", path("dangling")); err != nil {
		t.Skip(err)
	}
	for name, want := range map[string]string{
		"directory": "not a regular file",
		"protected": "read-only",
		"dangling":  "a file that does not exist",
		"none/file": "none",
	} {
		if err := file.WriteAtomic(path(name), []byte("new")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	if got, err := os.ReadFile(path("protected")); err != nil || string(got) != "old" {
		t.Errorf("%q, %v", got, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 3 {
		t.Errorf("%v, %v", entries, err)
	}
}

// Readers never see part of the content, however many writers there are.
func TestReadersSeeWholeContents(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	content := func(c byte) []byte { return bytes.Repeat([]byte{c}, 1<<20) }
	if err := file.WriteAtomic(path, content('0')); err != nil {
		t.Fatal(err)
	}
	var writers sync.WaitGroup
	for w := range 2 {
		writers.Go(func() {
			for range 10 {
				if err := file.WriteAtomic(path, content(byte('a'+w))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	ended := make(chan struct{})
	go func() { writers.Wait(); close(ended) }()
	for last := false; !last; {
		select {
		case <-ended:
			last = true
		default:
		}
		got, err := os.ReadFile(path)
		if err != nil || len(got) != 1<<20 || bytes.Count(got, got[:1]) != len(got) {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
	}
}

// RemoveTemporary removes the temporary files of killed writes, and no file with a similar name.
func TestRemoveTemporary(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{
		"a",
		".a-backup",
		".a-AAAAAAAAAAAAAAAAAAAAAAAAAA",
		".ab-AAAAAAAAAAAAAAAAAAAAAAAAAA",
		".a-AAAAAAAAAAAAAAAAAAAAAAAAAA.old",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file.RemoveTemporary(filepath.Join(dir, "a"))
	left, err := os.ReadDir(dir)
	var names []string
	for _, e := range left {
		names = append(names, e.Name())
	}
	if want := ".a-AAAAAAAAAAAAAAAAAAAAAAAAAA.old .a-backup .ab-AAAAAAAAAAAAAAAAAAAAAAAAAA a"; err != nil ||
		strings.Join(names, " ") != want {
		t.Errorf("left: %q, %v", names, err)
	}
}

// A file can be written where it is or would be made, and looking leaves nothing behind.
func TestWritable(t *testing.T) {
	dir := t.TempDir()
	existing := filepath.Join(dir, "file")
	if err := os.WriteFile(existing, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		existing:                              "",
		filepath.Join(dir, "a", "b", "audit"): "",
		filepath.Join(existing, "audit"):      "not a directory",
		dir:                                   "is a directory",
	} {
		if err := file.Writable(path); want == "" && err != nil ||
			want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}
