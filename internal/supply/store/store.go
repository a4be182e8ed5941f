// Package store keeps the unpacked files of packages, addressed by their hash.
package store

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/internal/file/ownership"
)

// Store is a directory of trees, each named by its hash. It belongs to one user.
//
// Programs may write data files beside their code. Such files are not part of the tree: they do not fail its
// verification, and the store neither removes nor replaces them.
type Store struct {
	dir    string
	isCode IsCode
}

// IsCode reports whether a regular file may affect what runs, by name, content or mode.
type IsCode func(path string, info fs.FileInfo) bool

// New returns the store in dir, which is created with the first tree. Files beside a tree are refused if isCode
// reports true for them, or always if isCode is nil.
func New(dir string, isCode IsCode) Store { return Store{dir, isCode} }

// Path returns the directory of the tree with this hash, whether it exists or not.
func (s Store) Path(hash string) (string, error) {
	sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(hash, "h1:"))
	if err != nil || !strings.HasPrefix(hash, "h1:") || len(sum) != 32 {
		return "", fmt.Errorf("%q is no hash of files", hash)
	}
	return filepath.Join(s.dir, hex.EncodeToString(sum)), nil
}

// New returns an empty tree in the store's directory. The caller must end it with [Store.Put] or [Tree.Drop].
func (s Store) New() (*Tree, error) {
	if err := s.own(); err != nil {
		return nil, err
	}
	if err := s.dropOld(); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(s.dir, newPrefix)
	if err != nil {
		return nil, err
	}
	return &Tree{dir: dir, names: map[string]string{}, kinds: map[string]bool{}}, nil
}

// Unfinished trees, and files of [Store.Carry], have this prefix, and are removed after this time.
const (
	newPrefix = "new-"
	givenUp   = 24 * time.Hour
)

// dropOld removes what programs that were killed have not finished.
func (s Store) dropOld() error {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		if info, err := e.Info(); strings.HasPrefix(e.Name(), newPrefix) && err == nil &&
			time.Since(info.ModTime()) > givenUp {
			errs = append(errs, removeAll(filepath.Join(s.dir, e.Name())))
		}
	}
	return errors.Join(errs...)
}

// own creates the store's directory, and refuses one that others can write.
func (s Store) own() error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	return s.private()
}

// private refuses a store that others can write.
func (s Store) private() error {
	info, err := os.Lstat(s.dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("the store %s is not a directory", s.dir)
	}
	return ownership.Own(s.dir, info)
}

// Dir returns the tree's directory until it is put into the store.
func (t *Tree) Dir() string { return t.dir }

func (t *Tree) Drop() error { return removeAll(t.dir) }

// Hash returns the hash of the tree's files.
func (t *Tree) Hash() (string, error) {
	_, hash, err := t.files()
	return hash, err
}

// files returns the tree's files and their hash.
func (t *Tree) files() (files, string, error) {
	found, err := list(t.dir)
	if err != nil {
		return nil, "", err
	}
	return found.all(t.dir)
}

// Put moves a tree into the store and returns its hash. If the store has the tree already, Put drops t, but first
// restores a damaged tree. aside are files that restoring moved away, such as changed files of the tree.
func (s Store) Put(t *Tree) (hash string, aside Left, err error) {
	made, hash, err := t.files()
	if err != nil {
		return "", aside, err
	}
	path, err := s.Path(hash)
	if err != nil {
		return "", aside, err
	}
	unlock, err := s.lock()
	if err != nil {
		return "", aside, err
	}
	defer unlock()
	if _, err := os.Lstat(path); err == nil {
		if _, _, err := s.Verify(hash); err != nil {
			if aside, err = s.restore(path, t, made); err != nil {
				return "", aside, err
			}
			s.note(path, notes{}, made)
		}
		return hash, aside, t.Drop()
	}
	if err := protect(t.dir); err != nil {
		return "", aside, err
	}
	if err := os.Chmod(t.dir, 0o700); err != nil { // some systems rename only writable directories
		return "", aside, err
	}
	if err := os.Rename(t.dir, path); err != nil {
		return "", aside, err
	}
	s.note(path, notes{}, made)
	return hash, aside, os.Chmod(path, 0o555)
}

// lock keeps other programs from changing trees until unlock. It waits up to a minute.
func (s Store) lock() (unlock func(), err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return file.LockDirContext(ctx, s.dir)
}

// Missing is returned for a tree that is not in the store.
type Missing struct{ Hash string }

func (m Missing) Error() string { return "the package " + m.Hash + " is not on this machine" }

// Verify returns the directory of the tree with this hash, after verifying its files, and the sorted paths of
// data files beside them. The error names files that were changed, removed, or added where a program may load
// them as code.
//
// Files that are unchanged according to the file system are not read again. Their inode, size, modification time
// and change time, which programs cannot set, are noted beside the tree.
func (s Store) Verify(hash string) (path string, beside []string, err error) {
	path, err = s.Path(hash)
	if err != nil {
		return "", nil, err
	}
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil, Missing{hash}
	case err != nil:
		return "", nil, err
	case !info.IsDir():
		return "", nil, fmt.Errorf("%s is not a directory", path)
	}
	if err := s.private(); err != nil {
		return "", nil, err
	}
	found, err := list(path)
	if err != nil {
		return "", nil, err
	}
	noted := s.notes(path)
	stamp := found.stamp(hash, noted.beside)
	if stamp == "" || stamp != noted.stamp {
		known := noted.tree(hash)
		tree, err := found.compare(path, hash, known)
		if err != nil {
			return "", nil, err
		}
		now := notes{beside: found.without(tree)}
		now.stamp = found.stamp(hash, now.beside)
		if now.stamp != noted.stamp || !slices.Equal(now.beside, noted.beside) || !maps.Equal(tree, known) {
			s.note(path, now, tree)
		}
		noted = now
	}
	beside = slices.DeleteFunc(noted.beside, func(name string) bool { _, there := found[name]; return !there })
	return path, beside, s.refuse(path, found, beside)
}

// refuse returns an error if a program may load a file beside the tree as code.
func (s Store) refuse(path string, found folder, beside []string) error {
	j := s.judge(path, found, beside)
	var changes []string
	for _, name := range beside {
		if j.loads(name) {
			changes = append(changes, name+" (new)")
		}
	}
	if changes == nil {
		return nil
	}
	return different(path, changes)
}

// Trees returns the hashes of all trees.
func (s Store) Trees() (hashes []string, err error) {
	entries, err := os.ReadDir(s.dir)
	if err = ignoreMissing(err); err != nil {
		return nil, err
	}
	for _, e := range entries {
		if sum, err := hex.DecodeString(e.Name()); err == nil && len(sum) == 32 {
			hashes = append(hashes, "h1:"+base64.StdEncoding.EncodeToString(sum))
		}
	}
	return hashes, nil
}

// protect makes all directories of a tree but its root read-only.
func protect(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() || path == dir {
			return err
		}
		return os.Chmod(path, 0o555)
	})
}

// removeAll removes a tree with read-only directories.
func removeAll(dir string) error {
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		return os.Chmod(path, 0o700)
	})
	return errors.Join(ignoreMissing(err), os.RemoveAll(dir))
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
