// Package lock reads and writes exthost.lock, the record of the exact content of a directory's extensions and of who
// approved it. Before each start it verifies packages against that file, without a network.
package lock

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

	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/internal/text/strict"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/manifest/agentplugin"
	"github.com/exthost/exthost/protocol"
)

// FileName is the name of the lock file, in the directory whose extensions it locks.
const FileName = "exthost.lock"

// version of the file format. Files with any other version are refused.
const version = 1

const (
	maxBytes = 8 << 20 // per lock file
	maxParts = 4096    // per extension
	maxTools = 20_000  // per manifest
)

// rules limit the input, which may come from anybody.
var rules = strict.Rules{Depth: 8, Parts: 4, KeyBytes: 1024, Values: 400_000}

// CodeInvalid is the diagnostic code of an invalid lock file.
const CodeInvalid = "lock_invalid"

// File is the content of a lock file.
type File struct {
	// Version of the file's format.
	Version    int              `json:"version" jsonschema:"required,enum=1"`
	Extensions map[string]Entry `json:"extensions"` // by manifest id
	// Configuration is a hash of the directory's configuration files and of the programs in the directory that
	// these files name; "" if they are not locked.
	Configuration string `json:"configuration"`
}

// Entry records the content of one extension. Hashes of files cover only their bytes.
type Entry struct {
	// Manifest is the SHA-256 of plugin.toml: "sha256:" and hex.
	Manifest string `json:"manifest" jsonschema:"required,pattern=^sha256:[0-9a-fA-F]{64}$"`
	// Files is a hash of all code files in the folder, including its package. See consent.Files.Digest, which this
	// package does not interpret.
	Files string `json:"files" jsonschema:"required,minLength=1"`
	// Command is a hash of the manifest's command lines: see [CommandSum].
	Command string `json:"command"`

	// The fields up to Scripts are empty for an extension without a package.

	Source  string `json:"source"`  // as requested, such as npm:@scope/name@^1
	Program string `json:"program"` // of the package, as requested; "" if it was not named
	Version string `json:"version"` // the resolved version or commit
	// hash of the unpacked files, as in go.sum: "h1:" and base64
	Tree  string `json:"tree" jsonschema:"pattern=^h1:[A-Za-z0-9+/]{43}=$"`
	Parts []Part `json:"parts"` // archives of the package

	Scripts []string `json:"scripts"` // packages whose install scripts ran

	// Tools are hashes of tool descriptors (see policies.HashTool), by extension id, "/" and the tool's own name.
	// nil if no tools are recorded.
	Tools map[string]string `json:"tools"`

	Approved   string `json:"approved"`    // RFC 3339
	ApprovedBy string `json:"approved_by"` // user name
}

// Part is one archive, folder or commit of a package.
type Part struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	// https or git+https URL, registry:// and a path relative to the registry, or a path relative to the lock
	// file
	URL string `json:"url"`
	// "sha512-" or "sha256-" and base64; "" for a folder or commit
	Integrity string `json:"integrity"`
	Path      string `json:"path"` // slash-separated place in the package; "" for its root
}

// Lookup returns the entry of the extension with this manifest id. Extensions without an entry are not locked.
func (f *File) Lookup(id string) (Entry, bool) {
	if f == nil {
		return Entry{}, false
	}
	e, ok := f.Extensions[id]
	return e, ok
}

// Read reads the lock file of dir, or returns an empty File if there is none. The lock file must be a regular file, not
// a symbolic link. The error lists every fault.
func Read(dir string) (*File, error) { return NewReader(dir).Read() }

// Reader reads a lock file repeatedly, and parses it only when its content has changed.
type Reader struct {
	path string

	mu   sync.Mutex
	data []byte // content that file was parsed from
	file *File  // nil before the first parse, or after a parse error
}

// NewReader returns a reader of dir's lock file.
func NewReader(dir string) *Reader { return &Reader{path: filepath.Join(dir, FileName)} }

// Read reads the lock file like the function [Read]. Callers share the File and must not change it.
func (r *Reader) Read() (*File, error) {
	data, _, err := file.ReadRegular(r.path, maxBytes+1, false)
	var kind file.NotRegular
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

// parse returns the file, or nil and all faults.
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
		f.check(r, d.Positions)
	}
	if r.Failed() {
		return nil, r.Diagnostics
	}
	return f, nil
}

// check reports invalid values.
func (f *File) check(r *strict.Report, at strict.Positions) {
	for id, e := range f.Extensions {
		path := strict.Join("extensions", id)
		report := func(key, format string, args ...any) {
			pos, ok := at[path+"."+key]
			if !ok {
				pos = at[path]
			}
			r.Add(pos, "", "%s: %s", path, fmt.Sprintf(format, args...))
		}
		if err := manifest.ValidateID(id); err != nil && agentplugin.ValidateName(id) != nil {
			report("", "%v", err)
		}
		e.check(report)
		e.checkTools(id, report)
		e.checkParts(report)
	}
}

// reporter reports an invalid value under the key of an entry.
type reporter func(key, format string, args ...any)

func (e *Entry) check(report reporter) {
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
}

func (e *Entry) checkTools(id string, report reporter) {
	if len(e.Tools) > maxTools {
		report("tools", "it has over %d tools", maxTools)
	}
	for _, name := range slices.Sorted(maps.Keys(e.Tools)) {
		owner, tool, _ := strings.Cut(name, "/")
		if owner != id && !strings.HasPrefix(owner, id+".") || tool == "" || !isSum(e.Tools[name]) {
			report("tools", "%q is no hash of a tool of %s: ID/TOOL", name, id)
		}
	}
}

func (e *Entry) checkParts(report reporter) {
	if len(e.Parts) > maxParts {
		report("parts", "it has over %d parts", maxParts)
	}
	for i, p := range e.Parts {
		if p.Path != "" && !filepath.IsLocal(filepath.FromSlash(p.Path)) {
			report(fmt.Sprintf("parts[%d].path", i), "part %s lies outside of the package: %q", p.Name, p.Path)
		}
	}
}
