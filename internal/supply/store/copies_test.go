package store

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/exthost/exthost/internal/supply/consent"
)

// putFiles puts a tree with the files into the store.
func putFiles(t *testing.T, s Store, files map[string]string) (hash string) {
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

// content returns the files below dir with their texts.
func content(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	found, err := listCopy(dir)
	if err != nil {
		t.Fatal(err)
	}
	for name := range found {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		files[name] = string(text)
	}
	return files
}

func same(a, b map[string]string) bool {
	for name, text := range a {
		if b[name] != text {
			return false
		}
	}
	return len(a) == len(b)
}

// TestExchange takes a copy from one version to the next and back, and leaves what others wrote.
func TestExchange(t *testing.T) {
	s := New(t.TempDir(), consent.HoldsCode)
	one := map[string]string{"a.js": "1", "lib/b.js": "1", "lib/old.js": "1", "dir/x": "1", "flat": "1"}
	two := map[string]string{"a.js": "2", "lib/b.js": "1", "new/c.js": "2", "dir": "2", "flat/x": "2"}
	first, second := putFiles(t, s, one), putFiles(t, s, two)
	dir := filepath.Join(t.TempDir(), "extensions", "reports")
	exchange := func(from, to string, left ...string) {
		t.Helper()
		got, err := s.Exchange(dir, from, to)
		if err != nil || !slices.Equal(got, left) {
			t.Fatalf("left %q, %v; want %q", got, err, left)
		}
		if to == "" {
			return
		}
		if err := s.VerifyCopy(to, dir); err != nil {
			t.Fatal(err)
		}
		if err := s.VerifyCopy(to, dir); err != nil { // with notes
			t.Fatal(err)
		}
	}
	exchange("", first)
	if got := content(t, dir); !same(got, one) {
		t.Fatalf("%q", got)
	}
	if err := s.VerifyCopy(second, dir); err == nil {
		t.Error("the first version passes for the second")
	}
	exchange(first, second)
	if got := content(t, dir); !same(got, two) {
		t.Fatalf("%q", got)
	}
	write(t, filepath.Join(dir, "cache", "data"), "mine", 0o644)
	exchange(second, first, "cache/data")
	write(t, filepath.Join(dir, "lib", "b.js"), "edited", 0o644)
	if err := s.VerifyCopy(first, dir); err == nil || !strings.Contains(err.Error(), "lib/b.js") {
		t.Errorf("a changed file: %v", err)
	}
	exchange(first, "", "cache/data", "lib/b.js")
	if got := content(t, dir); !same(got, map[string]string{"cache/data": "mine", "lib/b.js": "edited"}) {
		t.Errorf("%q", got)
	}
}

// TestExchangeIsRefused: what others wrote is in the way, and then nothing changes.
func TestExchangeIsRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		spoil func(dir string)
		want  string
	}{
		"a changed file": {func(dir string) { write(t, filepath.Join(dir, "a.js"), "edited", 0o644) },
			"there is a.js,"},
		"a new file": {func(dir string) { write(t, filepath.Join(dir, "new", "c.js"), "mine", 0o644) }, "new/c.js"},
		"a file for a directory": {func(dir string) { write(t, filepath.Join(dir, "new"), "mine", 0o644) },
			"there is new,"},
		"a directory for a file": {func(dir string) { write(t, filepath.Join(dir, "top", "x"), "mine", 0o644) },
			"there is top/x,"},
		"a link": {func(dir string) {
			if err := os.Symlink(t.TempDir(), filepath.Join(dir, "new")); err != nil {
				t.Skip(err)
			}
		}, "there is new,"},
	} {
		t.Run(name, func(t *testing.T) {
			s := New(t.TempDir(), consent.HoldsCode)
			first := putFiles(t, s, map[string]string{"a.js": "1", "b.js": "1"})
			second := putFiles(t, s, map[string]string{"a.js": "2", "new/c.js": "2", "top": "2"})
			dir := filepath.Join(t.TempDir(), "reports")
			if _, err := s.Exchange(dir, "", first); err != nil {
				t.Fatal(err)
			}
			tt.spoil(dir)
			before, err := listCopy(dir)
			if err != nil {
				t.Fatal(err)
			}
			_, err = s.Exchange(dir, first, second)
			if !errors.As(err, new(InTheWay)) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v; want %q", err, tt.want)
			}
			after, err := listCopy(dir)
			text, other := os.ReadFile(filepath.Join(dir, "b.js"))
			if err != nil || other != nil || len(after) != len(before) || string(text) != "1" {
				t.Errorf("%v, %v, b.js is %q", after, err, text)
			}
		})
	}
}

// TestKeep puts the tree of a copy back into a store that lacks it.
func TestKeep(t *testing.T) {
	s := New(t.TempDir(), consent.HoldsCode)
	hash := putFiles(t, s, map[string]string{"a.js": "1", "lib/b.js": "1"})
	dir := filepath.Join(t.TempDir(), "reports")
	if _, err := s.Exchange(dir, "", hash); err != nil {
		t.Fatal(err)
	}
	if err := s.VerifyCopy(hash, dir); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Remove(hash); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "cache"), "mine", 0o644)
	if err := s.VerifyCopy(hash, dir); err != nil { // the notes of the copy say which files are those of the tree
		t.Fatal(err)
	}
	if err := s.Keep(hash, dir); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Verify(hash); err != nil {
		t.Error(err)
	}
	other := New(t.TempDir(), consent.HoldsCode) // it knows neither the tree nor the copy
	if err := other.Keep(hash, dir); !errors.As(err, new(Missing)) {
		t.Errorf("with a file that may be of the tree: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, "cache")); err != nil {
		t.Fatal(err)
	}
	if err := other.Keep(hash, dir); err != nil {
		t.Error(err)
	}
	t.Cleanup(func() { _, _ = other.Remove(hash) })
}
