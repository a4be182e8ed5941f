package store

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/charlievieth/fastwalk"

	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/internal/file/ownership"
)

// files are the versions of a tree's files by slash-separated path.
type files map[string]version

func (f files) hash() (string, error) {
	sums := make(map[string]string, len(f))
	for name, v := range f {
		sums[name] = v.Sum
	}
	return hash1(sums)
}

// folder holds everything but directories in a tree's folder, by slash-separated path.
type folder map[string]entry

// entry is a file's state in the file system.
type entry struct {
	file.Version
	info   fs.FileInfo
	others bool // others can write it
}

// maxEntries limits the files in a folder, including those beside the tree.
const maxEntries = 1_000_000

// list returns the content of a folder. A directory that others can write is an error: they could add code after
// verification.
func list(dir string) (folder, error) { return listed(&lister{dir: dir}) }

func listed(l *lister) (folder, error) {
	l.found = folder{}
	conf := fastwalk.DefaultConfig
	if err := fastwalk.Walk(&conf, l.dir, l.visit); err != nil {
		return nil, err
	}
	return l.found, nil
}

// lister collects files from concurrent callbacks.
type lister struct {
	dir    string
	shared bool // the folder is not the store's, and who may write it is decided elsewhere

	mu    sync.Mutex
	found folder
}

func (l *lister) visit(path string, d fs.DirEntry, err error) error {
	if err != nil {
		return err
	}
	info, err := d.Info()
	if err != nil {
		return ignoreMissing(err) // removed meanwhile
	}
	others := !l.shared && ownership.Own(path, info) != nil
	if d.IsDir() {
		if others {
			return writable(path)
		}
		return nil
	}
	name := filepath.ToSlash(strings.TrimPrefix(path, l.dir+string(filepath.Separator)))
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.found) >= maxEntries {
		return fmt.Errorf("%s has over %d files", l.dir, maxEntries)
	}
	l.found[name] = entry{file.VersionOf(info), info, others}
	return nil
}

func writable(path string) error { return fmt.Errorf("others can write %s", path) }

// all returns the versions of all files in f, each of which belongs to the tree, and their hash.
func (f folder) all(dir string) (files, string, error) {
	if len(f) > MaxFiles {
		return nil, "", fmt.Errorf("%s has over %d files", dir, MaxFiles)
	}
	var bytes int64
	tree := make(files, len(f))
	for _, name := range slices.Sorted(maps.Keys(f)) {
		e := f[name]
		if !e.info.Mode().IsRegular() {
			return nil, "", fmt.Errorf("%s is no regular file, which a package does not hold", filepath.Join(dir, name))
		}
		if bytes += e.Size; bytes > maxTree { // install scripts can create files of any size
			return nil, "", fmt.Errorf("with %s the files of %s are over %d MiB", name, dir, maxTree>>20)
		}
		v, err := e.read(dir, name)
		if err != nil {
			return nil, "", err
		}
		tree[name] = v
	}
	hash, err := tree.hash()
	return tree, hash, err
}

func (e entry) read(dir, name string) (version, error) {
	v := version{Version: e.Version}
	return v, v.read(filepath.Join(dir, filepath.FromSlash(name)))
}

// same reports whether a file still has the content of version was, and returns its current version.
func (e entry) same(dir, name string, was version) (now version, same bool, err error) {
	switch {
	case !e.info.Mode().IsRegular() || e.Size != was.Size:
		return was, false, nil
	case was.Is(e.Version):
		return was, true, nil
	}
	now, err = e.read(dir, name)
	return now, now.Sum == was.Sum, err
}

// compare returns the current versions of the tree's files, or an error that names changed ones. If known is nil,
// every file in the folder belongs to the tree.
func (f folder) compare(path, hash string, known files) (files, error) {
	if known == nil {
		tree, got, err := f.all(path)
		if err != nil {
			return nil, err
		}
		if got != hash {
			return nil, different(path, nil)
		}
		known = tree
	}
	tree, there := make(files, len(known)), false
	var changes []string
	for name, was := range known {
		e, ok := f[name]
		if !ok {
			changes = append(changes, name+" (removed)")
			continue
		}
		there = true
		if e.others {
			return nil, writable(filepath.Join(path, filepath.FromSlash(name)))
		}
		now, same, err := e.same(path, name, was)
		if err != nil {
			return nil, err
		}
		if tree[name] = now; !same {
			changes = append(changes, name)
		}
	}
	if !there { // only files beside the tree are left
		return nil, Missing{hash}
	}
	if changes != nil {
		return nil, different(path, changes)
	}
	return tree, nil
}

// without returns the sorted paths in f that are not in tree.
func (f folder) without(tree files) (beside []string) {
	for _, name := range slices.Sorted(maps.Keys(f)) {
		if _, of := tree[name]; !of {
			beside = append(beside, name)
		}
	}
	return beside
}

// different returns the error for a changed tree. It names the first few changes.
func different(path string, changes []string) error {
	text := "the files of " + path + " are not those that were added"
	if slices.Sort(changes); len(changes) > 4 {
		changes = append(changes[:4], fmt.Sprintf("%d more", len(changes)-4))
	}
	return fmt.Errorf("%s%s", text,
		cmp.Or(strings.TrimSuffix(": "+strings.Join(changes, ", "), ": "), "; which of them is not known"))
}

// stamp returns a hash over the state of all files except those in beside, and the tree's hash. It is "" if the
// file system does not record change times.
func (f folder) stamp(hash string, beside []string) string {
	h := sha256.New()
	var line []byte
	for _, name := range slices.Sorted(maps.Keys(f)) {
		if _, not := slices.BinarySearch(beside, name); not {
			continue
		}
		v := f[name]
		if v.Change == 0 || v.others {
			return ""
		}
		line = append(strconv.AppendQuote(line[:0], name), ' ')
		for _, n := range []int64{v.Size, int64(v.Inode), v.Mtime, v.Change} {
			line = append(strconv.AppendInt(line, n, 10), ' ')
		}
		h.Write(append(line, '\n'))
	}
	return hex.EncodeToString(h.Sum(nil)) + " " + hash
}
