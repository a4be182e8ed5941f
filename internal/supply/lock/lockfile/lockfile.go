// Package lockfile reads and writes exthost.lock: which extensions of a directory are what, and
// who approved them.
package lockfile

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/exthost/exthost/internal/file/regular"
	"github.com/exthost/exthost/internal/text/strict"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// FileName is the name of a lock file. It lies in the directory whose extensions it locks.
const FileName = "exthost.lock"

// version is that of the form. Another one is refused: what it means is unknown.
const version = 1

const (
	maxBytes = 8 << 20 // of a lock file
	maxParts = 4096    // of one extension
	maxTools = 20_000  // of one manifest
)

// rules bound a file that anybody may have written.
var rules = strict.Rules{Depth: 8, Parts: 4, KeyBytes: 1024, Values: 400_000}

// CodeInvalid is the code of the diagnostics of a lock file.
const CodeInvalid = "lock_invalid"

// File is the content of a lock file.
type File struct {
	Version    int              `json:"version"`
	Extensions map[string]Entry `json:"extensions"` // by the id of the manifest
	// Configuration is one hash of the configuration files of the directory and the programs
	// there that they name; "": it is not locked.
	Configuration string `json:"configuration"`
}

// Entry says what one extension is. All hashes of files are of their bytes.
type Entry struct {
	// Manifest is the SHA-256 of plugin.toml: "sha256:" and hex.
	Manifest string `json:"manifest"`
	// Files is one hash of all files of code of the folder, those of the package among them, as
	// consent.Files.Digest has it; an opaque text here.
	Files string `json:"files"`
	// Command is a hash of the command lines that the manifest states; an opaque text here.
	Command string `json:"command"`

	// The rest is of an extension that runs a package; "" for one whose files lie in its folder.

	Source  string `json:"source"`  // as it was asked for, such as npm:@scope/name@^1
	Version string `json:"version"` // the version or commit that was chosen
	Tree    string `json:"tree"`    // the hash of all files of the unpacked package, as in go.sum: "h1:" and base64
	Parts   []Part `json:"parts"`   // what the package is made of

	Scripts []string `json:"scripts"` // the packages whose install scripts ran

	// Tools are hashes of what the tools say of themselves, as policies.HashTool has them; by the id of
	// the extension, "/" and its name of the tool. nil: nobody has stated which there are.
	Tools map[string]string `json:"tools"`

	Approved   string `json:"approved"`    // when, as RFC 3339
	ApprovedBy string `json:"approved_by"` // the name of the user
}

// Part is one archive of a package.
type Part struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	// where it comes from: https, git+…, registry:// relative to its registry, or a path relative to the lock file
	URL string `json:"url"`
	// "sha512-" or "sha256-" and base64, as registries state it; "" for a folder or commit
	Integrity string `json:"integrity"`
	Path      string `json:"path"` // where it lies in the package, with slashes; "": at its root
}

// Lookup returns what the lock says of the extension whose manifest has the id. An extension
// that it does not name is not locked.
func (f *File) Lookup(id string) (Entry, bool) {
	if f == nil {
		return Entry{}, false
	}
	e, ok := f.Extensions[id]
	return e, ok
}

// Read reads the lock file of a directory; an empty one where there is none. It must be a
// regular file and no symbolic link. The error names every place that is wrong.
func Read(dir string) (*File, error) { return NewReader(dir).Read() }

// Reader reads the lock file of a directory again and again, and parses it when it has changed.
type Reader struct {
	path string

	mu   sync.Mutex
	data []byte // that file was parsed of
	file *File  // nil: nothing was parsed, or with errors
}

// NewReader returns a reader of the lock file of a directory.
func NewReader(dir string) *Reader { return &Reader{path: filepath.Join(dir, FileName)} }

// Read is [Read]. Its callers share the file, and do not change it.
func (r *Reader) Read() (*File, error) {
	data, _, err := regular.Read(r.path, maxBytes+1, false)
	var kind regular.NotRegular
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &File{Version: version, Extensions: map[string]Entry{}}, nil
	case errors.As(err, &kind):
		return nil, protocol.Errorf(protocol.ConfigInvalid, "%s is %w", r.path, kind)
	case err != nil:
		return nil, err
	case len(data) > maxBytes:
		return nil, protocol.Errorf(protocol.ConfigInvalid, "%s is over %d MiB", r.path, maxBytes>>20)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file != nil && bytes.Equal(r.data, data) {
		return r.file, nil
	}
	f, diags := parse(r.path, data)
	r.data, r.file = data, f
	if len(diags) == 0 {
		return f, nil
	}
	lines := make([]error, len(diags))
	for i, d := range diags {
		lines[i] = errors.New(d.String())
	}
	return nil, protocol.Errorf(protocol.ConfigInvalid, "%w", errors.Join(lines...))
}

// parse reports every fault at once; the file is nil then.
func parse(path string, data []byte) (*File, []protocol.Diagnostic) {
	r := &strict.Report{Code: CodeInvalid}
	src := strict.NewSource(path, data)
	if at := conflict(src.Text); at >= 0 {
		r.Add(src.Pos(at), "keep the blocks of both sides; the blocks of one extension have to come from one side",
			"the file has a conflict marker of a merge")
		return nil, r.Diagnostics
	}
	if at := src.Invalid(); at >= 0 {
		r.Add(src.Pos(at), "", "byte 0x%02X is not UTF-8", src.Text[at])
		return nil, r.Diagnostics
	}
	root, refusal := strict.TOML(src, rules)
	if refusal != nil {
		r.Add(refusal.Pos, "", "%s", refusal.Message)
		return nil, r.Diagnostics
	}
	f := &File{Extensions: map[string]Entry{}}
	d := strict.Decoder{Report: r, Exact: true}
	d.Decode("", root, f)
	if f.Version != version && !r.Failed() {
		r.Add(d.Positions["version"], "use a newer exthost", "version %d is not known; this program knows %d",
			f.Version, version)
	}
	if !r.Failed() {
		check(f, r, d.Positions)
	}
	if r.Failed() {
		return nil, r.Diagnostics
	}
	return f, nil
}

// check reports values that no lock file has.
func check(f *File, r *strict.Report, at strict.Positions) {
	for id, e := range f.Extensions {
		path := strict.Join("extensions", id)
		report := func(key, format string, args ...any) {
			pos, ok := at[path+"."+key]
			if !ok {
				pos = at[path]
			}
			r.Add(pos, "", "%s: %s", path, fmt.Sprintf(format, args...))
		}
		if err := manifest.ValidateID(id); err != nil {
			report("", "%v", err)
		}
		if !isSum(e.Manifest) {
			report("manifest", "manifest is no SHA-256 of a file")
		}
		if e.Files == "" {
			report("files", "files is missing")
		}
		if (e.Tree == "") != (len(e.Parts) == 0) || (e.Tree == "") != (e.Source == "") {
			report("tree", "source, tree and parts belong together")
		}
		if e.Tree != "" && !isTree(e.Tree) {
			report("tree", "tree is no hash of files")
		}
		if len(e.Tools) > maxTools {
			report("tools", "it has over %d tools", maxTools)
		}
		for _, name := range slices.Sorted(maps.Keys(e.Tools)) {
			if at, tool, _ := strings.Cut(name, "/"); at != id && !strings.HasPrefix(at, id+".") || tool == "" ||
				!isSum(e.Tools[name]) {
				report("tools", "%q is no hash of a tool of %s: ID/TOOL", name, id)
			}
		}
		if len(e.Parts) > maxParts {
			report("parts", "it has over %d parts", maxParts)
		}
		for i, p := range e.Parts {
			if p.Path != "" && !filepath.IsLocal(filepath.FromSlash(p.Path)) {
				report(fmt.Sprintf("parts[%d].path", i), "part %s lies outside of the package: %q", p.Name, p.Path)
			}
		}
	}
}
