package store

import (
	"archive/tar"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/internal/supply/consent"
)

// putNode adds a tree with a Node program and two packages.
func putNode(t *testing.T, s Store, content string) (hash, path string, aside Left) {
	t.Helper()
	names := []string{
		"index.js",
		"lib/util.js",
		"lib/store/index.js",
		"lib/bind.node",
		"lib/table.json",
		"node_modules/ws/package.json",
		"node_modules/@a/b/index.js",
	}
	entries := make([]tar.Header, len(names))
	for n, name := range names {
		entries[n] = tar.Header{Name: "p/" + name}
	}
	tree, err := unpack(t, s, TarGz, tgz(t, content, entries...), 1)
	if err != nil {
		t.Fatal(err)
	}
	if hash, aside, err = s.Put(tree); err != nil {
		t.Fatal(err)
	}
	path, _, err = s.Verify(hash)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = open(path) }) // so that the test's directory can be removed
	return hash, path, aside
}

// write writes a file like a program that has permission everywhere.
func write(t *testing.T, path, content string, mode fs.FileMode) {
	t.Helper()
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil { // its parent may be read-only
		t.Fatal(err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	_ = os.Chmod(path, 0o600) // fails for a new file
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(path, []byte(content), 0o600), os.Chmod(path, mode),
		os.Chmod(dir, info.Mode().Perm())); err != nil {
		t.Fatal(err)
	}
}

// TestBesideCode: files beside the tree are refused only if a program may load them: by name, because they are
// executable, or in place of a package's file.
func TestBesideCode(t *testing.T) {
	for name, loads := range map[string]bool{
		"memory.jsonl":               false,
		"lib/data.db":                false,
		"lib/data.db-wal":            false,
		"cache/x/y.json":             false,
		"lib/util.log":               false,
		"lib/util.json":              true,
		"lib/CURRENT":                false,
		"data/LOCK":                  false,
		".installed":                 false,
		"node_modules/.cache/x.json": false,
		"node_modules/ws/seen.txt":   false,
		"lib/state.txt":              false,

		"evil.js":                           true,
		"lib/evil.mjs":                      true,
		"lib/evil.node":                     true,
		"lib/sitecustomize.py":              true,
		"lib/evil.pth":                      true,
		"lib/evil.so.1":                     true,
		".npmrc":                            true,
		"lib/.mocharc.yml":                  true,
		"lib/__init__.py":                   true,
		"lib/__pycache__/x.cpython-312.pyc": true,
		"node_modules/x/index.js":           true,
		"node_modules/x/package.json":       true,
		"package.json":                      true,
		"lib/.env":                          true,
		"lib/util":                          true,
		"lib/UTIL":                          true,
		"lib/table":                         true,
		"lib/store.json":                    true,
		"lib/bind.json":                     true,
		"lib/bind":                          true,
		"node_modules/bufferutil":           true,
		"node_modules/@a/c":                 true,
		"node_modules/ws/node_modules/x":    true,
	} {
		s := New(filepath.Join(t.TempDir(), "store"), consent.HoldsCode)
		hash, path, _ := putNode(t, s, "code")
		if err := open(path); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(path, name), "data", 0o600)
		for range 2 { // the second time with notes
			_, found, err := s.Verify(hash)
			if (err != nil) != loads || loads && !strings.Contains(err.Error(), name+" (new)") {
				t.Errorf("%s: %v; want it refused: %v", name, err, loads)
			}
			if !loads && !slices.Equal(found, []string{name}) {
				t.Errorf("%s: beside the code is %v", name, found)
			}
		}
		if loads {
			continue
		}
		write(t, filepath.Join(path, name), "more data", 0o755)
		if _, _, err := s.Verify(hash); err == nil || !strings.Contains(err.Error(), name+" (new)") {
			t.Errorf("%s can be executed by now: %v", name, err)
		}
	}
	for content, loads := range map[string]bool{
		"MANIFEST-000001\n":    false,
		"SQLite format 3\x00":  false,
		"#!/bin/sh\n":          true,
		"module.exports = 1\n": true,
		"\x7fELF":              true,
	} {
		s := New(filepath.Join(t.TempDir(), "store"), consent.HoldsCode)
		hash, path, _ := putNode(t, s, "code")
		write(t, filepath.Join(path, "lib", "current"), content, 0o600)
		if _, _, err := s.Verify(hash); (err != nil) != loads {
			t.Errorf("%q: %v; want it refused: %v", content, err, loads)
		}
	}
	s := New(filepath.Join(t.TempDir(), "store"), nil)
	hash, path, _ := putNode(t, s, "code")
	write(t, filepath.Join(path, "memory.jsonl"), "data", 0o600)
	if _, _, err := s.Verify(hash); err == nil {
		t.Error("without a judge it is taken")
	}
}

// TestDataStays checks the folder after each operation of the store: it never loses data.
func TestDataStays(t *testing.T) {
	s := New(filepath.Join(t.TempDir(), "store"), consent.HoldsCode)
	hash, path, _ := putNode(t, s, "code")
	if err := open(path); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(path, "lib", "memory.jsonl")
	write(t, data, "graph", 0o666) // writable for others, which is fine for data
	write(t, filepath.Join(path, "new", "deep.db"), "rows", 0o600)
	kept := func(after string) {
		t.Helper()
		for file, want := range map[string]string{data: "graph", filepath.Join(path, "new", "deep.db"): "rows"} {
			if got, err := os.ReadFile(file); string(got) != want {
				t.Fatalf("after %s: %q, %v", after, got, err)
			}
		}
	}
	names := []string{"lib/memory.jsonl", "new/deep.db"}
	if _, found, err := s.Verify(hash); err != nil || !slices.Equal(found, names) {
		t.Fatalf("%v, %v", found, err)
	}

	// Restoring a damaged tree keeps data; other files are moved aside.
	write(t, filepath.Join(path, "index.js"), "changed", 0o600)
	write(t, filepath.Join(path, "lib", "evil.js"), "evil", 0o600)
	if err := errors.Join(open(path), os.Remove(filepath.Join(path, "lib", "util.js")),
		os.Mkdir(filepath.Join(path, "lib", "util.js"), 0o755)); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(path, "lib", "util.js", "x"), "in place", 0o600)
	write(t, filepath.Join(path, "lib", "util.js", "deep", "x.js"), "code in place", 0o600)
	if _, _, err := s.Verify(hash); err == nil || !strings.Contains(err.Error(), "index.js") {
		t.Fatalf("damaged: %v", err)
	}
	again, _, aside := putNode(t, s, "code")
	if again != hash {
		t.Fatalf("%s is not %s", again, hash)
	}
	kept("it was restored")
	want := []string{"index.js", "lib/evil.js", "lib/util.js/deep/x.js", "lib/util.js/x"}
	if diff := cmp.Diff(want, aside.Files); diff != "" {
		t.Error(diff)
	}
	for name, want := range map[string]string{
		"index.js":              "changed",
		"lib/evil.js":           "evil",
		"lib/util.js/x":         "in place",
		"lib/util.js/deep/x.js": "code in place",
	} {
		if got, err := os.ReadFile(filepath.Join(aside.Dir, name)); string(got) != want {
			t.Errorf("%s, set aside: %q, %v", name, got, err)
		}
	}
	if _, found, err := s.Verify(hash); err != nil || !slices.Equal(found, names) {
		t.Errorf("restored: %v, %v", found, err)
	}

	// Without notes, adding the tree again shows which files belong to it.
	if err := os.Remove(path + notesEnding); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Verify(hash); err == nil || !strings.Contains(err.Error(), "which of them is not known") {
		t.Errorf("without notes: %v", err)
	}
	if left, err := s.Remove(hash); err != nil || len(left.Files) != 9 {
		t.Errorf("removed without notes: %+v, %v", left, err)
	}
	if _, _, aside := putNode(t, s, "code"); len(aside.Files) > 0 {
		t.Errorf("set aside: %+v", aside)
	}
	kept("the notes were lost")

	// Removing a tree keeps the data, which is found when the tree is added again.
	left, err := s.Remove(hash)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Left{path, names}, left); diff != "" {
		t.Error(diff)
	}
	kept("it was removed")
	if _, _, err := s.Verify(hash); !errors.As(err, new(Missing)) {
		t.Errorf("removed: %v", err)
	}
	if again, _, aside := putNode(t, s, "code"); again != hash || len(aside.Files) > 0 {
		t.Errorf("again: %s, %+v", again, aside)
	}
	kept("it came again")

	// Another version takes over copies of the data, and gives them up again.
	next, to, _ := putNode(t, s, "newer code")
	if err := open(to); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(to, "new", "deep.db"), "its own", 0o600)
	carry := func() []Copy {
		t.Helper()
		copies, err := s.Carry(hash, next)
		if got, _ := os.ReadFile(filepath.Join(to, "lib", "memory.jsonl")); err != nil || string(got) != "graph" ||
			len(copies) != 1 {
			t.Fatalf("%q, %v, %v", got, copies, err)
		}
		if got, _ := os.ReadFile(filepath.Join(to, "new", "deep.db")); string(got) != "its own" {
			t.Fatalf("overwritten with %q", got)
		}
		if _, _, err := s.Verify(next); err != nil {
			t.Error(err)
		}
		return copies
	}
	if left, err := s.Remove(next, carry()...); err != nil || !slices.Equal(left.Files, names[1:]) {
		t.Errorf("given back: %+v, %v", left, err)
	}
	kept("it was given back")
	putNode(t, s, "newer code")
	copies := carry()
	write(t, data, "graph, written meanwhile", 0o600)
	if left, err := s.Remove(hash, copies...); err != nil || !slices.Equal(left.Files, names) {
		t.Errorf("what was written meanwhile: %+v, %v", left, err)
	}
	write(t, data, "graph", 0o600)
	kept("it was carried over")
	putNode(t, s, "code")
	if left, err := s.Remove(hash, copies...); err != nil || !slices.Equal(left.Files, names[1:]) {
		t.Errorf("carried over: %+v, %v", left, err)
	}
}
