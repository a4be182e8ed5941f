package consent

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
	"syscall"

	"github.com/exthost/exthost/internal/file/regular"
)

// Bounds of the files of one folder. A folder with more is never trusted: what cannot be
// compared cannot be agreed to.
const (
	maxFiles   = 50_000
	maxBytes   = 4 << 30
	maxEntries = 1_000_000 // files of data and directories among them
)

// File is one version of a file.
type File struct {
	Sum string `json:"sha256"`
	// Local files are not those of another clone: installed packages, and values for this machine.
	Local bool `json:"local,omitempty"`
	// While the file system says the same, the file is not read again.
	regular.Version
}

// Files are versions of files by their slash-separated paths, relative to a folder or
// absolute where there is no relative one.
type Files map[string]File

// Digest is one hash of all paths and contents that are the same in every clone.
func (f Files) Digest() string {
	h := sha256.New()
	for _, path := range slices.Sorted(maps.Keys(f)) {
		if !f[path].Local {
			fmt.Fprintf(h, "%s %s\n", f[path].Sum, path)
		}
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// own returns the files of the folder itself: those of an extension that the program brings name
// and load no other.
func (f Files) own() Files {
	own := Files{}
	for path, file := range f {
		if !strings.HasPrefix(path, "../") && !filepath.IsAbs(path) {
			own[path] = file
		}
	}
	return own
}

// Differs returns the sorted paths at which f and before differ, each with a word that says
// how.
func (f Files) Differs(before Files) (changes []string) {
	name := func(key string) string { return strings.TrimSuffix(key, "//") } // of PackageKey
	for path, now := range f {
		switch was, ok := before[path]; {
		case !ok:
			changes = append(changes, name(path)+" (new)")
		case was.Sum != now.Sum:
			changes = append(changes, name(path))
		}
	}
	for path := range before {
		if _, ok := f[path]; !ok {
			changes = append(changes, name(path)+" (removed)")
		}
	}
	slices.Sort(changes)
	return changes
}

// reader collects the files of one folder.
type reader struct {
	known   Files // earlier versions
	files   Files
	bytes   int64
	entries int
	local   bool              // what is added now is
	place   string            // which the error of too many names
	seen    map[string]string // directories, links resolved: the path under which they are compared
	links   map[string]link   // links to these
	real    map[string]string // directories of named files without links
	looks   *looks            // at the content of files
	marks   []mark
}

// link is a link to a folder that is compared under another path.
type link struct {
	target string
	local  bool
}

func newReader(known Files, l *looks) *reader {
	return &reader{
		known: known,
		looks: l,
		files: Files{},
		seen:  map[string]string{},
		links: map[string]link{},
		real:  map[string]string{},
	}
}

// Folder returns the files of dir that decide what runs: those that interpreters and tools
// load, those that can be executed, and those in named, which are absolute. Files that a
// link leads to belong to them. Paths are relative to dir. A file that the file
// system says is that of known is not read. Data files are left out, because extensions
// write such: those that nothing can execute, and whose name, ending and content are not those of code. The error is a
// file that cannot be read, or too many.
func Folder(dir string, named []string, known Files) (Files, error) {
	s, err := folder(dir, named, known, nil)
	if err != nil {
		return nil, err
	}
	return s.files, nil
}

func folder(dir string, named []string, known Files, l *looks) (*sight, error) {
	r := newReader(known, l)
	if err := r.walk(dir, ""); err != nil {
		return nil, err
	}
	return r.all(dir, named)
}

// named returns the files in named alone, and those of code in the folders in named, as
// [Folder] does.
func named(dir string, named []string, known Files) (*sight, error) {
	return newReader(known, nil).all(dir, named)
}

// found returns the files, and where links lead to folders of code that are among them already.
func (r *reader) found() *sight {
	folders := map[string]bool{}
	for key := range r.files {
		for folder := path.Dir(key); !folders[folder]; folder = path.Dir(folder) {
			folders[folder] = true
		}
	}
	for key, to := range r.links {
		if folders[path.Clean(to.target)] {
			sum := sha256.Sum256([]byte("link to " + to.target))
			r.files[key+"/"] = File{Sum: hex.EncodeToString(sum[:]), Local: to.local}
		}
	}
	return &sight{files: r.files, marks: r.marked(folders)}
}

// all adds what is named, packages that are installed last: what is named of them is more.
func (r *reader) all(dir string, named []string) (*sight, error) {
	for _, r.local = range []bool{false, true} {
		for _, path := range named {
			if installed(path) != r.local {
				continue
			}
			if err := r.named(dir, path); err != nil {
				return nil, err
			}
		}
	}
	return r.found(), nil
}

// installed reports whether a path is that of what a package manager, or the user of one machine,
// puts there.
func installed(path string) bool {
	name := filepath.Base(path)
	return name == "node_modules" || name == ".env" || strings.HasPrefix(name, ".env.")
}

func (r *reader) named(dir, path string) error {
	in, ok := r.real[filepath.Dir(path)]
	if !ok {
		var err error
		if in, err = filepath.EvalSymlinks(filepath.Dir(path)); err != nil {
			in = filepath.Dir(path)
		}
		r.real[filepath.Dir(path)] = in
	}
	path = filepath.Join(in, filepath.Base(path))
	key := path
	if rel, err := filepath.Rel(dir, path); err == nil { // the same in every clone of a repository
		key = rel
	}
	key = filepath.ToSlash(key)
	if _, ok := r.files[key]; ok {
		return nil
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return gone(err)
	case info.IsDir():
		return r.walk(path, key)
	}
	r.linked(path, key)
	return r.add(path, key, info)
}

// walk adds the files of code below dir; prefix is the path of dir as it is written.
func (r *reader) walk(dir, prefix string) error {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return gone(err)
	}
	if _, ok := r.seen[real]; ok {
		return nil
	}
	r.seen[real], r.place = prefix, real
	return filepath.WalkDir(real, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return gone(err)
		}
		if r.entries++; r.entries > maxEntries {
			return tooMany(real)
		}
		key := filepath.ToSlash(strings.TrimPrefix(strings.TrimPrefix(path, real), string(filepath.Separator)))
		if prefix != "" {
			key = prefix + "/" + key
		}
		_, seen := r.seen[path]
		switch {
		case d.IsDir() && path != real && (seen || history(path)):
			return fs.SkipDir
		case d.IsDir():
			r.seen[path] = strings.TrimSuffix(key, "/")
			info, err := d.Info()
			if err == nil {
				r.mark(mark{path: path, key: key, dir: true}, info)
			}
			return gone(err)
		case d.Type()&fs.ModeSymlink != 0:
			return r.link(path, key)
		case !d.Type().IsRegular():
			return nil
		}
		return r.file(path, key, d.Info)
	})
}

// link adds what a link leads to. A link to nothing decides nothing, until there is something.
func (r *reader) link(path, key string) error {
	r.linked(path, key)
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return gone(err)
	case info.IsDir():
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			return gone(err)
		}
		if first, ok := r.seen[real]; ok {
			r.links[key] = link{first, r.local}
			return nil
		}
		return r.walk(path, key)
	case !info.Mode().IsRegular():
		return nil
	}
	return r.file(path, key, func() (fs.FileInfo, error) { return info, nil })
}

func (r *reader) file(path, key string, stat func() (fs.FileInfo, error)) error {
	info, err := stat()
	if err != nil {
		return gone(err)
	}
	if code, err := r.looks.code(path, info); err != nil || !code {
		return err
	}
	if filepath.Base(filepath.Dir(path)) == "__pycache__" && checkedCache(path) {
		return nil
	}
	return r.add(path, key, info)
}

// history reports whether a folder holds the versions that git keeps, and nothing that git runs.
func history(dir string) bool {
	return filepath.Base(filepath.Dir(dir)) == ".git" &&
		slices.Contains([]string{"objects", "refs", "logs"}, filepath.Base(dir))
}

// tooMany is the error of a folder beyond the bounds.
func tooMany(dir string) error {
	return fmt.Errorf("its files of code are too many to compare (at most %d files of %d GiB together; the last were "+
		"of %s); exthost add FOLDER runs a locked copy of a program of Node, of which nothing here is part", maxFiles,
		maxBytes>>30, dir)
}

// gone drops the error of a file that was removed meanwhile, or of a link that leads to itself.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ELOOP) {
		return nil
	}
	return err
}

func (r *reader) add(path, key string, info fs.FileInfo) error {
	if len(r.files) >= maxFiles {
		return tooMany(r.place)
	}
	if _, ok := r.files[key]; ok {
		return nil
	}
	local := r.local || strings.Contains("/"+key, "/.git/") // a clone has its own
	if was, ok := r.known[key]; ok && was.Is(regular.VersionOf(info)) {
		was.Local = local
		r.files[key] = was
		r.mark(mark{path: path, key: key}, info)
		return nil
	}
	f, info, err := regular.Open(path, os.O_RDONLY, 0)
	if err != nil {
		return gone(err)
	}
	defer f.Close()
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is no regular file", path)
	}
	now := regular.VersionOf(info) // before its content is read
	r.mark(mark{path: path, key: key}, info)
	h := sha256.New()
	n, err := io.Copy(h, io.LimitReader(f, maxBytes-r.bytes+1))
	if err != nil {
		return err
	}
	if r.bytes += n; r.bytes > maxBytes {
		return tooMany(r.place)
	}
	r.files[key] = File{hex.EncodeToString(h.Sum(nil)), local, now}
	return nil
}

// checkedCache reports whether path is a cache of Python's that Python compares with the
// source, which is among the files, before it runs it (PEP 552). Python writes such a cache
// whenever it likes.
func checkedCache(path string) bool {
	if filepath.Ext(path) != ".pyc" {
		return false
	}
	f, _, err := regular.Open(path, os.O_RDONLY, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	var head [8]byte
	if _, err := io.ReadFull(f, head[:]); err != nil {
		return true // no cache: Python writes it anew
	}
	const hashed, checked = 1, 2 // bits of the flags
	return head[4]&hashed == 0 || head[4]&checked != 0
}
