package store

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/file"
)

// A copy of a tree is a folder outside of the store that holds the tree's files, and may hold others. Its user sees and
// edits it, so no file is read-only, and no file beside the tree is judged here.

// VerifyCopy compares the copy in dir with the tree of this hash, which need not be in the store. The error names files
// that were changed or removed, or says that an exchange of them has not ended; [Missing] means that none is there. As
// with [Store.Verify], what is unchanged according to the file system is not read again.
func (s Store) VerifyCopy(hash, dir string) error {
	if _, begun := s.killed(dir); begun {
		return fmt.Errorf("the exchange of the files of %s has not ended: it was killed, or is under way", dir)
	}
	found, err := listCopy(dir)
	if err != nil {
		return err
	}
	at := s.notesOfCopy(dir)
	noted := s.notes(at)
	if stamp := found.stamp(hash, noted.beside); stamp != "" && stamp == noted.stamp {
		return nil
	}
	known := noted.tree(hash)
	if known == nil {
		known = s.noted(hash)
	}
	tree, err := found.compare(dir, hash, known)
	if err != nil {
		return err
	}
	now := notes{beside: found.without(tree)}
	now.stamp = found.stamp(hash, now.beside)
	s.note(at, now, tree)
	return nil
}

// listCopy returns the content of the folder of a copy, which may be missing.
func listCopy(dir string) (folder, error) {
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return folder{}, nil
	}
	return listed(&lister{dir: dir, shared: true})
}

// notesOfCopy returns the path whose notes are about the copy in dir.
func (s Store) notesOfCopy(dir string) string {
	sum := sha256.Sum256([]byte(dir))
	return filepath.Join(s.dir, "copy-"+hex.EncodeToString(sum[:]))
}

// noted returns the files of a tree of the store according to its notes, nil if they are not known.
func (s Store) noted(hash string) files {
	path, err := s.Path(hash)
	if err != nil {
		return nil
	}
	return s.notes(path).tree(hash)
}

// filesOfCopy returns the files of a tree of which dir has a copy; nil for the hash "".
func (s Store) filesOfCopy(hash, dir string, found folder) (files, error) {
	if hash == "" {
		return nil, nil
	}
	if tree := s.notes(s.notesOfCopy(dir)).tree(hash); tree != nil {
		return tree, nil
	}
	if tree := s.noted(hash); tree != nil {
		return tree, nil
	}
	if all, got, err := found.all(dir); err == nil && got == hash {
		return all, nil
	}
	return nil, Missing{hash}
}

// Keep puts the tree of this hash into the store, from its copy in dir.
func (s Store) Keep(hash, dir string) error {
	if _, _, err := s.Verify(hash); err == nil {
		return nil
	}
	found, err := listCopy(dir)
	if err != nil {
		return err
	}
	of, err := s.filesOfCopy(hash, dir, found)
	if err != nil {
		return err
	}
	t, err := s.New()
	if err != nil {
		return err
	}
	for name := range of {
		if err := t.copyFile(filepath.Join(dir, filepath.FromSlash(name)), name); err != nil {
			return errors.Join(err, t.Drop())
		}
	}
	switch got, err := t.Hash(); {
	case err != nil:
		return errors.Join(err, t.Drop())
	case got != hash:
		return errors.Join(different(dir, nil), t.Drop())
	}
	if _, _, err = s.Put(t); err != nil {
		return errors.Join(err, t.Drop())
	}
	return nil
}

// copyFile adds the file at path to the tree.
func (t *Tree) copyFile(path, name string) error {
	f, info, err := file.OpenRegular(path, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	return t.add(name, info.Mode(), f, maxTree-t.bytes)
}

// Exchange replaces the copy of the tree from in dir by one of the tree to, which is in the store. "" stands for no
// tree: with it as from the copy is added, with it as to the copy is removed, and dir with it if that leaves it empty.
// Files of neither tree stay; left are their names. A file that is in the way is an error that names it, and then
// nothing has changed. What an exchange of dir has left that was killed counts as files of its trees.
func (s Store) Exchange(dir, from, to string) (left []string, err error) {
	if err := s.own(); err != nil {
		return nil, err
	}
	unlock, err := s.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	return s.exchange(dir, from, to)
}

// exchange is [Store.Exchange] while the store is locked.
func (s Store) exchange(dir, from, to string) (left []string, err error) {
	x, err := s.prepare(dir, from, to)
	if err != nil {
		return nil, err
	}
	return s.perform(x)
}

// prepare plans an exchange, and changes nothing.
func (s Store) prepare(dir, from, to string) (*exchange, error) {
	found, err := listCopy(dir)
	if err != nil {
		return nil, err
	}
	x := &exchange{dir: dir, from: from, to: to, found: found}
	if x.was, err = s.filesOfCopy(from, dir, found); err != nil {
		return nil, err
	}
	x.ours = append(x.ours, x.was)
	if to != "" {
		if x.source, _, err = s.Verify(to); err != nil {
			return nil, err
		}
		if x.is = s.noted(to); x.is == nil {
			return nil, fmt.Errorf("%s: the notes of the store about it are lost", x.source)
		}
	}
	if err := s.takeOver(x); err != nil {
		return nil, err
	}
	x.foreign = x.foreignIn()
	return x, x.plan()
}

// perform runs an exchange. If that fails, the folder is put back into the state before.
func (s Store) perform(x *exchange) (left []string, err error) {
	_, resumed := s.killed(x.dir)
	if err := s.begin(x.dir, pending{x.from, x.to}); err != nil {
		return nil, err
	}
	if err := x.run(); err != nil {
		if other := s.undo(x); other != nil {
			return nil, errors.Join(err, fmt.Errorf("%s has files of two versions now: %w", x.dir, other))
		}
		if resumed {
			return nil, err // what the exchange before has left is noted still
		}
		return nil, errors.Join(err, s.end(x.dir))
	}
	if err := s.end(x.dir); err != nil {
		return nil, err
	}
	if x.to == "" {
		_ = os.Remove(s.notesOfCopy(x.dir) + notesEnding) // may not exist
	}
	return x.left(), nil
}

// exchange is one exchange of a copy.
type exchange struct {
	dir      string  // of the copy
	from, to string  // hashes of the old and the new tree
	source   string  // of the files of the new tree
	found    folder  // in dir
	was, is  files   // the old and the new tree
	ours     []files // the old tree, and those of an exchange before that was killed

	foreign map[string]string // see foreignIn

	write, remove []string // what of them changes, sorted
	done          []string // what run has written or removed, in this order
}

// wrote reports whether a file of the folder is one that the store wrote there.
func (x *exchange) wrote(name string, e entry) (bool, error) {
	for _, tree := range x.ours {
		of, known := tree[name]
		if !known {
			continue
		}
		if same, err := x.holds(name, e, of); err != nil || same {
			return same, err
		}
	}
	return false, nil
}

// plan decides which files to write and to remove. It fails if something is in the way.
func (x *exchange) plan() error {
	var inWay []string
	for _, name := range slices.Sorted(maps.Keys(x.is)) {
		at, there, err := x.place(name)
		if err != nil {
			return err
		}
		if at != "" {
			inWay = append(inWay, at)
		}
		if !there {
			x.write = append(x.write, name)
		}
	}
	if inWay != nil {
		slices.Sort(inWay)
		return InTheWay{x.dir, slices.Compact(inWay)}
	}
	for name, e := range x.found {
		if _, stays := x.is[name]; stays {
			continue
		}
		mine, err := x.wrote(name, e)
		if err != nil {
			return err
		}
		if mine {
			x.remove = append(x.remove, name)
		}
	}
	slices.Sort(x.remove)
	return nil
}

// place looks at the place of one file of the new tree. inWay names what may not be replaced there, and there means
// that the file itself is there.
func (x *exchange) place(name string) (inWay string, there bool, err error) {
	e, taken := x.found[name]
	if taken {
		if there, err = x.holds(name, e, x.is[name]); err != nil || there {
			return "", there, err
		}
	}
	if _, taken := x.found[name+newEnding]; taken { // somebody else's, see takeOver
		return name + newEnding, false, nil
	}
	if !taken {
		inWay, err = x.obstacle(name)
		return inWay, false, err
	}
	if mine, err := x.wrote(name, e); err != nil || mine {
		return "", false, err
	}
	return name, false, nil
}

// InTheWay is the error of an exchange that would replace files of the user.
type InTheWay struct {
	Dir   string
	Files []string // sorted
}

// Error implements [error].
func (w InTheWay) Error() string {
	names := w.Files
	more := ""
	if len(names) > 4 {
		names, more = names[:4], fmt.Sprintf(" and %d more", len(names)-4)
	}
	return fmt.Sprintf("in %s there is %s%s, which would be replaced", w.Dir, strings.Join(names, ", "), more)
}

// holds reports whether a file of the copy has the content of a version.
func (x *exchange) holds(name string, e entry, of version) (bool, error) {
	_, same, err := e.same(x.dir, name, of)
	return same, err
}

// obstacle returns what keeps a new file from being written: a file or link in place of one of its directories, or
// files in a directory in its own place; "" for nothing.
func (x *exchange) obstacle(name string) (at string, err error) {
	if at = x.foreign[name]; at != "" {
		return at, nil
	}
	for d := path.Dir(name); d != "."; d = path.Dir(d) {
		e, there := x.found[d]
		if !there {
			continue
		}
		if mine, err := x.wrote(d, e); err != nil || !mine {
			return d, err
		}
	}
	return "", nil
}

// foreignIn returns one file that is of none of our trees for each directory that holds such files.
func (x *exchange) foreignIn() map[string]string {
	dirs := map[string]string{}
	for name := range x.found {
		if slices.ContainsFunc(x.ours, func(tree files) bool { _, ours := tree[name]; return ours }) {
			continue
		}
		for d := path.Dir(name); d != "." && dirs[d] == ""; d = path.Dir(d) {
			dirs[d] = name
		}
	}
	return dirs
}

// run removes the old files and writes the new ones.
func (x *exchange) run() error {
	if len(x.is) > 0 {
		if err := os.MkdirAll(x.dir, 0o755); err != nil {
			return err
		}
	}
	in, err := os.OpenRoot(x.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer in.Close()
	for _, name := range x.remove {
		switch ours, err := x.unedited(in, name); {
		case err != nil:
			return err
		case !ours:
			continue
		}
		if err := file.RemoveIn(in, name); err != nil {
			return err
		}
		x.done = append(x.done, name)
	}
	for _, name := range x.write {
		if err := x.replace(in, name); err != nil {
			return err
		}
		x.done = append(x.done, name)
	}
	if len(x.is) == 0 {
		_ = os.Remove(x.dir) // fails unless empty
	}
	return nil
}

// newEnding ends the name of a file until it is complete. [Store.takeOver] removes one that a killed program has left.
const newEnding = ".exthost-new"

// replace writes one file of the new tree. It refuses to replace a file that its user has saved since the plan.
func (x *exchange) replace(in *os.Root, name string) error {
	if err := stage(in, x.source, name); err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(x.dir, name), err)
	}
	ours, err := x.unedited(in, name)
	switch {
	case err == nil && !ours:
		err = InTheWay{x.dir, []string{name}}
	case err == nil:
		err = place(in, name)
	}
	if err != nil {
		return errors.Join(err, in.Remove(filepath.FromSlash(name)+newEnding))
	}
	return nil
}

// unedited reports whether nothing is lost where a file is replaced or removed: it is missing, as the plan has found
// it, or of one of our trees. It is asked immediately before, since the user may save files during an exchange.
func (x *exchange) unedited(in *os.Root, name string) (bool, error) {
	info, err := in.Lstat(filepath.FromSlash(name))
	if err != nil {
		return errors.Is(err, fs.ErrNotExist), ignoreMissing(err)
	}
	now := entry{Version: file.VersionOf(info), info: info}
	switch e, taken := x.found[name]; {
	case !taken:
		return slices.Contains(x.remove, name), nil // a file that was not complete, see takeOver
	case e.Is(now.Version):
		return true, nil
	}
	return x.wrote(name, now)
}

// stage copies a file of the tree in source to the directory where [place] then puts it.
func stage(in *os.Root, source, name string) error {
	name = filepath.FromSlash(name)
	from, err := os.Open(filepath.Join(source, name))
	if err != nil {
		return err
	}
	defer from.Close()
	info, err := from.Stat()
	if err != nil {
		return err
	}
	if err := in.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	mode := fs.FileMode(0o644)
	if info.Mode()&0o111 != 0 {
		mode = 0o755
	}
	to, err := in.OpenFile(name+newEnding, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	if err = errors.Join(err, to.Close()); err != nil {
		return errors.Join(err, in.Remove(name+newEnding))
	}
	return nil
}

// place gives a file that [stage] has copied its name.
func place(in *os.Root, name string) error {
	name = filepath.FromSlash(name)
	return in.Rename(name+newEnding, name)
}

// left returns the files in the folder that are of neither tree, or were changed.
func (x *exchange) left() (names []string) {
	removed := make(map[string]bool, len(x.done))
	for _, name := range x.done {
		removed[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(x.found)) {
		if _, is := x.is[name]; !is && !removed[name] {
			names = append(names, name)
		}
	}
	return names
}
