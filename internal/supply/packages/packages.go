// Package packages adds packages from npm, PyPI, git, bundles, folders and the MCP registry to the store, either
// as their registries resolve them now or exactly as a lock file records them. It also determines how they are
// run.
//
// npm, pip and git only resolve. This program itself downloads, verifies the registry's hashes, unpacks, and
// hashes the files.
package packages

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/exthost/exthost/internal/supply/download"
	"github.com/exthost/exthost/internal/supply/lock"
	"github.com/exthost/exthost/internal/supply/marketplace"
	"github.com/exthost/exthost/internal/supply/store"
)

// Installer adds packages to a store.
type Installer struct {
	Store store.Store
	// Dir is the directory of the lock file. Paths in the lock file are relative to it.
	Dir string
	// MinAge is the minimal age of every part of a package; 0 for any. AgeOf overrides it by package name.
	MinAge time.Duration
	AgeOf  map[string]time.Duration
	// Programs adds a package of npm that is a plugin as the program that it also is.
	Programs bool
	// Translate writes the plugin.toml of a plugin in the format of another program into its folder, with what its
	// marketplace says of it, nil if it comes from none. ok is false if the folder is no such plugin; notes say what
	// of it is left out. Nil: there are no such plugins.
	Translate func(dir string, listed *marketplace.Plugin) (notes []string, ok bool, err error)
	// AllowScripts names the packages whose install scripts may run.
	AllowScripts []string
	// MCPRegistry is the URL of the MCP registry. Default: the official one.
	MCPRegistry string
	// Environ is the environment for npm, pip and git. Default: this process's.
	Environ []string
}

func (i *Installer) environ() []string {
	if i.Environ != nil {
		return i.Environ
	}
	return os.Environ()
}

// Package is a package in the store.
type Package struct {
	Source  Source
	Version string
	Tree    string      // hash of its files
	Parts   []lock.Part // its archives; the package itself comes first
	Scripts []string    // packages whose install scripts ran
	Held    []string    // packages whose install scripts did not run
	Aside   store.Left  // foreign files that were moved aside for the package's files
	Run     Run
}

// Same reports whether p is the package of a lock file entry. Without a Tree, or if install scripts ran only for
// the entry and may have changed files, it compares the archives instead.
func (p *Package) Same(e lock.Entry) bool {
	folder := func(p lock.Part) bool { return isLocal(p) && p.Integrity == "" }
	scripts := len(e.Scripts) > 0 && len(p.Scripts) == 0 && !slices.ContainsFunc(p.Parts, folder)
	parts := p.Parts
	if len(parts) > 0 && len(e.Parts) > 0 && e.Parts[0].Path == "" { // only its files tell that it is a plugin
		parts = raised(parts)
	}
	return p.Tree == e.Tree || (p.Tree == "" || scripts) &&
		slices.EqualFunc(parts, e.Parts, func(a, b lock.Part) bool {
			a.URL, b.URL = "", "" // mirrors differ
			return a == b
		})
}

// resolved is the current version of a source.
type resolved struct {
	version string
	parts   []lock.Part
	from    origin

	source Source            // in the form of the lock file
	server *registeredServer // nil unless the MCP registry was asked
}

func (i *Installer) resolve(ctx context.Context, s Source) (r resolved, err error) {
	switch s.Kind {
	case NPM:
		r, err = i.resolveNPM(ctx, s)
	case PyPI:
		r, err = i.resolvePyPI(ctx, s)
	case Git, Bundle, Folder:
		return i.resolveLocal(ctx, s)
	case Registry:
		r, err = i.resolveRegistered(ctx, s)
	default:
		err = errors.New("this kind of source is not known")
	}
	r.source = s
	return r, err
}

// Resolve returns what Add would add now, without downloading archives. The result has no Run, and a Tree only
// for a folder.
func (i *Installer) Resolve(ctx context.Context, s Source) (*Package, error) {
	r, err := i.resolve(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s, err)
	}
	p := &Package{Source: r.source, Version: r.version, Parts: r.parts}
	if s.Kind != Folder {
		return p, nil
	}
	tree, err := i.assemble(ctx, r.from, r.parts, r.source.Program) // only its files identify a folder
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s, err)
	}
	p.Tree, err = tree.Hash()
	return p, errors.Join(err, tree.Drop())
}

// Add resolves a source and puts its package into the store. It runs no code of the package, except the install
// scripts named by AllowScripts.
func (i *Installer) Add(ctx context.Context, s Source) (*Package, error) {
	r, err := i.resolve(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s, err)
	}
	p, err := i.put(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s, err)
	}
	return p, nil
}

// Fetch puts the exact package of a lock file entry into the store. aside are foreign files that were moved to
// make room. Fetch fails if any part of the package is gone or has changed.
func (i *Installer) Fetch(ctx context.Context, e lock.Entry) (aside store.Left, err error) {
	if _, _, err := i.Store.Verify(e.Tree); err == nil {
		return aside, nil
	}
	for _, name := range e.Scripts { // others may have written the lock file, so it cannot allow scripts
		if !slices.Contains(i.AllowScripts, name) {
			return aside, fmt.Errorf("the install scripts of %s ran when %s was locked; --allow-scripts %s runs them "+
				"here too", name, e.Source, name)
		}
	}
	from, err := i.origin(ctx, e)
	if err != nil {
		return aside, err
	}
	tree, err := i.assemble(ctx, from, e.Parts, e.Program)
	if err != nil {
		return aside, err
	}
	hash := ""
	if err = i.finish(ctx, tree, e.Parts, e.Scripts); err == nil {
		hash, err = tree.Hash()
	}
	if err == nil && hash != e.Tree {
		err = fmt.Errorf("the files of %s %s have the hash %s, and the lock file states %s", e.Source, e.Version, hash,
			e.Tree)
		if len(e.Scripts) > 0 {
			err = fmt.Errorf("%w; the install scripts of %v made other files here", err, e.Scripts)
		}
	}
	if err == nil {
		_, aside, err = i.Store.Put(tree)
	}
	if err != nil {
		return aside, errors.Join(err, tree.Drop())
	}
	return aside, nil
}

// put assembles a resolved package and puts it into the store.
func (i *Installer) put(ctx context.Context, r resolved) (*Package, error) {
	p := &Package{Source: r.source, Version: r.version}
	// a server of the registry is a program, whatever else its package is
	raise := r.server == nil && !i.Programs
	placed := &placing{parts: r.parts, raise: raise, choice: choice{program: r.source.Program}}
	tree, err := i.place(ctx, r.from, placed)
	if err != nil {
		return nil, err
	}
	p.Parts = placed.parts
	if p.Run, err = describePackage(tree.Dir(), p.Parts, placed.program); err == nil {
		p.Run.Notes = placed.notes
		err = r.server.check(&p.Run)
	}
	if err == nil {
		p.Scripts, p.Held, err = i.scripts(tree.Dir(), p.Parts)
	}
	if err == nil {
		err = i.finish(ctx, tree, p.Parts, p.Scripts)
	}
	if err == nil {
		p.Tree, p.Aside, err = i.Store.Put(tree)
	}
	if err != nil {
		return nil, errors.Join(err, tree.Drop())
	}
	return p, nil
}

// scripts returns the parts whose install scripts may run, and those whose scripts are held back. A name in
// AllowScripts without install scripts is an error.
func (i *Installer) scripts(dir string, parts []lock.Part) (run, held []string, err error) {
	for _, p := range parts {
		if isWheel(p) {
			continue
		}
		at := filepath.Join(dir, filepath.FromSlash(p.Path))
		pkg, err := readPackageJSON(at)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		switch {
		case !pkg.installs(at):
		case slices.Contains(i.AllowScripts, p.Name):
			run = append(run, p.Name)
		default:
			held = append(held, p.Name)
		}
	}
	for _, name := range i.AllowScripts {
		if !slices.Contains(run, name) {
			return nil, nil, fmt.Errorf("--allow-scripts %s: no such part of the package has install scripts", name)
		}
	}
	slices.Sort(run)
	slices.Sort(held)
	return slices.Compact(run), slices.Compact(held), nil
}

// checkAge refuses a part that was published too recently, or at an unknown time.
func (i *Installer) checkAge(name, version string, published time.Time) error {
	age, stated := i.AgeOf[name]
	if !stated {
		age = i.MinAge
	}
	switch since := time.Since(published); {
	case age == 0:
		return nil
	case published.IsZero():
		return fmt.Errorf("the registry does not say when %s %s was published; --min-release-age %s=0 takes it", name,
			version, name)
	case since < age:
		return fmt.Errorf("%s %s was published %s ago, and packages have to be %s old; --min-release-age %s=0 takes it",
			name, version, since.Round(time.Minute), age, name)
	}
	return nil
}

// origin is where packages are downloaded from: the configured registries and their credentials.
type origin struct {
	registries  []string
	credentials map[string]string // see [download.Client]
	registryOf  func(name string) (registry string)
}

func (o origin) client() (*download.Client, error) {
	client, err := download.New(o.registries...)
	if err != nil {
		return nil, err
	}
	client.Credentials = o.credentials
	return client, nil
}

// origin returns the origin of an entry's parts.
func (i *Installer) origin(ctx context.Context, e lock.Entry) (o origin, err error) {
	s, err := i.Source(e)
	switch {
	case err != nil:
		return o, err
	case s.Kind == Registry && len(e.Parts) > 0 && isWheel(e.Parts[0]): // a server's package is on PyPI or npm
		s.Kind = PyPI
	case s.Kind == Registry:
		s.Kind = NPM
	}
	if s.Kind == Bundle || s.Kind != NPM && s.Kind != PyPI && len(e.Parts) == 1 {
		return o, nil
	}
	// an empty directory, because npm and pip also read configuration from the working directory
	dir, err := os.MkdirTemp("", "exthost-config-")
	if err != nil {
		return o, err
	}
	defer os.RemoveAll(dir)
	if s.Kind == PyPI {
		c, err := readPipConfig(ctx, dir, i.environ())
		if err != nil {
			return o, err
		}
		return c.origin, nil
	}
	c, err := readNPMConfig(ctx, dir, i.environ())
	if err != nil {
		return o, err
	}
	return c.origin(), nil
}

// Source parses the source of a lock file entry. A path in the entry may be relative to the lock file.
func (i *Installer) Source(e lock.Entry) (s Source, err error) {
	if strings.HasPrefix(e.Source, ".") {
		s, err = Parse(filepath.Join(i.Dir, filepath.FromSlash(e.Source)))
	} else {
		s, err = Parse(e.Source)
	}
	s.Program = e.Program
	return s, err
}
