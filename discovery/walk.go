package discovery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/charlievieth/fastwalk"

	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/manifest/agentplugin"
	"github.com/exthost/exthost/protocol"
)

// found is a manifest and its directory.
type found struct {
	Candidate
	real string      // the directory with links resolved
	list []Candidate // what the manifest starts; nil before the selection
}

// nested is a manifest in a subdirectory of an extension, which therefore does not run.
type nested struct{ found, outer found }

// walk searches one root. fastwalk calls visit from many goroutines. visit checks for the manifest before the directory
// is listed, so directories of extensions are not searched, and the result does not depend on the order of a listing.
type walk struct {
	ctx   context.Context
	o     Options
	root  root
	index int

	mu           sync.Mutex // guards the fields below
	found        []found
	unusable     []found // directories with a manifest that cannot be used
	below        []nested
	diags        []protocol.Diagnostic
	firstTooDeep string // first directory below max_depth, by name
	stats        Stats
	dirs         []string // directories that were searched, have a manifest, or may have the tables of a plugin
	owners       owners
}

// run walks the root. Its only error is ctx's.
func (w *walk) run() error {
	conf := fastwalk.DefaultConfig
	conf.NumWorkers = 2 * fastwalk.DefaultNumWorkers() // workers mostly wait for the file system
	err := fastwalk.Walk(&conf, w.root.path, w.visit)
	if ctxErr := w.ctx.Err(); ctxErr != nil {
		return ctxErr
	}
	if err != nil { // the root was removed in the meantime
		w.unreadable(w.root.path, err)
	}
	return nil
}

// report adds the results of the walk to r, in a fixed order.
func (w *walk) report(r *Result) {
	if w.stats.TooDeep > 0 {
		w.diagnose(protocol.LevelInfo, CodeDepth, w.firstTooDeep,
			"max_depth is %d: %d directories below it were not searched, this one among them",
			w.o.MaxDepth, w.stats.TooDeep)
	}
	if n := len(w.found); n > 0 {
		w.diagnose(protocol.LevelInfo, CodeNotDescended, w.root.path,
			"directories of valid extensions (%d) are not searched for more", n)
	}
	slices.SortFunc(w.diags, func(a, b protocol.Diagnostic) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Code, b.Code), cmp.Compare(a.Message, b.Message))
	})
	slices.Sort(w.dirs)
	r.Dirs = append(r.Dirs, w.dirs...)
	r.Diagnostics = append(r.Diagnostics, w.diags...)
	r.Stats.Directories += w.stats.Directories
	r.Stats.Manifests += w.stats.Manifests
	r.Stats.Ignored += w.stats.Ignored
	r.Stats.TooDeep += w.stats.TooDeep
}

func (w *walk) diagnose(level protocol.Level, code, path, format string, args ...any) {
	w.add(protocol.Diagnostic{Level: level, Code: code, Path: path, Message: fmt.Sprintf(format, args...)})
}

func (w *walk) unreadable(dir string, err error) {
	code := CodeUnreadable
	if file.Exhausted(err) {
		code = manifest.CodeExhausted
	}
	w.diagnose(protocol.LevelWarn, code, dir, "the directory cannot be searched: %v", withoutPath(err))
}

func (w *walk) add(diags ...protocol.Diagnostic) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.diags = append(w.diags, diags...)
}

// visit is called for every directory, for links and some files, and once more with an error for directories that
// cannot be listed.
func (w *walk) visit(path string, d fs.DirEntry, err error) error {
	switch ctxErr := w.ctx.Err(); {
	case ctxErr != nil:
		return ctxErr
	case errors.Is(err, fs.ErrNotExist) && path != w.root.path: // removed meanwhile
		return nil
	case err != nil:
		w.unreadable(path, err)
		return nil
	}
	isLink := d.Type()&fs.ModeSymlink != 0
	switch depth := fastwalk.DirEntryDepth(d); {
	case depth <= 0: // the root may have any name, and may be a link
		isLink = false
	case !d.IsDir() && !isLink:
		return fastwalk.ErrSkipFiles // only the manifest matters
	case slices.Contains(w.o.IgnoreDirs, d.Name()):
		w.count(func(s *Stats) { s.Ignored++ })
		return fs.SkipDir
	case isLink && !w.follow(path):
		return fs.SkipDir
	case depth >= w.o.MaxDepth:
		w.tooDeep(path)
		return fs.SkipDir
	}
	w.countSearched(path)
	switch {
	case !w.directory(filepath.Clean(path)):
		return fs.SkipDir
	case isLink:
		return fastwalk.ErrTraverseLink
	}
	return nil
}

func (w *walk) count(f func(*Stats)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f(&w.stats)
}

func (w *walk) countSearched(path string) {
	abs, _ := w.resolve(filepath.Clean(path))
	w.count(func(s *Stats) { s.Directories++ })
	w.watch(abs)
}

// watch adds a directory to Result.Dirs. It need not exist.
func (w *walk) watch(dir string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dirs = append(w.dirs, dir)
}

// tooDeep counts a directory below max_depth, and keeps the first one by name for the diagnostic.
func (w *walk) tooDeep(path string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stats.TooDeep++
	if w.firstTooDeep == "" || path < w.firstTooDeep {
		w.firstTooDeep = path
	}
}

// directory reads the manifest of a directory, if there is one, and reports whether to search its subdirectories.
// Inside the directory of an extension that does not run, the search only serves to report what is there: none of it
// runs.
func (w *walk) directory(dir string) (descend bool) {
	path := filepath.Join(dir, manifest.FileName)
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return w.plugin(dir)
	case err != nil: // then subdirectories cannot be searched either
		w.unreadable(dir, err)
		return false
	}
	f := found{Candidate: Candidate{Path: path, RootIndex: w.index}}
	f.Dir, f.real = w.resolve(dir)
	isLink := info.Mode()&fs.ModeSymlink != 0
	follow := w.o.FollowLinks && w.inside(path) && w.inside(filepath.Join(dir, manifest.SidecarName))
	switch {
	case isLink && !w.o.FollowLinks:
		w.diagnose(protocol.LevelWarn, CodeLinkSkipped, path,
			"the manifest is a symbolic link, and links are not followed: %s", w.instead(path))
		w.keep(f, nil)
		return true
	case isLink && !follow: // the method inside has added the diagnostic
		w.keep(f, nil)
		return true
	}
	m, diags := manifest.ReadFile(path, manifest.ReadOptions{FollowLinks: follow, Refuse: w.refuse})
	if len(diags) > 0 && removed(path) { // they are about a directory that is no longer there
		return w.plugin(dir)
	}
	w.count(func(s *Stats) { s.Manifests++ })
	w.add(diags...)
	w.keep(f, m)
	if m == nil || slices.Contains(w.o.Disabled, m.Plugin.ID) {
		return true
	}
	w.lookBelow(f, m)
	return false
}

// removed reports whether nothing is at path any more.
func removed(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// plugin is [walk.directory] for a directory without plugin.toml. A plugin.json of another program says nothing about
// the directory.
func (w *walk) plugin(dir string) (descend bool) {
	path := filepath.Join(dir, agentplugin.FileName)
	if info, err := os.Lstat(path); err != nil || info.IsDir() {
		return true // the caller has seen that the directory can be searched
	}
	p := agentplugin.Read(dir, agentplugin.Options{Refuse: w.refuse})
	if len(p.Diagnostics) > 0 && removed(path) {
		return true
	}
	if p.Foreign {
		w.diagnose(protocol.LevelInfo, agentplugin.CodeForeign, path,
			"not used, as it is for no plugin of this version: %s", p.Notes[0].Text)
		return true
	}
	w.count(func(s *Stats) { s.Manifests++ })
	w.add(p.Diagnostics...)
	f := found{Candidate: Candidate{Path: path, RootIndex: w.index}}
	f.Dir, f.real = w.resolve(dir)
	w.watch(filepath.Join(f.Dir, agentplugin.Namespace))
	w.keep(f, p.Manifest)
	if p.Manifest == nil || slices.Contains(w.o.Disabled, p.Manifest.Plugin.ID) {
		return true
	}
	w.lookBelow(f, p.Manifest)
	return false
}

// keep records the manifest m at f; nil means that it is unusable.
func (w *walk) keep(f found, m *manifest.Manifest) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if m == nil {
		w.unusable = append(w.unusable, f)
		return
	}
	f.ID, f.Manifest = m.Plugin.ID, m
	w.found = append(w.found, f)
}

// resolve returns two absolute paths of a directory: abs as the walk reached it, direct with links resolved.
func (w *walk) resolve(dir string) (abs, direct string) {
	rel, err := filepath.Rel(w.root.path, dir)
	if err != nil {
		rel = "." // cannot happen: dir is below the root
	}
	abs, direct = filepath.Join(w.root.abs, rel), filepath.Join(w.root.real, rel)
	if w.o.FollowLinks {
		if r, err := real(dir); err == nil {
			direct = r
		}
	}
	return abs, direct
}
