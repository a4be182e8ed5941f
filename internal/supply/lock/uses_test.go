package lock

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
)

// has reports whether the tree is in the store.
func (b *bench) has(tree string) bool {
	b.t.Helper()
	trees, err := b.uses.Store.Trees()
	if err != nil {
		b.t.Fatal(err)
	}
	return slices.Contains(trees, tree)
}

func (b *bench) release(trees ...string) {
	b.t.Helper()
	for _, tree := range trees {
		if _, err := b.uses.Release(tree); err != nil {
			b.t.Error(err)
		}
	}
}

// TestRelease keeps trees that a listed directory's lock file refers to, and removes others.
func TestRelease(t *testing.T) {
	b := newBench(t)
	other := b.put("2")
	if err := b.uses.Add(b.dir); err != nil {
		t.Fatal(err)
	}
	b.release(b.tree, other, "")
	if !b.has(b.tree) || b.has(other) {
		t.Errorf("the tree in use: %v, the other: %v", b.has(b.tree), b.has(other))
	}
	if err := os.Remove(filepath.Join(b.dir, FileName)); err != nil {
		t.Fatal(err)
	}
	b.release(b.tree)
	if b.has(b.tree) {
		t.Error("nobody uses it, and it is there")
	}
}

// TestReleaseBrokenLock keeps all trees while one lock file cannot be read.
func TestReleaseBrokenLock(t *testing.T) {
	b := newBench(t)
	if err := errors.Join(b.uses.Add(b.dir),
		os.WriteFile(filepath.Join(b.dir, FileName), []byte("<<<<<<< ours\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	b.release(b.tree)
	if !b.has(b.tree) {
		t.Error("it was removed")
	}
}

// TestReleaseBrokenList removes nothing if the list of directories cannot be read.
func TestReleaseBrokenList(t *testing.T) {
	b := newBench(t)
	if err := os.WriteFile(b.uses.Path, []byte("["), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := b.uses.Release(b.tree); err == nil || !b.has(b.tree) {
		t.Errorf("%v, the tree is there: %v", err, b.has(b.tree))
	}
}

// TestReleaseOfAClone keeps the tree of a clone that fetched nothing, because the package was on this machine
// already.
func TestReleaseOfAClone(t *testing.T) {
	b := newBench(t)
	if _, _, err := NewPackages(b.dir, b.uses).Verify(b.candidate()); err != nil {
		t.Fatal(err)
	}
	b.release(b.tree)
	if !b.has(b.tree) {
		t.Error("the package of a directory that has run it was removed")
	}
}

// TestAdd adds directories concurrently; those without a lock file are dropped from the list.
func TestAdd(t *testing.T) {
	b := newBench(t)
	gone := t.TempDir()
	if err := b.uses.Add(gone); err != nil {
		t.Fatal(err)
	}
	var want []string
	for n := range 16 {
		dir := filepath.Join(t.TempDir(), fmt.Sprint(n))
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		b.lock(dir, b.entry())
		want = append(want, dir)
	}
	errs := make([]error, len(want))
	var adding sync.WaitGroup
	for n, dir := range want {
		adding.Go(func() { errs[n] = errors.Join(b.uses.Add(dir), b.uses.Add(dir)) })
	}
	adding.Wait()
	got, err := b.uses.read()
	if err := errors.Join(append(errs, err)...); err != nil {
		t.Fatal(err)
	}
	slices.Sort(got)
	if slices.Sort(want); !slices.Equal(got, want) {
		t.Errorf("noted: %q, want %q", got, want)
	}
}
