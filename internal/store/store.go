// Package store keeps the unpacked files of packages, by what they hold.
package store

import (
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
	"sync"
	"time"

	"github.com/charlievieth/fastwalk"

	"github.com/exthost/exthost/internal/ownership"
	"github.com/exthost/exthost/internal/regular"
)

// Store is a directory of trees, each named by its hash. It belongs to one user.
type Store struct{ dir string }

// New returns the store in a directory. The first tree makes it.
func New(dir string) Store { return Store{dir} }

// Path is where the tree of that hash lies, or would.
func (s Store) Path(hash string) (string, error) {
	sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(hash, "h1:"))
	if err != nil || !strings.HasPrefix(hash, "h1:") || len(sum) != 32 {
		return "", fmt.Errorf("%q is no hash of files", hash)
	}
	return filepath.Join(s.dir, hex.EncodeToString(sum)), nil
}

// New returns an empty tree in the store's directory. The caller puts it into the store or
// drops it.
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

// Trees that are put together have names with this prefix, and are given up after this time.
const (
	newPrefix = "new-"
	givenUp   = 24 * time.Hour
)

// dropOld removes trees of programs that were killed before they put or dropped them.
func (s Store) dropOld() error {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		if info, err := e.Info(); strings.HasPrefix(e.Name(), newPrefix) && err == nil && time.Since(info.ModTime()) > givenUp {
			errs = append(errs, removeAll(filepath.Join(s.dir, e.Name())))
		}
	}
	return errors.Join(errs...)
}

// own makes the directory of the store, and refuses one that others can write.
func (s Store) own() error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	return s.private()
}

// private refuses a store that is not the user's alone to write.
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

// Dir is where the tree lies until it is in the store.
func (t *Tree) Dir() string { return t.dir }

// Drop removes a tree that is not in the store.
func (t *Tree) Drop() error { return removeAll(t.dir) }

// Hash is the hash that the tree would have in the store.
func (t *Tree) Hash() (string, error) {
	listed, err := list(t.dir)
	if err != nil {
		return "", err
	}
	return listed.hash(t.dir, nil)
}

// Put moves a tree into the store and returns its hash. A tree that the store has already stays.
func (s Store) Put(t *Tree) (hash string, err error) {
	if hash, err = t.Hash(); err != nil {
		return "", err
	}
	path, err := s.Path(hash)
	if err != nil {
		return "", err
	}
	if _, err := os.Lstat(path); err == nil {
		if _, err := s.Verify(hash); err == nil {
			return hash, t.Drop()
		}
		if err := s.Remove(hash); err != nil { // damaged: the new one takes its place
			return "", err
		}
	}
	if err := protect(t.dir); err != nil {
		return "", err
	}
	if err := os.Chmod(t.dir, 0o700); err != nil { // some systems rename only what they may write
		return "", err
	}
	if err := os.Rename(t.dir, path); err != nil {
		if _, other := s.Verify(hash); other == nil { // another program was faster
			return hash, t.Drop()
		}
		return "", err
	}
	return hash, os.Chmod(path, 0o555)
}

// Missing is the error of a tree that is not in the store.
type Missing struct{ Hash string }

// Error names the hash.
func (m Missing) Error() string { return "the package " + m.Hash + " is not on this machine" }

// Verify returns where the tree of that hash lies, after holding its files against the hash.
// A file that the file system says has not changed since it was read last is not read again:
// its inode, size, time and the time of its last change, which no program can set, are noted
// beside the tree. The error names what is not as it should be.
func (s Store) Verify(hash string) (path string, err error) {
	path, err = s.Path(hash)
	if err != nil {
		return "", err
	}
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", Missing{hash}
	case err != nil:
		return "", err
	case !info.IsDir():
		return "", fmt.Errorf("%s is not a directory", path)
	}
	if err := s.private(); err != nil {
		return "", err
	}
	listed, err := list(path)
	if err != nil {
		return "", err
	}
	noted, stamp := s.notes(path), listed.stamp(hash)
	if stamp != "" && stamp == noted.stamp {
		return path, nil
	}
	versions := noted.versions()
	got, err := listed.hash(path, versions)
	if err != nil {
		return "", err
	}
	if got != hash {
		return "", fmt.Errorf("the files of %s are not those that were added%s", path, listed.differs(versions))
	}
	if stamp != noted.stamp || !maps.Equal(listed, versions) {
		s.note(path, stamp, listed)
	}
	return path, nil
}

// Remove removes a tree.
func (s Store) Remove(hash string) error {
	path, err := s.Path(hash)
	if err != nil {
		return err
	}
	return errors.Join(removeAll(path), gone(os.Remove(path+notesEnding)))
}

// Trees are the hashes of all trees.
func (s Store) Trees() (hashes []string, err error) {
	entries, err := os.ReadDir(s.dir)
	if err = gone(err); err != nil {
		return nil, err
	}
	for _, e := range entries {
		if sum, err := hex.DecodeString(e.Name()); err == nil && len(sum) == 32 {
			hashes = append(hashes, "h1:"+base64.StdEncoding.EncodeToString(sum))
		}
	}
	return hashes, nil
}

// files are the versions of a tree's files by their paths, with slashes.
type files map[string]version

// list is the files of a tree. What is no file and no directory does not belong there, nor does
// what others can change after it was read.
func list(dir string) (files, error) {
	l := lister{dir: dir, found: files{}}
	conf := fastwalk.DefaultConfig
	if err := fastwalk.Walk(&conf, dir, l.visit); err != nil {
		return nil, err
	}
	return l.found, nil
}

// lister collects files, on several goroutines at once.
type lister struct {
	dir string

	mu    sync.Mutex
	found files
	bytes int64
}

func (l *lister) visit(path string, d fs.DirEntry, err error) error {
	if err != nil {
		return err
	}
	if !d.IsDir() && !d.Type().IsRegular() {
		return fmt.Errorf("%s is no regular file, which a package does not hold", path)
	}
	info, err := d.Info()
	if err != nil {
		return err
	}
	if err := ownership.Own(path, info); err != nil || d.IsDir() {
		return err
	}
	name := filepath.ToSlash(strings.TrimPrefix(path, l.dir+string(filepath.Separator)))
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.found) >= maxFiles {
		return fmt.Errorf("%s has over %d files", l.dir, maxFiles)
	}
	if l.bytes += info.Size(); l.bytes > maxTree { // an install script may have made them
		return fmt.Errorf("with %s the files of %s are over %d MiB", name, l.dir, maxTree>>20)
	}
	l.found[name] = version{Version: regular.VersionOf(info)}
	return nil
}

// hash fills in the sums and returns the hash of all. noted are sums of earlier versions.
func (f files) hash(dir string, noted files) (string, error) {
	sums := make(map[string]string, len(f))
	for name, v := range f {
		if was, ok := noted[name]; ok && was.Is(v.Version) {
			v.Sum = was.Sum
		} else if err := v.read(filepath.Join(dir, filepath.FromSlash(name))); err != nil {
			return "", err
		}
		f[name], sums[name] = v, v.Sum
	}
	return hash1(sums)
}

// differs tells of the first files that are not as they were noted.
func (f files) differs(noted files) string {
	if noted == nil {
		return ""
	}
	var changes []string
	for name, v := range f {
		if was, ok := noted[name]; !ok {
			changes = append(changes, name+" (new)")
		} else if was.Sum != v.Sum {
			changes = append(changes, name)
		}
	}
	for name := range noted {
		if _, ok := f[name]; !ok {
			changes = append(changes, name+" (removed)")
		}
	}
	slices.Sort(changes)
	if len(changes) > 4 {
		changes = append(changes[:4], fmt.Sprintf("%d more", len(changes)-4))
	}
	return ": " + strings.Join(changes, ", ")
}

// protect takes the right to write from all directories of a tree but its root.
func protect(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() || path == dir {
			return err
		}
		return os.Chmod(path, 0o555)
	})
}

// removeAll removes a tree of read-only directories.
func removeAll(dir string) error {
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		return os.Chmod(path, 0o700)
	})
	return errors.Join(gone(err), os.RemoveAll(dir))
}

func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
