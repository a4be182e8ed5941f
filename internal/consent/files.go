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
	"path/filepath"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/regular"
)

// Bounds of the files of one folder. A folder with more is never trusted: what cannot be
// compared cannot be agreed to.
const (
	maxFiles = 50_000
	maxBytes = 4 << 30
)

// File is one version of a file.
type File struct {
	Sum string `json:"sha256"`
	// The rest is what the file system says of that version; while it says the same, the file
	// is not read again. Zero where the file system does not tell the time of the last change.
	Size   int64  `json:"size,omitempty"`
	Inode  uint64 `json:"inode,omitempty"`
	Mtime  int64  `json:"mtime_ns,omitempty"`
	Change int64  `json:"ctime_ns,omitempty"` // which no program can set
}

// Files are versions of files by their slash-separated paths, relative to a folder or
// absolute where there is no relative one.
type Files map[string]File

// Digest is one hash of all paths and contents.
func (f Files) Digest() string {
	h := sha256.New()
	for _, path := range slices.Sorted(maps.Keys(f)) {
		fmt.Fprintf(h, "%s %s\n", f[path].Sum, path)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// Differs returns the sorted paths at which f and before differ, each with a word that says
// how.
func (f Files) Differs(before Files) (changes []string) {
	for path, now := range f {
		switch was, ok := before[path]; {
		case !ok:
			changes = append(changes, path+" (new)")
		case was.Sum != now.Sum:
			changes = append(changes, path)
		}
	}
	for path := range before {
		if _, ok := f[path]; !ok {
			changes = append(changes, path+" (removed)")
		}
	}
	slices.Sort(changes)
	return changes
}

// codeEndings are the endings of files that interpreters, linkers and build tools load.
var codeEndings = map[string]bool{}

// codeNames are files that these tools read by name.
var codeNames = map[string]bool{}

func init() {
	for ending := range strings.FieldsSeq(".toml .py .pyw .pyi .pyc .pyd .pth .js .mjs .cjs .jsx .ts .mts .cts .tsx .node .wasm .so .dylib .dll .exe .jar .class .rb .pl .pm .php .lua .sh .bash .zsh .fish .ps1 .bat .cmd .go .mod .sum .rs .c .h .cc .cpp .hpp .java .kt .scala .cs .swift .r .jl .ex .exs .erl .clj .ml .hs .zig .nim .el .lisp") {
		codeEndings[ending] = true
	}
	for name := range strings.FieldsSeq(".mcp.json package.json package-lock.json npm-shrinkwrap.json yarn.lock pnpm-lock.yaml pnpm-workspace.yaml bun.lock bun.lockb deno.json deno.jsonc deno.lock tsconfig.json .npmrc .yarnrc .yarnrc.yml .node-version .nvmrc " +
		"requirements.txt constraints.txt uv.lock poetry.lock Pipfile Pipfile.lock pip.conf setup.cfg .python-version Cargo.lock Gemfile Gemfile.lock Rakefile .ruby-version .tool-versions " +
		"Makefile makefile GNUmakefile justfile Justfile Dockerfile .env .envrc") {
		codeNames[name] = true
	}
}

// isCode reports whether a file may decide what runs: by its name, or because it can be
// executed.
func isCode(name string, mode fs.FileMode) bool {
	return codeEndings[strings.ToLower(filepath.Ext(name))] || codeNames[name] || mode&0o111 != 0 || strings.Contains(name, ".so.")
}

// reader collects the files of one folder.
type reader struct {
	known Files // earlier versions
	files Files
	bytes int64
	seen  map[string]bool // directories, links resolved
}

// Folder returns the files of dir that decide what runs: those that interpreters and tools
// load, those that can be executed, and those in named, which are absolute. Files that a
// link leads to belong to them. Paths are relative to dir. A file that the file
// system says is that of known is not read. Data files are left out, because extensions
// write such. The error is a file that cannot be read, or too many.
func Folder(dir string, named []string, known Files) (Files, error) {
	r := reader{known: known, files: Files{}, seen: map[string]bool{}}
	if err := r.walk(dir, ""); err != nil {
		return nil, err
	}
	for _, path := range named {
		if err := r.named(dir, path); err != nil {
			return nil, err
		}
	}
	return r.files, nil
}

// Named returns the files in named alone, and those of code in the folders in named, as
// [Folder] does.
func Named(dir string, named []string, known Files) (Files, error) {
	r := reader{known: known, files: Files{}, seen: map[string]bool{}}
	for _, path := range named {
		if err := r.named(dir, path); err != nil {
			return nil, err
		}
	}
	return r.files, nil
}

func (r *reader) named(dir, path string) error {
	if in, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		path = filepath.Join(in, filepath.Base(path))
	}
	key := path
	if rel, err := filepath.Rel(dir, path); err == nil { // the same in every clone of a repository
		key = rel
	}
	key = filepath.ToSlash(key)
	if _, ok := r.files[key]; ok {
		return nil
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return r.walk(path, key)
	}
	return r.add(path, key)
}

// walk adds the files of code below dir; prefix is the path of dir as it is written.
func (r *reader) walk(dir, prefix string) error {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil || r.seen[real] {
		return err
	}
	r.seen[real] = true
	return filepath.WalkDir(real, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return gone(err)
		}
		rel, err := filepath.Rel(real, path)
		if err != nil {
			return err
		}
		key := filepath.ToSlash(filepath.Join(prefix, rel))
		switch {
		case d.IsDir() && path != real && (d.Name() == ".git" || r.seen[path]):
			return fs.SkipDir
		case d.IsDir():
			r.seen[path] = true
			return nil
		case d.Type()&fs.ModeSymlink != 0:
			return r.link(path, key)
		case !d.Type().IsRegular():
			return nil
		}
		return r.file(path, key, d.Info)
	})
}

// link adds what a link leads to. A link to nothing decides nothing.
func (r *reader) link(path, key string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return gone(err)
	case info.IsDir():
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
	if !isCode(filepath.Base(path), info.Mode()) {
		return nil
	}
	if filepath.Base(filepath.Dir(path)) == "__pycache__" && checkedCache(path) {
		return nil
	}
	return r.add(path, key)
}

// gone drops the error of a file that was removed meanwhile.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (r *reader) add(path, key string) error {
	info, err := os.Stat(path)
	if err != nil {
		return gone(err)
	}
	now := identity(info)
	if was, ok := r.known[key]; ok && now.Change != 0 && was.Size == now.Size && was.Inode == now.Inode && was.Mtime == now.Mtime && was.Change == now.Change {
		r.files[key] = was
		return nil
	}
	if r.bytes += info.Size(); r.bytes > maxBytes || len(r.files) >= maxFiles {
		return fmt.Errorf("its files of code are too many to compare (at most %d files of %d GiB together)", maxFiles, maxBytes>>30)
	}
	f, _, err := regular.Open(path, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, io.LimitReader(f, maxBytes)); err != nil {
		return err
	}
	now.Sum = hex.EncodeToString(h.Sum(nil))
	r.files[key] = now
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
