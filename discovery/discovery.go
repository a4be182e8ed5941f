// Package discovery finds extensions: it walks the search paths for plugin.toml
// files, reads them, and settles which of them count.
//
//	r, err := discovery.Discover(ctx, discovery.Options{SearchPaths: []string{"extensions"}})
//	for _, c := range r.Candidates {
//		missing := discovery.Gate(&c, discovery.Host{Version: "0.1.0"})
//		…
//	}
//
// A broken manifest is a diagnostic and takes nothing else with it. Whatever is
// left out has a diagnostic that says why. The result is the same whatever the
// order in which the file system lists its entries.
package discovery

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// The codes of this package's diagnostics, beside those of package manifest.
const (
	CodePathMissing    = "search_path_missing"    // Warn: there is no such search path
	CodePathUnusable   = "search_path_unusable"   // Warn: a search path that is no directory
	CodeUnreadable     = "directory_unreadable"   // Warn: a directory that cannot be searched
	CodeDepth          = "max_depth_reached"      // Info: directories below max_depth
	CodeNotDescended   = "below_manifest_skipped" // Info: what is inside an extension's directory is its own
	CodeLinkSkipped    = "link_not_followed"      // Warn: an extension behind a link, while links are not followed
	CodeLinkEscapes    = "link_escapes"           // Error: a link that leaves its search path
	CodeLinkBroken     = "link_broken"            // Info: a link to nothing
	CodeLinkLoop       = "link_loop"              // Info: a link to a directory it stands in
	CodeSameDirectory  = "same_directory"         // Info: a directory reached in two ways
	CodeNested         = "nested_extension"       // Info: an extension inside another's directory
	CodeDuplicateID    = "duplicate_id"           // Warn: the second extension of an id
	CodeDisabled       = "disabled"               // Info: the operator disabled it
	CodeNotAllowlisted = "not_allowlisted"        // Info: the operator's allowlist leaves it out
	CodeUnknownID      = "unknown_id"             // Warn: a listed id that no extension has
	CodeRequirement    = "requirement_missing"    // Warn: see [Gate]
)

// Options says where to look and what to leave out.
type Options struct {
	SearchPaths []string // in order of precedence; relative ones from the working directory
	IgnoreDirs  []string // base names never entered; nil: node_modules, .git, target
	Disabled    []string // ids left out; a server's is {owner}.{server}, and it goes with its owner
	Allowlist   []string // if not empty, the only ids let in; an owner's id lets its servers in
	MaxDepth    int      // of the manifest file below its search path; 0: 4
	FollowLinks bool     // default false: links are not followed
}

var defaultIgnoreDirs = []string{"node_modules", ".git", "target"}

const defaultMaxDepth = 4

// Candidate is one extension that was found.
type Candidate struct {
	ID        string
	Dir       string // absolute; what the manifest's paths are relative to
	Path      string // of the manifest, below the search path as it was given
	RootIndex int    // of the search path
	Manifest  *manifest.Manifest
	Owner     string // of an MCP server in or beside a manifest: the manifest's id, of which ID is {owner}.{server}
}

// Result is what was found, candidates sorted by (RootIndex, ID).
type Result struct {
	Candidates  []Candidate
	Diagnostics []protocol.Diagnostic
	Stats       Stats
	Dirs        []string // absolute, of every directory in which a change may change the result, for a [Watcher]
}

// Stats counts what a search met.
type Stats struct {
	Directories int // searched
	Manifests   int // found, valid or not
	Ignored     int // directories left out by name
	TooDeep     int // directories left out by max_depth
}

// Discover searches. A file or directory that cannot be used is a diagnostic,
// never an error: the only one is ctx's.
func Discover(ctx context.Context, o Options) (*Result, error) {
	if o.IgnoreDirs == nil {
		o.IgnoreDirs = defaultIgnoreDirs
	}
	if o.MaxDepth <= 0 {
		o.MaxDepth = defaultMaxDepth
	}
	r := &Result{}
	s := selection{o: o, result: r}
	for i, path := range o.SearchPaths {
		root, diag := openRoot(path)
		if diag != nil {
			r.Diagnostics = append(r.Diagnostics, *diag)
			r.Dirs = append(r.Dirs, nearest(path)...)
			continue
		}
		r.Dirs = append(r.Dirs, linksOn(root)...)
		w := newWalk(ctx, o, root, i)
		if err := w.run(); err != nil {
			return nil, err
		}
		w.report(r)
		s.found = append(s.found, w.found...)
	}
	s.run()
	return r, ctx.Err()
}

// Hides reports whether d says that what is at path, if there is anything, was not
// looked at: so that nobody knows whether it has been taken away.
func Hides(d protocol.Diagnostic, path string) bool {
	switch d.Code {
	case CodePathUnusable, CodeUnreadable, CodeLinkSkipped, CodeLinkEscapes:
		return within(d.Path, path)
	}
	return false
}

// nearest returns the directory in which a path that is not there would begin.
func nearest(path string) []string {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil
	}
	for dir := filepath.Dir(abs); ; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err == nil && info.IsDir() || dir == filepath.Dir(dir) {
			return []string{dir}
		}
	}
}

// linksOn returns the directories of the links on the way to a search path, which may
// be led elsewhere.
func linksOn(r root) (dirs []string) {
	for path := r.abs; path != filepath.Dir(path); path = filepath.Dir(path) {
		if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSymlink != 0 {
			dirs = append(dirs, filepath.Dir(path))
		}
	}
	return dirs
}

// root is one search path.
type root struct {
	path string // as given, cleaned: what people are shown
	abs  string
	real string // without links
}

func openRoot(path string) (root, *protocol.Diagnostic) {
	r := root{path: filepath.Clean(path)}
	warn := func(code, format string, args ...any) (root, *protocol.Diagnostic) {
		return r, &protocol.Diagnostic{Level: protocol.LevelWarn, Code: code, Path: r.path, Message: fmt.Sprintf(format, args...)}
	}
	info, err := os.Stat(r.path)
	switch {
	case os.IsNotExist(err):
		return warn(CodePathMissing, "there is no such search path")
	case err != nil:
		return warn(CodePathUnusable, "the search path cannot be used: %v", bare(err))
	case !info.IsDir():
		return warn(CodePathUnusable, "the search path is not a directory")
	}
	if r.abs, err = filepath.Abs(r.path); err == nil {
		r.real, err = filepath.EvalSymlinks(r.abs)
	}
	if err != nil {
		return warn(CodePathUnusable, "the search path cannot be used: %v", bare(err))
	}
	return r, nil
}
