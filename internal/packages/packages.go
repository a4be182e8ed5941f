// Package packages puts packages of other people into the store, exactly as they are locked or as
// their registries resolve them now, and says how they are run.
//
// npm, pip and git resolve; the download, the comparison with the registry's hash, the unpacking
// and the hash of the files are this program's.
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

	"github.com/exthost/exthost/internal/lockfile"
	"github.com/exthost/exthost/internal/packages/unpacked"
	"github.com/exthost/exthost/internal/store"
)

// Installer puts packages into a store.
type Installer struct {
	Store store.Store
	// Dir is the directory of the lock file; paths of sources in the lock are relative to it.
	Dir string
	// MinAge is how long ago every part of a package must have been published; 0: no matter.
	// AgeOf states it for single packages.
	MinAge time.Duration
	AgeOf  map[string]time.Duration
	// AllowScripts are the packages whose install scripts run.
	AllowScripts []string
	// MCPRegistry is the address of the MCP registry. Default: the official one.
	MCPRegistry string
	// Environ is what npm, pip and git are started with. Default: that of this process.
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
	Tree    string          // the hash of its files
	Parts   []lockfile.Part // what it is made of; the first is the package itself
	Scripts []string        // the packages whose install scripts ran
	Held    []string        // the packages whose install scripts did not
	Run     unpacked.Run
}

// Same reports whether the package is the one of an entry of the lock file. Where install scripts
// ran then and not now, the archives tell: the scripts made other files.
func (p *Package) Same(e lockfile.Entry) bool {
	folder := func(p lockfile.Part) bool { return isLocal(p) && p.Integrity == "" }
	scripts := len(e.Scripts) > 0 && len(p.Scripts) == 0 && !slices.ContainsFunc(p.Parts, folder)
	return p.Tree == e.Tree || scripts && slices.Equal(p.Parts, e.Parts)
}

// resolved is what a source is at this moment.
type resolved struct {
	version string
	parts   []lockfile.Part
}

// Add resolves a source and puts the package into the store. Nothing of it has run then, unless
// AllowScripts names it. The error says why a package is refused.
func (i *Installer) Add(ctx context.Context, s Source) (*Package, error) {
	switch s.Kind {
	case NPM:
		return i.addNPM(ctx, s)
	case PyPI:
		return i.addPyPI(ctx, s)
	case Git, Bundle, Folder:
		return i.addLocal(ctx, s)
	case Registry:
		return i.addRegistered(ctx, s)
	}
	return nil, fmt.Errorf("%s: this kind of source is not known", s)
}

// Fetch puts into the store exactly what an entry of a lock file names. The error names what is
// not there any more or is something else now.
func (i *Installer) Fetch(ctx context.Context, e lockfile.Entry) error {
	if _, err := i.Store.Verify(e.Tree); err == nil {
		return nil
	}
	for _, name := range e.Scripts { // a lock file is often another person's
		if !slices.Contains(i.AllowScripts, name) {
			return fmt.Errorf("the install scripts of %s ran when %s was locked; --allow-scripts %s runs them here too", name, e.Source, name)
		}
	}
	registries, err := i.registries(ctx, e)
	if err != nil {
		return err
	}
	tree, err := i.assemble(ctx, registries, e.Parts)
	if err != nil {
		return err
	}
	if err := i.finish(ctx, tree, e.Parts, e.Scripts); err != nil {
		return errors.Join(err, tree.Drop())
	}
	known, err := i.Store.Trees()
	if err != nil {
		return errors.Join(err, tree.Drop())
	}
	hash, err := i.Store.Put(tree)
	if err != nil {
		return errors.Join(err, tree.Drop())
	}
	if hash != e.Tree {
		err := fmt.Errorf("the files of %s %s have the hash %s, and the lock file states %s", e.Source, e.Version, hash, e.Tree)
		if len(e.Scripts) > 0 {
			err = fmt.Errorf("%w; the install scripts of %v made other files here", err, e.Scripts)
		}
		if slices.Contains(known, hash) { // another extension's
			return err
		}
		return errors.Join(err, i.Store.Remove(hash))
	}
	return nil
}

// put assembles a package and puts it into the store.
func (i *Installer) put(ctx context.Context, s Source, registries []string, r resolved) (*Package, error) {
	p := &Package{Source: s, Version: r.version, Parts: r.parts}
	tree, err := i.assemble(ctx, registries, r.parts)
	if err != nil {
		return nil, err
	}
	if p.Run, err = unpacked.Describe(tree.Dir(), r.parts); err == nil {
		p.Scripts, p.Held, err = i.scripts(tree.Dir(), r.parts)
	}
	if err == nil {
		err = i.finish(ctx, tree, r.parts, p.Scripts)
	}
	if err == nil {
		p.Tree, err = i.Store.Put(tree)
	}
	if err != nil {
		return nil, errors.Join(err, tree.Drop())
	}
	return p, nil
}

// scripts tells the packages with install scripts apart: those that run, and the others. A name
// in AllowScripts that has none is a mistake.
func (i *Installer) scripts(dir string, parts []lockfile.Part) (run, held []string, err error) {
	for _, p := range parts {
		if unpacked.IsWheel(p) {
			continue
		}
		at := filepath.Join(dir, filepath.FromSlash(p.Path))
		pkg, err := unpacked.ReadPackageJSON(at)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		switch {
		case !pkg.Installs(at):
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

// old refuses a part that was published too recently, or nobody knows when.
func (i *Installer) old(name, version string, published time.Time) error {
	age, stated := i.AgeOf[name]
	if !stated {
		age = i.MinAge
	}
	switch since := time.Since(published); {
	case age == 0:
		return nil
	case published.IsZero():
		return fmt.Errorf("the registry does not say when %s %s was published; --min-release-age %s=0 takes it", name, version, name)
	case since < age:
		return fmt.Errorf("%s %s was published %s ago, and packages have to be %s old; --min-release-age %s=0 takes it", name, version, since.Round(time.Minute), age, name)
	}
	return nil
}

// registries are those that an entry's parts may come from.
func (i *Installer) registries(ctx context.Context, e lockfile.Entry) ([]string, error) {
	s, err := i.sourceOf(e)
	if err != nil {
		return nil, err
	}
	if s.Kind == Bundle || s.Kind != NPM && s.Kind != PyPI && len(e.Parts) == 1 {
		return nil, nil
	}
	dir, err := os.MkdirTemp("", "exthost-config-") // both programs take files of where they run for their own
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if s.Kind == PyPI {
		c, err := readPipConfig(ctx, dir, i.environ())
		if err != nil {
			return nil, err
		}
		return []string{c.index}, nil
	}
	c, err := readNPMConfig(ctx, dir, i.environ())
	if err != nil {
		return nil, err
	}
	return c.all(), nil
}

// sourceOf is [Installer.Source], to find registries. What came through the MCP registry is, by its
// parts, of the registry that the package is in.
func (i *Installer) sourceOf(e lockfile.Entry) (Source, error) {
	if strings.HasPrefix(e.Source, "registry:") && len(e.Parts) > 0 {
		if unpacked.IsWheel(e.Parts[0]) {
			return Source{Kind: PyPI}, nil
		}
		return Source{Kind: NPM}, nil
	}
	return i.Source(e)
}

// Source reads the source of an entry of the lock file, which may be a path relative to that
// file.
func (i *Installer) Source(e lockfile.Entry) (Source, error) {
	if strings.HasPrefix(e.Source, ".") {
		return Parse(filepath.Join(i.Dir, filepath.FromSlash(e.Source)))
	}
	return Parse(e.Source)
}
