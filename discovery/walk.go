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

	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// found is a valid manifest and where it is.
type found struct {
	Candidate
	real string // its directory without links
}

// walk searches one root. fastwalk calls visit from many goroutines. The
// manifest is looked for before a directory is listed: so a valid one spares
// the listing, and what is found does not depend on the listing's order.
type walk struct {
	ctx   context.Context
	o     Options
	root  root
	index int

	mu    sync.Mutex // guards what follows
	found []found
	diags []protocol.Diagnostic
	deep  string // the first, by name, of the directories below max_depth
	stats Stats
	dirs  []string // that were searched, or whose manifest was read
}

func newWalk(ctx context.Context, o Options, r root, index int) *walk {
	return &walk{ctx: ctx, o: o, root: r, index: index}
}

// run returns only ctx's error.
func (w *walk) run() error {
	conf := fastwalk.DefaultConfig
	conf.NumWorkers = 2 * fastwalk.DefaultNumWorkers() // they mostly wait for the file system
	err := fastwalk.Walk(&conf, w.root.path, w.visit)
	if ctxErr := w.ctx.Err(); ctxErr != nil {
		return ctxErr
	}
	if err != nil { // the root went away meanwhile
		w.diagnose(protocol.LevelWarn, CodeUnreadable, w.root.path, "the directory cannot be searched: %v", bare(err))
	}
	return nil
}

// report adds what the walk met to r, in an order of its own making.
func (w *walk) report(r *Result) {
	if w.stats.TooDeep > 0 {
		w.diagnose(protocol.LevelInfo, CodeDepth, w.deep, "max_depth is %d: %d directories below it were not searched, this one among them",
			w.o.MaxDepth, w.stats.TooDeep)
	}
	if n := len(w.found); n > 0 {
		w.diagnose(protocol.LevelInfo, CodeNotDescended, w.root.path, "directories of valid extensions (%d) are not searched for more", n)
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

func (w *walk) add(diags ...protocol.Diagnostic) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.diags = append(w.diags, diags...)
}

// visit is called for every directory, for links and some files, and again with
// the error for a directory that cannot be listed.
func (w *walk) visit(path string, d fs.DirEntry, err error) error {
	switch ctxErr := w.ctx.Err(); {
	case ctxErr != nil:
		return ctxErr
	case err != nil:
		w.diagnose(protocol.LevelWarn, CodeUnreadable, path, "the directory cannot be searched: %v", bare(err))
		return nil
	}
	isLink := d.Type()&fs.ModeSymlink != 0
	switch depth := fastwalk.DirEntryDepth(d); {
	case depth <= 0: // the root is searched whatever its name, and may be a link
		isLink = false
	case !d.IsDir() && !isLink:
		return fastwalk.ErrSkipFiles // nor are the directory's other files of interest
	case slices.Contains(w.o.IgnoreDirs, d.Name()):
		w.count(func(s *Stats) { s.Ignored++ })
		return fs.SkipDir
	case isLink && !w.follow(path):
		return fs.SkipDir
	case depth >= w.o.MaxDepth:
		w.tooDeep(path)
		return fs.SkipDir
	}
	w.searched(path)
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

func (w *walk) searched(path string) {
	abs, _ := w.place(filepath.Clean(path))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stats.Directories++
	w.dirs = append(w.dirs, abs)
}

// tooDeep remembers one directory that does not depend on the order of visits.
func (w *walk) tooDeep(path string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stats.TooDeep++
	if w.deep == "" || path < w.deep {
		w.deep = path
	}
}

// directory reads the manifest of a directory, if it has one, and reports
// whether to search below.
func (w *walk) directory(dir string) (descend bool) {
	path := filepath.Join(dir, manifest.FileName)
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return true
	case err != nil: // what may not even be asked for is out of reach below, too
		w.diagnose(protocol.LevelWarn, CodeUnreadable, dir, "the directory cannot be searched: %v", bare(err))
		return false
	}
	isLink := info.Mode()&fs.ModeSymlink != 0
	follow := w.o.FollowLinks && w.inside(path) && w.inside(filepath.Join(dir, manifest.SidecarName))
	switch {
	case isLink && !w.o.FollowLinks:
		w.diagnose(protocol.LevelWarn, CodeLinkSkipped, path, "the manifest is a symbolic link, and links are not followed")
		return true
	case isLink && !follow:
		return true // reported
	}
	m, diags := manifest.ReadFile(path, follow)
	f := found{Candidate: Candidate{Path: path, RootIndex: w.index, Manifest: m}}
	if m != nil {
		f.ID = m.Plugin.ID
		f.Dir, f.real = w.place(dir)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stats.Manifests++
	w.diags = append(w.diags, diags...)
	if m == nil {
		return true
	}
	w.found = append(w.found, f)
	return slices.Contains(w.o.Disabled, f.ID)
}

// place returns a directory's absolute path, as it was reached and without
// links.
func (w *walk) place(dir string) (abs, direct string) {
	rel, err := filepath.Rel(w.root.path, dir)
	if err != nil {
		rel = "." // cannot be: dir is below the root
	}
	abs, direct = filepath.Join(w.root.abs, rel), filepath.Join(w.root.real, rel)
	if w.o.FollowLinks {
		if r, err := real(dir); err == nil {
			direct = r
		}
	}
	return abs, direct
}
