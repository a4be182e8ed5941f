package store

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"github.com/exthost/exthost/internal/file"
)

// Left lists files that the store did not write and keeps.
type Left struct {
	Dir   string   // their directory
	Files []string // paths in Dir, sorted
}

// asidePrefix starts the names of directories for files moved aside.
const asidePrefix = "aside-"

// restore replaces the damaged tree in dir by the files of t, with the versions made. Data files stay in place;
// other files are moved aside.
func (s Store) restore(dir string, t *Tree, made files) (Left, error) {
	if err := open(dir); err != nil {
		return Left{}, err
	}
	r := restoration{store: s, dir: dir, made: made, dirs: made.dirs()}
	if err := r.makeRoom(); err != nil {
		return r.aside, err
	}
	if err := r.moveIn(t.dir); err != nil {
		return r.aside, err
	}
	slices.Sort(r.aside.Files)
	return r.aside, seal(dir, r.dirs)
}

// restoration is the state of one restore.
type restoration struct {
	store Store
	dir   string // of the damaged tree
	made  files  // of the tree as it should be
	dirs  map[string]bool
	aside Left
}

// makeRoom moves aside what is in the way of the tree: files whose content differs, files where the tree has a
// directory, all files of a directory where the tree has a file, and code that the tree does not contain.
func (r *restoration) makeRoom() error {
	found, err := list(r.dir)
	if err != nil {
		return err
	}
	j := r.store.judge(r.dir, found, found.without(r.made))
	for name, e := range found {
		was, of := r.made[name]
		stays := !of && !r.dirs[name] && !r.inPlace(name) && !j.loads(name)
		if of && !e.others {
			if _, stays, err = e.same(r.dir, name, was); err != nil {
				return err
			}
		}
		if stays {
			continue
		}
		if err := r.moveAside(name); err != nil {
			return err
		}
	}
	return nil
}

// inPlace reports whether one of the directories of a file is where the tree has a file.
func (r *restoration) inPlace(name string) bool {
	for d := path.Dir(name); d != "."; d = path.Dir(d) {
		if _, of := r.made[d]; of {
			return true
		}
	}
	return false
}

func (r *restoration) moveAside(name string) (err error) {
	if r.aside.Dir == "" {
		r.aside.Dir, err = os.MkdirTemp(r.store.dir, asidePrefix+time.Now().Format("20060102-150405-"))
		if err != nil {
			return err
		}
	}
	to := filepath.Join(r.aside.Dir, filepath.FromSlash(name))
	r.aside.Files = append(r.aside.Files, name)
	return errors.Join(os.MkdirAll(filepath.Dir(to), 0o700),
		os.Rename(filepath.Join(r.dir, filepath.FromSlash(name)), to))
}

// moveIn moves the files that are missing from a whole tree into the damaged one.
func (r *restoration) moveIn(from string) error {
	for name := range r.made {
		at := filepath.Join(r.dir, filepath.FromSlash(name))
		switch info, err := os.Lstat(at); {
		case err == nil && !info.IsDir():
			continue // unchanged
		case err == nil:
			if err := removeEmpty(at); err != nil { // see makeRoom
				return err
			}
		}
		err := os.MkdirAll(filepath.Dir(at), 0o700)
		if err == nil {
			err = os.Rename(filepath.Join(from, filepath.FromSlash(name)), at)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// dirs returns the directories of a tree, including its root.
func (f files) dirs() map[string]bool {
	dirs := map[string]bool{".": true}
	for name := range f {
		for d := path.Dir(name); !dirs[d]; d = path.Dir(d) {
			dirs[d] = true
		}
	}
	return dirs
}

// seal makes the directories of a tree read-only.
func seal(dir string, dirs map[string]bool) (err error) {
	for d := range dirs {
		err = errors.Join(err, os.Chmod(filepath.Join(dir, filepath.FromSlash(d)), 0o555))
	}
	return err
}

// Remove removes the files of a tree, and returns the files beside them, which stay: data of the program or the
// user. Files in copies are removed too if they have not changed since [Store.Carry].
func (s Store) Remove(hash string, copies ...Copy) (left Left, err error) {
	dir, err := s.Path(hash)
	if err != nil {
		return left, err
	}
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return left, ignoreMissing(os.Remove(dir + notesEnding))
	}
	unlock, err := s.lock()
	if err != nil {
		return left, err
	}
	defer unlock()
	if err := open(dir); err != nil {
		return left, err
	}
	found, err := list(dir)
	if err != nil {
		return left, err
	}
	tree := s.notes(dir).tree(hash)
	if tree == nil { // notes written by an older program, or lost
		if all, got, err := found.all(dir); err == nil && got == hash {
			tree = all
		}
	}
	if err := found.removeTree(dir, tree); err != nil {
		return left, err
	}
	if err := found.removeCopies(dir, copies); err != nil {
		return left, err
	}
	if err := removeEmpty(dir); err != nil {
		return left, err
	}
	if len(found) == 0 {
		return left, ignoreMissing(os.Remove(dir + notesEnding))
	}
	return Left{dir, found.without(nil)}, nil
}

// removeTree removes the files in dir that are unchanged files of the tree.
func (f folder) removeTree(dir string, tree files) error {
	for name, was := range tree {
		e, ok := f[name]
		if !ok {
			continue
		}
		_, same, err := e.same(dir, name, was)
		if err != nil {
			return err
		}
		if same {
			delete(f, name)
			if err := os.Remove(filepath.Join(dir, filepath.FromSlash(name))); err != nil {
				return err
			}
		}
	}
	return nil
}

// removeCopies removes the files in dir that are unchanged originals or copies.
func (f folder) removeCopies(dir string, copies []Copy) error {
	for _, c := range copies {
		for _, at := range []string{c.from, c.to} {
			name, err := filepath.Rel(dir, at)
			if err != nil || !filepath.IsLocal(name) || !c.unchanged(at) {
				continue
			}
			delete(f, filepath.ToSlash(name))
			if err := os.Remove(at); err != nil {
				return err
			}
		}
	}
	return nil
}

// open makes the directories of a tree writable for this user only.
func open(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		return os.Chmod(path, info.Mode().Perm()&^0o022|0o700)
	})
}

// removeEmpty removes a directory and its subdirectories as far as they contain no files.
func removeEmpty(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return ignoreMissing(err)
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeEmpty(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	if entries, err = os.ReadDir(dir); err != nil || len(entries) > 0 {
		return ignoreMissing(err)
	}
	return ignoreMissing(os.Remove(dir))
}

// Copy is a data file that [Store.Carry] copied from one tree's folder to another's.
type Copy struct {
	from, to string
	sum      string // of the content, in hex
}

// Carry copies the data files beside one tree to the folder of another. It skips paths that exist there, and
// files that a program would load as code. Pass copies to [Store.Remove] when giving up either tree.
func (s Store) Carry(from, to string) (copies []Copy, err error) {
	old, err := s.Path(from)
	if err != nil {
		return nil, err
	}
	dir, err := s.Path(to)
	if err != nil {
		return nil, err
	}
	unlock, err := s.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	before, of := s.notes(old).tree(from), s.notes(dir).tree(to)
	was, err := list(old)
	if err != nil || before == nil || of == nil { // without notes, data and package files cannot be told apart
		return nil, ignoreMissing(err)
	}
	is, err := list(dir)
	if err != nil {
		return nil, err
	}
	all := was.without(before)
	j := s.judge(old, was, all)
	data := slices.DeleteFunc(slices.Clone(all), func(name string) bool {
		_, taken := is[name]
		return taken || !was[name].info.Mode().IsRegular() || j.loads(name)
	})
	if len(data) == 0 {
		return nil, nil
	}
	for _, name := range data {
		is[name] = was[name]
	}
	j = s.judge(dir, is, is.without(of))
	if err := open(dir); err != nil {
		return nil, err
	}
	for _, name := range data {
		if j.loads(name) {
			continue
		}
		c := Copy{from: filepath.Join(old, filepath.FromSlash(name)), to: filepath.Join(dir, filepath.FromSlash(name))}
		if err = c.make(s.dir, was[name].info.Mode().Perm()); err != nil {
			break
		}
		copies = append(copies, c)
	}
	return copies, errors.Join(err, seal(dir, of.dirs()))
}

// make makes the copy, which comes to its place only when it is whole. Until then it lies in dir, where [Store.New]
// removes what a program that was killed has left.
func (c *Copy) make(dir string, mode fs.FileMode) (err error) {
	if err := os.MkdirAll(filepath.Dir(c.to), 0o700); err != nil {
		return err
	}
	in, _, err := file.OpenRegular(c.from, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer in.Close()
	part := filepath.Join(dir, newPrefix+rand.Text())
	out, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	h := sha256.New()
	_, err = io.Copy(io.MultiWriter(out, h), in)
	c.sum = hex.EncodeToString(h.Sum(nil))
	if err = errors.Join(err, out.Sync(), out.Close()); err == nil {
		err = moveNew(part, c.to)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("%s cannot be copied to %s: %w", c.from, c.to, err), os.Remove(part))
	}
	return nil
}

// moveNew moves a file to a path where nothing is.
func moveNew(from, to string) error {
	switch _, err := os.Lstat(to); {
	case err == nil:
		return &fs.PathError{Op: "create", Path: to, Err: fs.ErrExist}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return os.Rename(from, to)
}

// unchanged reports whether the file at path, the original or the copy, has the copied content.
func (c *Copy) unchanged(path string) bool {
	f, info, err := file.OpenRegular(path, os.O_RDONLY, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	return err == nil && n == info.Size() && hex.EncodeToString(h.Sum(nil)) == c.sum
}
