package store

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/dirhash"

	"github.com/exthost/exthost/internal/supply/consent"
)

// tgz returns an archive with these entries; content is that of regular files.
func tgz(t *testing.T, content string, entries ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, h := range entries {
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
		}
		if h.Mode == 0 {
			h.Mode = 0o644
		}
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(content))
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := w.Write([]byte(content)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func zipped(t *testing.T, mode fs.FileMode, content string, names ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, name := range names {
		h := &zip.FileHeader{Name: name, Method: zip.Deflate}
		h.SetMode(mode)
		f, err := w.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func unpack(t *testing.T, s Store, form Form, data []byte, strip int) (*Tree, error) {
	t.Helper()
	tree, err := s.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tree.Drop() })
	return tree, tree.Unpack(form, data, "", strip)
}

// TestHostileArchives: an archive is refused, naming the entry, if an entry leads out of the tree or collides
// with another on some file system. Without that entry the archive unpacks.
func TestHostileArchives(t *testing.T) {
	file := tar.Header{Name: "package/index.js"}
	if _, err := unpack(t, New(t.TempDir(), consent.HoldsCode), TarGz,
		tgz(t, "x", file, tar.Header{Name: "package/lib/", Typeflag: tar.TypeDir}), 1); err != nil {
		t.Fatalf("the control: %v", err)
	}
	for name, tt := range map[string]struct {
		bad  tar.Header
		want string
	}{
		"dot dot":        {tar.Header{Name: "package/../../evil"}, "leads out"},
		"dot dot inside": {tar.Header{Name: "package/lib/../x"}, "leads out"},
		"absolute":       {tar.Header{Name: "/etc/evil"}, "absolute"},
		"backslash":      {tar.Header{Name: `package\..\evil`}, "backslash"},
		"drive":          {tar.Header{Name: "C:/evil"}, "colon"},
		"symlink out": {tar.Header{Name: "package/link", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"},
			"symbolic link"},
		"symlink inside": {tar.Header{Name: "package/link", Typeflag: tar.TypeSymlink, Linkname: "index.js"},
			"symbolic link"},
		"hard link out": {tar.Header{Name: "package/link", Typeflag: tar.TypeLink, Linkname: "/etc/passwd"},
			"hard link"},
		"device":          {tar.Header{Name: "package/dev", Typeflag: tar.TypeChar}, "device"},
		"FIFO":            {tar.Header{Name: "package/fifo", Typeflag: tar.TypeFifo}, "FIFO"},
		"case twin":       {tar.Header{Name: "package/INDEX.js"}, "one file where case"},
		"unicode twin":    {tar.Header{Name: "package/ındex.js"}, ""},
		"the same twice":  {tar.Header{Name: "package/./index.js"}, ""},
		"other mode":      {tar.Header{Name: "package/index.js", Mode: 0o755}, "twice"},
		"file as folder":  {tar.Header{Name: "package/index.js/x"}, "twice"},
		"long":            {tar.Header{Name: "package/" + strings.Repeat("x", 600)}, "over 512"},
		"deep":            {tar.Header{Name: "package/" + strings.Repeat("x/", 50) + "y"}, "40 directories"},
		"out of its root": {tar.Header{Name: "evil"}, "outside of the folder"},
		"newline":         {tar.Header{Name: "package/a\nb"}, "no name"},
	} {
		dir := t.TempDir()
		tree, err := unpack(t, New(filepath.Join(dir, "store"), consent.HoldsCode), TarGz, tgz(t, "x", file, tt.bad), 1)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
		if _, err := os.Lstat(filepath.Join(dir, "evil")); err == nil {
			t.Errorf("%s: a file lies outside of %s", name, tree.Dir())
		}
	}
	for name, tt := range map[string]struct {
		data []byte
		want string
	}{
		"control": {zipped(t, 0o644, "x", "a", "b"), ""},
		"slip":    {zipped(t, 0o644, "x", "a", "../evil"), "leads out"},
		"symlink": {zipped(t, fs.ModeSymlink|0o777, "/etc/passwd", "link"), "symbolic link"},
		"twins":   {zipped(t, 0o644, "x", "a/B", "A/b"), "one file where case"},
		"bomb":    {zipped(t, 0o644, strings.Repeat("\x00", 40<<20), "bomb"), "too large"},
		"no zip":  {[]byte("PK"), "no zip"},
	} {
		if _, err := unpack(t, New(t.TempDir(), consent.HoldsCode), Zip, tt.data, 0); (err == nil) != (tt.want == "") ||
			err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("zip, %s: %v, want %q", name, err, tt.want)
		}
	}
	if _, err := unpack(t, New(t.TempDir(), consent.HoldsCode), TarGz, tgz(t, strings.Repeat("\x00", 40<<20), file),
		1); err == nil || !strings.Contains(err.Error(), "too large") {
		t.Errorf("a bomb: %v", err)
	}
}

// put returns a store with one tree.
func put(t *testing.T) (s Store, hash, path string) {
	t.Helper()
	s = New(filepath.Join(t.TempDir(), "store"), consent.HoldsCode)
	tree, err := unpack(t, s, TarGz,
		tgz(t, "content", tar.Header{Name: "p/index.js"}, tar.Header{Name: "p/bin/run", Mode: 0o755},
			tar.Header{Name: "p/data.txt"}), 1)
	if err != nil {
		t.Fatal(err)
	}
	want, err := dirhash.HashDir(tree.Dir(), "", dirhash.Hash1)
	if err != nil {
		t.Fatal(err)
	}
	if hash, _, err = s.Put(tree); err != nil || hash != want {
		t.Fatalf("%s, not %s as go.sum would have it; %v", hash, want, err)
	}
	if path, _, err = s.Verify(hash); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = s.Remove(hash) })
	return s, hash, path
}

// TestVerify finds and names every change to a tree, even if size and times are kept.
func TestVerify(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there are no modes")
	}
	change := func(path string, f func() error) error {
		dir := filepath.Dir(path)
		return errors.Join(os.Chmod(dir, 0o700), f(), os.Chmod(dir, 0o555))
	}
	for name, tt := range map[string]struct {
		do   func(path string) error
		want string
	}{
		"one byte flipped, same size and time": {func(path string) error {
			file := filepath.Join(path, "index.js")
			info, err := os.Stat(file)
			if err != nil {
				return err
			}
			return errors.Join(os.Chmod(file, 0o600), os.WriteFile(file, []byte("contenT"), 0o600),
				os.Chmod(file, 0o444), os.Chtimes(file, time.Now(), info.ModTime()))
		}, "index.js"},
		"data": {func(path string) error {
			file := filepath.Join(path, "data.txt")
			return errors.Join(os.Chmod(file, 0o600), os.WriteFile(file, nil, 0o600))
		}, "data.txt"},
		"new file": {func(path string) error {
			return change(filepath.Join(path, "x"),
				func() error { return os.WriteFile(filepath.Join(path, "evil.js"), nil, 0o444) })
		}, "evil.js (new)"},
		"removed": {func(path string) error {
			return change(filepath.Join(path, "x"), func() error { return os.Remove(filepath.Join(path, "data.txt")) })
		}, "data.txt (removed)"},
		"link": {func(path string) error {
			return change(filepath.Join(path, "x"),
				func() error { return os.Symlink("/etc/passwd", filepath.Join(path, "link")) })
		}, "link (new)"},
		"file that others can write": {func(path string) error {
			return os.Chmod(filepath.Join(path, "index.js"), 0o666)
		}, "others can write"},
		"folder of others": {func(path string) error { return os.Chmod(filepath.Join(path, "bin"), 0o777) },
			"others can write"},
		"tree that others can write": {func(path string) error { return os.Chmod(path, 0o777) }, "others can write"},
		"store that others can write": {func(path string) error { return os.Chmod(filepath.Dir(path), 0o777) },
			"others can write"},
		"gone":    {func(path string) error { return removeAll(path) }, "not on this machine"},
		"nothing": {func(path string) error { return nil }, ""},
	} {
		s, hash, path := put(t)
		if err := tt.do(path); err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.Verify(hash); (err == nil) != (tt.want == "") ||
			err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}

// TestLargeFiles: Put and Verify refuse a tree over the limit, such as an install script can create.
func TestLargeFiles(t *testing.T) {
	s, hash, path := put(t)
	grow := func(file string) {
		t.Helper()
		if err := errors.Join(os.Chmod(file, 0o600), os.Truncate(file, maxTree+1), os.Chmod(file, 0o444)); err != nil {
			t.Fatal(err)
		}
	}
	tree, err := unpack(t, s, TarGz, tgz(t, "x", tar.Header{Name: "p/large"}), 1)
	if err != nil {
		t.Fatal(err)
	}
	grow(filepath.Join(tree.Dir(), "large"))
	if hash, _, err := s.Put(tree); err == nil || !strings.Contains(err.Error(), "with large the files") {
		t.Errorf("%s, %v", hash, err)
	}
	grow(filepath.Join(path, "data.txt"))
	if _, _, err := s.Verify(hash); err == nil ||
		!strings.Contains(err.Error(), "not those that were added: data.txt") {
		t.Errorf("%v", err)
	}
}

// TestVerifyReadsOnce: the second Verify reads no file, so that an unreadable one passes.
func TestVerifyReadsOnce(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells the time of the last change")
	}
	s, hash, path := put(t)
	before := s.notes(path)
	for before.stamp == "" && t.Context().Err() == nil { // the files are too new for a stamp
		if _, _, err := s.Verify(hash); err != nil {
			t.Fatal(err)
		}
		before = s.notes(path)
	}
	noted := before.tree(hash)
	if len(noted) != 3 {
		t.Fatalf("noted: %v", noted)
	}
	for name, v := range noted { // wrong sums reveal which files were not read
		v.Sum = strings.Repeat("0", 64)
		noted[name] = v
	}
	found, err := list(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := found.compare(path, hash, noted); err != nil {
		t.Errorf("the files were read although nothing changed: %v", err)
	}
	s.note(path, before, noted)
	if _, _, err := s.Verify(hash); err != nil {
		t.Errorf("the files were compared although nothing changed at all: %v", err)
	}
	s.note(path, notes{}, noted)
	if _, _, err := s.Verify(hash); err != nil {
		t.Errorf("with notes of other files: %v", err)
	}
	if _, _, err := s.Verify("h1:" + strings.Repeat("A", 43) + "="); err == nil {
		t.Error("another tree")
	}
	if err := os.Remove(path + notesEnding); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Verify(hash); err != nil {
		t.Errorf("without notes: %v", err)
	}
}

// TestPutAndRemove puts a tree once, restores a damaged one, and removes it completely.
func TestPutAndRemove(t *testing.T) {
	s, hash, path := put(t)
	if err := os.Chmod(filepath.Join(path, "data.txt"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(path, "data.txt"), []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	tree, err := unpack(t, s, TarGz,
		tgz(t, "content", tar.Header{Name: "p/index.js"}, tar.Header{Name: "p/bin/run", Mode: 0o755},
			tar.Header{Name: "p/data.txt"}), 1)
	if err != nil {
		t.Fatal(err)
	}
	again, aside, err := s.Put(tree)
	if err != nil || again != hash {
		t.Fatalf("%s, %v", again, err)
	}
	if data, err := os.ReadFile(filepath.Join(aside.Dir, "data.txt")); string(data) != "damaged" ||
		!slices.Equal(aside.Files, []string{"data.txt"}) {
		t.Errorf("set aside: %+v, %q, %v", aside, data, err)
	}
	if err := os.RemoveAll(aside.Dir); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Verify(hash); err != nil {
		t.Error(err)
	}
	if trees, err := s.Trees(); err != nil || len(trees) != 1 || trees[0] != hash {
		t.Errorf("%v, %v", trees, err)
	}
	if _, err := s.Remove(hash); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestLeftBehind: an unfinished tree is removed after a day, and not before.
func TestLeftBehind(t *testing.T) {
	s := New(t.TempDir(), consent.HoldsCode)
	var dirs []string
	for range 2 {
		tree, err := unpack(t, s, TarGz, tgz(t, "x", tar.Header{Name: "p/lib/x.js"}), 1)
		if err != nil {
			t.Fatal(err)
		}
		dirs = append(dirs, tree.Dir())
	}
	old := time.Now().Add(-25 * time.Hour)
	if err := os.Chtimes(dirs[0], old, old); err != nil {
		t.Fatal(err)
	}
	if _, err := unpack(t, s, TarGz, tgz(t, "x", tar.Header{Name: "p/x.js"}), 1); err != nil {
		t.Fatal(err)
	}
	for n, want := range []bool{false, true} {
		if _, err := os.Lstat(dirs[n]); (err == nil) != want {
			t.Errorf("%s: %v, want it there: %v", dirs[n], err, want)
		}
	}
}

// TestPutAtOnce puts the same tree from several programs at once.
func TestPutAtOnce(t *testing.T) {
	s := New(t.TempDir(), consent.HoldsCode)
	const programs = 8
	trees, errs := make([]*Tree, programs), make([]error, programs)
	for n := range trees {
		var err error
		if trees[n], err = unpack(t, s, TarGz, tgz(t, "x", tar.Header{Name: "p/lib/x.js"}), 1); err != nil {
			t.Fatal(err)
		}
	}
	var putting sync.WaitGroup
	for n, tree := range trees {
		putting.Go(func() {
			hash, _, err := s.Put(tree)
			if err == nil {
				_, _, err = s.Verify(hash)
			}
			errs[n] = err
		})
	}
	putting.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
	hashes, err := s.Trees()
	if err != nil || len(hashes) != 1 {
		t.Fatalf("%v, %v", hashes, err)
	}
	if _, err := s.Remove(hashes[0]); err != nil {
		t.Error(err)
	}
}
