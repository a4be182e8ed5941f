// Package discovery finds extensions: it searches the search paths for plugin.toml files, and for the plugin.json of
// packages of Agent Plugins, reads them, and selects those that apply.
//
//	r, err := discovery.Discover(ctx, discovery.Options{SearchPaths: []string{"extensions"}})
//	for _, c := range r.Candidates {
//		missing := discovery.Gate(&c, discovery.Host{Version: "0.1.0"})
//		…
//	}
//
// An invalid manifest is a diagnostic and does not affect other extensions. Every extension that is left out has a
// diagnostic with the reason. The result does not depend on the order in which the file system lists entries.
package discovery

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// The codes of this package's diagnostics. Package manifest has more.
const (
	CodePathMissing   = "search_path_missing"    // Warn: the search path does not exist
	CodePathUnusable  = "search_path_unusable"   // Warn: the search path is not a directory
	CodeUnreadable    = "directory_unreadable"   // Warn: a directory cannot be searched
	CodeDepth         = "max_depth_reached"      // Info: there are directories below max_depth
	CodeNotDescended  = "below_manifest_skipped" // Info: directories of extensions are not searched for more extensions
	CodeLinkSkipped   = "link_not_followed"      // Warn: an extension is behind a link, and links are not followed
	CodeLinkEscapes   = "link_escapes"           // Error: a link leaves its search path
	CodeLinkBroken    = "link_broken"            // Info: the target of a link does not exist
	CodeLinkLoop      = "link_loop"              // Info: a link leads to a directory that contains it
	CodeSameDirectory = "same_directory"         // Info: a directory was reached twice
	// an extension is inside another one's directory. Info; Warn if the outer manifest is unusable
	CodeNested = "nested_extension"
	// an id is already taken. Warn: in an earlier search path; Error: in the same one
	CodeDuplicateID    = "duplicate_id"
	CodeDisabled       = "disabled"        // Info: disabled by the operator
	CodeNotAllowlisted = "not_allowlisted" // Info: not in the operator's allowlist
	CodeUnknownID      = "unknown_id"      // Warn: an id in a list belongs to no extension
	// Error: other users may change a manifest or a directory on its path
	CodeOwner       = "owner_refused"
	CodeRequirement = "requirement_missing" // Warn: see [Gate]
)

// Options configures [Discover].
type Options struct {
	SearchPaths []string // in order of precedence; relative to the working directory
	IgnoreDirs  []string // base names of directories to skip; nil: node_modules, .git, target
	Disabled    []string // ids to leave out, with their servers; a server's id is {owner}.{server}
	Allowlist   []string // if not empty, the only ids to include, with their servers
	Configured  []string // ids with settings, which may be misspelled
	MaxDepth    int      // max depth of a manifest below its search path; 0: 4
	FollowLinks bool     // follow symbolic links within a search path
	Safe        []string // directories in which any owner and mode of a manifest is accepted
}

var defaultIgnoreDirs = []string{"node_modules", ".git", "target"}

const defaultMaxDepth = 4

// Candidate is an extension that was found.
type Candidate struct {
	ID        string
	Dir       string // absolute; the base of relative paths in the manifest
	Path      string // of the manifest: the search path as given, and the path below it
	RootIndex int    // index of the search path
	Manifest  *manifest.Manifest
	// for a manifest's MCP server: the id of the manifest, ID is then {owner}.{server}; for all of a plugin: its name
	Owner   string
	OwnedBy *manifest.Manifest // for a manifest's MCP server, and all of a plugin: the manifest
}

// Portable reports whether c belongs to a plugin. c.Owner is then the plugin's name.
func (c *Candidate) Portable() bool { return c.OwnedBy != nil && c.OwnedBy.Portable }

// Result is the result of [Discover]. Candidates are sorted by RootIndex and ID.
type Result struct {
	Candidates  []Candidate
	Conflicting []Candidate // left out, because they share an id within a search path
	Diagnostics []protocol.Diagnostic
	Stats       Stats
	Dirs        []string // absolute paths of all directories whose changes may change the result, for a [Watcher]
}

// Stats counts directories and manifests of a search.
type Stats struct {
	Directories int // searched
	Manifests   int // found, valid or not
	Ignored     int // directories skipped by name
	TooDeep     int // directories skipped by max_depth
}

// Discover searches for extensions. Unusable files and directories become diagnostics. The only error is ctx's.
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
			r.Dirs = append(r.Dirs, existingParent(path)...)
			continue
		}
		r.Dirs = append(r.Dirs, linksOn(root)...)
		w := &walk{ctx: ctx, o: o, root: root, index: i}
		if err := w.run(); err != nil {
			return nil, err
		}
		w.report(r)
		s.found, s.unusable = append(s.found, w.found...), append(s.unusable, w.unusable...)
		s.below = append(s.below, w.below...)
	}
	s.run()
	return r, ctx.Err()
}

// Hides reports whether d means that path could not be examined, so an extension there may still exist.
func Hides(d protocol.Diagnostic, path string) bool {
	switch d.Code {
	case CodePathUnusable, CodeUnreadable, CodeLinkSkipped, CodeLinkEscapes, manifest.CodeExhausted:
		return within(d.Path, path)
	}
	return false
}

// existingParent returns the nearest existing directory above a missing path.
func existingParent(path string) []string {
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

// linksOn returns the directories with links on the path to a search path, as a change there may change the target.
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
	path string // as given, cleaned; for messages
	abs  string
	real string // without links
}

func openRoot(path string) (root, *protocol.Diagnostic) {
	r := root{path: filepath.Clean(path)}
	warn := func(code, format string, args ...any) (root, *protocol.Diagnostic) {
		return r, &protocol.Diagnostic{
			Level:   protocol.LevelWarn,
			Code:    code,
			Path:    r.path,
			Message: fmt.Sprintf(format, args...),
		}
	}
	info, err := os.Stat(r.path)
	switch {
	case os.IsNotExist(err):
		return warn(CodePathMissing, "there is no such search path")
	case err != nil:
		return warn(CodePathUnusable, "the search path cannot be used: %v", withoutPath(err))
	case !info.IsDir():
		return warn(CodePathUnusable, "the search path is not a directory")
	}
	if r.abs, err = filepath.Abs(r.path); err == nil {
		r.real, err = filepath.EvalSymlinks(r.abs)
	}
	if err != nil {
		return warn(CodePathUnusable, "the search path cannot be used: %v", withoutPath(err))
	}
	return r, nil
}
