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

	"github.com/exthost/exthost/internal/file"
)

// Limits of the files in one folder. A folder that exceeds them is never trusted, because it cannot be compared.
const (
	maxFiles   = 50_000
	maxBytes   = 4 << 30
	maxEntries = 1_000_000 // including data files and directories
)

// File is one version of a file.
type File struct {
	Sum string `json:"sha256"`
	// Local files differ between clones: installed packages, and settings of this machine.
	Local bool `json:"local,omitempty"`
	// While Version is unchanged, the file is not read again.
	file.Version
}

// Files maps slash-separated paths to file versions. A path is relative to a folder, or absolute where no relative
// path leads from the folder to the file.
type Files map[string]File

// Digest returns a hash over the paths and contents of all files that are not Local.
func (f Files) Digest() string {
	h := sha256.New()
	for _, path := range slices.Sorted(maps.Keys(f)) {
		if !f[path].Local {
			fmt.Fprintf(h, "%s %s\n", f[path].Sum, path)
		}
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// Count returns the number of files. The package of the extension is none.
func (f Files) Count() int {
	if _, ok := f[PackageKey]; ok {
		return len(f) - 1
	}
	return len(f)
}

// own returns the files within the folder itself, the only files that bundled extensions load.
func (f Files) own() Files {
	own := Files{}
	for path, file := range f {
		if !strings.HasPrefix(path, "../") && !filepath.IsAbs(path) {
			own[path] = file
		}
	}
	return own
}

// Differs returns the sorted paths at which f differs from before, marked if new or removed.
func (f Files) Differs(before Files) (changes []string) {
	name := func(key string) string { return strings.TrimSuffix(key, "//") } // PackageKey ends with it
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
	known    Files // earlier versions, not read again if unchanged
	files    Files
	bytes    int64
	entries  int
	local    bool              // files being added are Local
	every    bool              // files being added need not be code
	place    string            // current folder, for the error about too many files
	seen     map[string]string // path under which a directory is compared, by its path with links resolved
	links    map[string]link   // links to directories in seen, by key
	real     map[string]string // resolved directories of named files
	contents *contentCache     // cache of content checks
	marks    []mark
}

// link is a symbolic link to a folder. The files of the folder are compared under another path than the link's.
type link struct {
	target string
	local  bool
}

func newReader(known Files, l *contentCache) *reader {
	return &reader{
		known:    known,
		contents: l,
		files:    Files{},
		seen:     map[string]string{},
		links:    map[string]link{},
		real:     map[string]string{},
	}
}

// Folder returns the files in dir that affect what runs: files that interpreters and tools load, executables, and
// the files in named, which are absolute paths. Link targets are included. Keys are relative to dir. A file whose
// version in known is unchanged is not read again. Data files, which extensions may write, are left out: files with
// neither mode, name, ending nor content of code. Folder fails if a file cannot be read, or if there are too many.
func Folder(dir string, named []string, known Files) (Files, error) {
	s, err := folder(dir, named, newReader(known, nil))
	if err != nil {
		return nil, err
	}
	return s.files, nil
}

func folder(dir string, named []string, r *reader) (*scan, error) {
	if r.every {
		c := count{seen: map[string]bool{}}
		if err := c.add(dir); err != nil {
			return nil, err
		}
	}
	if err := r.walk(dir, ""); err != nil {
		return nil, err
	}
	r.every = false
	return r.all(dir, named)
}

// named returns the files among the paths in named, and the code in the folders among them, like [Folder].
func named(dir string, named []string, known Files) (*scan, error) {
	return newReader(known, nil).all(dir, named)
}

// found returns the collected files, with an entry for each link to a folder of code that is compared under another
// path. A folder whose only code is behind such a link is one too, whichever of the two links was read first.
func (r *reader) found() *scan {
	folders, links := map[string]bool{}, map[string][]string{} // keys of links by their target
	for key, to := range r.links {
		links[path.Clean(to.target)] = append(links[path.Clean(to.target)], key)
	}
	var reached []string // keys of links to folders of code
	inside := func(key string) {
		for folder := path.Dir(key); !folders[folder]; folder = path.Dir(folder) {
			folders[folder] = true
			reached = append(reached, links[folder]...)
		}
	}
	for key := range r.files {
		inside(key)
	}
	for len(reached) > 0 {
		key := reached[0]
		reached = reached[1:]
		to := r.links[key]
		sum := sha256.Sum256([]byte("link to " + to.target))
		r.files[key+"/"] = File{Sum: hex.EncodeToString(sum[:]), Local: to.local}
		inside(key)
	}
	return &scan{files: r.files, marks: r.marked(folders)}
}

// all adds the named paths. It adds installed packages last: a file that was added before then is not Local.
func (r *reader) all(dir string, named []string) (*scan, error) {
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

// installed reports whether a path is created by a package manager, or holds settings of one machine.
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
	key := path                                          // where no relative path exists
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
		return ignoreMissing(err)
	case info.IsDir():
		return r.walk(path, key)
	}
	r.linked(path, key)
	return r.add(path, key, info)
}

// walk adds the code files below dir. prefix is the key of dir.
func (r *reader) walk(dir, prefix string) error {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return ignoreMissing(err)
	}
	if _, ok := r.seen[real]; ok {
		return nil
	}
	r.seen[real], r.place = prefix, real
	return filepath.WalkDir(real, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return ignoreMissing(err)
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
			return ignoreMissing(err)
		case d.Type()&fs.ModeSymlink != 0:
			return r.link(path, key)
		case !d.Type().IsRegular():
			return nil
		}
		return r.file(path, key, d.Info)
	})
}

// link adds the target of a symbolic link. Broken links are ignored.
func (r *reader) link(path, key string) error {
	r.linked(path, key)
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return ignoreMissing(err)
	case info.IsDir():
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			return ignoreMissing(err)
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
		return ignoreMissing(err)
	}
	if !r.every {
		if code, err := r.contents.code(path, info); err != nil || !code {
			return err
		}
	}
	if filepath.Base(filepath.Dir(path)) == "__pycache__" && checkedCache(path) {
		return nil
	}
	return r.add(path, key, info)
}

// history reports whether dir is a part of .git that git never executes: objects, refs or logs.
func history(dir string) bool {
	return filepath.Base(filepath.Dir(dir)) == ".git" &&
		slices.Contains([]string{"objects", "refs", "logs"}, filepath.Base(dir))
}

// tooMany is the error of a folder that exceeds the limits.
func tooMany(dir string) error {
	return fmt.Errorf("its files of code are too many to compare (at most %d files of %d GiB together; the last were "+
		"of %s); exthost add FOLDER runs a locked copy of a program of Node, of which nothing here is part", maxFiles,
		maxBytes>>30, dir)
}

// ignoreMissing returns nil for the errors of a removed file and of a link cycle, else err.
func ignoreMissing(err error) error {
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
	local := r.local || strings.Contains("/"+key, "/.git/") // differs between clones
	if was, ok := r.known[key]; ok && was.Is(file.VersionOf(info)) {
		was.Local = local
		r.files[key] = was
		r.mark(mark{path: path, key: key}, info)
		return nil
	}
	f, info, err := file.OpenRegular(path, os.O_RDONLY, 0)
	if err != nil {
		return ignoreMissing(err)
	}
	defer f.Close()
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is no regular file", path)
	}
	now := file.VersionOf(info) // before reading the content
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

// checkedCache reports whether path is a bytecode cache that Python validates against its source before use (PEP
// 552). Python may rewrite such a cache at any time, and the source is compared anyway.
func checkedCache(path string) bool {
	if filepath.Ext(path) != ".pyc" {
		return false
	}
	f, _, err := file.OpenRegular(path, os.O_RDONLY, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	var head [8]byte
	if _, err := io.ReadFull(f, head[:]); err != nil {
		return true // not a valid cache: Python rewrites it
	}
	const hashed, checked = 1, 2 // flag bits
	return head[4]&hashed == 0 || head[4]&checked != 0
}
