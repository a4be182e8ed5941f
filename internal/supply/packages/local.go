package packages

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/internal/supply/download"
	"github.com/exthost/exthost/internal/supply/lock"
	"github.com/exthost/exthost/internal/supply/marketplace"
	"github.com/exthost/exthost/internal/supply/store"
	"github.com/exthost/exthost/manifest"
)

// resolveLocal resolves a commit, bundle or folder, and the dependencies in its package.json.
func (i *Installer) resolveLocal(ctx context.Context, s Source) (r resolved, err error) {
	first, err := i.base(ctx, &s)
	if err != nil {
		return r, err
	}
	r = resolved{source: s, version: first.Version, parts: []lock.Part{first}}
	p := &placing{parts: r.parts, choice: choice{program: s.Program}}
	tree, err := i.place(ctx, r.from, p)
	if err != nil {
		return r, err
	}
	defer func() { _ = tree.Drop() }() // needed only to read its metadata
	says, err := describePackage(tree.Dir(), r.parts, p.program)
	if err != nil {
		return r, err
	}
	if s.Kind != Git && says.Version != "" {
		r.version, r.parts[0].Version = says.Version, says.Version
	}
	if needsPackages(tree.Dir()) {
		more, err := i.resolveOf(ctx, tree.Dir())
		if err != nil {
			return r, err
		}
		r.parts, r.from = append(r.parts, more.parts...), more.from
	}
	return r, nil
}

// base returns the part for s itself, and makes a path in s relative to the lock file.
func (i *Installer) base(ctx context.Context, s *Source) (lock.Part, error) {
	name := strings.TrimSuffix(filepath.Base(s.Name), ".git")
	if s.Kind == Git {
		commit, err := gitCommit(ctx, i.environ(), s.Name, s.Version)
		return lock.Part{Name: name, Version: commit, URL: "git+" + s.Name}, err
	}
	abs, err := filepath.Abs(s.Name)
	if err != nil {
		return lock.Part{}, err
	}
	rel, err := filepath.Rel(i.Dir, abs)
	if err != nil {
		return lock.Part{}, err
	}
	if rel = filepath.ToSlash(rel); !strings.HasPrefix(rel, ".") {
		rel = "./" + rel
	}
	s.Name = rel
	name = strings.TrimSuffix(filepath.Base(abs), cmp.Or(endingOf(abs), filepath.Ext(abs)))
	p := lock.Part{Name: name, Version: "0.0.0", URL: rel}
	if s.Kind == Bundle {
		data, err := readArchive(abs)
		if err != nil {
			return p, err
		}
		p.Integrity = download.Sum(data)
	}
	return p, nil
}

// needsPackages reports whether dir needs the dependencies in its package.json. A bundle has them in it, and a
// translated plugin needs them only if a server or a hook of it runs one of its files.
func needsPackages(dir string) bool {
	p, err := readPackageJSON(dir)
	if err != nil || len(p.Dependencies) == 0 {
		return false
	}
	switch formOf(dir) {
	case formBundle:
		return false
	case formTranslated:
		return runsOwn(ReadPlugin(dir).Manifest)
	}
	return true
}

// runsOwn reports whether a command line of a translated plugin names a file of it.
func runsOwn(m *manifest.Manifest) bool {
	if m == nil {
		return false
	}
	lines := [][]string{m.Transport.CommandLine()}
	for _, s := range m.MCPServers {
		lines = append(lines, append([]string{s.Command}, s.Args...))
	}
	for _, h := range m.Hooks {
		lines = append(lines, h.Command)
	}
	return slices.ContainsFunc(slices.Concat(lines...), func(word string) bool {
		return strings.HasPrefix(word, "./") || strings.Contains(word, manifest.DirVariable) ||
			strings.Contains(word, "CLAUDE_PLUGIN_ROOT")
	})
}

// resolveOf lets npm resolve the dependencies of a tree's package.json, using its package-lock.json if there is
// one.
func (i *Installer) resolveOf(ctx context.Context, tree string) (r resolved, err error) {
	dir, err := os.MkdirTemp("", "exthost-npm-")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(dir)
	for _, name := range []string{"package.json", "package-lock.json"} {
		data, _, err := file.ReadRegular(filepath.Join(tree, name), maxOutput, false)
		if err != nil && name == "package.json" {
			return r, err
		}
		if err == nil {
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
				return r, err
			}
		}
	}
	return i.resolveWithNPM(ctx, dir, "")
}

// fetchLocal reads the files of a commit, bundle or folder.
func (i *Installer) fetchLocal(ctx context.Context, p lock.Part) (a archive) {
	path := filepath.Join(i.Dir, filepath.FromSlash(p.URL))
	switch info, err := os.Stat(path); {
	case isGit(p):
		a.form = store.Tar
		if _, a.err = parseGit(p.URL + "@" + p.Version); a.err == nil {
			a.data, a.submodules, a.err = gitArchive(ctx, i.environ(), strings.TrimPrefix(p.URL, "git+"), p.Version)
		}
	case err != nil:
		a.err = err
	case info.IsDir():
		a.form = store.Tar
		a.data, a.err = pack(path)
	default:
		a.form = archives[endingOf(path)]
		if a.data, a.err = readArchive(path); a.err == nil {
			a.err = download.Verify(a.data, p.Integrity)
		}
	}
	return a
}

// readArchive reads an archive on this machine. One that no store would take is refused before it is read.
func readArchive(path string) ([]byte, error) {
	tooLarge := fmt.Errorf("the archive is over %d MiB, and no larger one is taken; leave out what its program does "+
		"not need", store.MaxArchive>>20)
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Size() > store.MaxArchive {
		return nil, tooLarge
	}
	data, _, err := file.ReadRegular(path, store.MaxArchive+1, true)
	if err == nil && len(data) > store.MaxArchive { // it grew meanwhile
		return nil, tooLarge
	}
	return data, err
}

// pack returns a folder as a tar archive with its symbolic links, without node_modules and .git. dir may be a link.
func pack(dir string) ([]byte, error) {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, err
	}
	p := packing{dir: dir}
	p.tar = tar.NewWriter(&p.out)
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		// also a link, or the file of a work tree
		skipped := d != nil && (d.Name() == "node_modules" || d.Name() == ".git")
		switch {
		case err != nil:
			return err
		case skipped && d.IsDir():
			return fs.SkipDir
		case skipped:
			return nil
		}
		return p.add(path, d)
	})
	if err != nil {
		return nil, err
	}
	return p.out.Bytes(), p.tar.Close()
}

// packing is a folder that is being packed.
type packing struct {
	dir     string
	out     bytes.Buffer
	tar     *tar.Writer
	entries int
}

// add adds a file or a symbolic link. It fails before it reads what no store would take.
func (p *packing) add(path string, d fs.DirEntry) error {
	rel, err := filepath.Rel(p.dir, path)
	if err != nil {
		return err
	}
	p.entries++
	switch {
	case p.entries > store.MaxFiles:
		return fmt.Errorf("%s has over %d files", p.dir, store.MaxFiles)
	case d.IsDir():
		return nil
	case d.Type()&fs.ModeSymlink != 0:
		target, err := os.Readlink(path)
		if err != nil {
			return err
		}
		return p.tar.WriteHeader(&tar.Header{
			Name:     filepath.ToSlash(rel),
			Linkname: filepath.ToSlash(target),
			Mode:     0o777,
			Typeflag: tar.TypeSymlink,
		})
	case !d.Type().IsRegular():
		return fmt.Errorf("%s is no file, and only files are taken", path)
	}
	info, err := d.Info()
	if err != nil {
		return err
	}
	if int64(p.out.Len())+info.Size() > store.MaxArchive {
		return fmt.Errorf("with %s, %s has over %d MiB", rel, p.dir, store.MaxArchive>>20)
	}
	data, info, err := file.ReadRegular(path, store.MaxArchive, false)
	if err != nil {
		return err
	}
	if err := p.tar.WriteHeader(&tar.Header{
		Name:     filepath.ToSlash(rel),
		Mode:     int64(info.Mode().Perm()),
		Size:     int64(len(data)),
		Typeflag: tar.TypeReg,
	}); err != nil {
		return err
	}
	_, err = p.tar.Write(data)
	return err
}

// Marketplace returns the list of plugins of a commit, a folder or an archive.
func (i *Installer) Marketplace(ctx context.Context, s Source) (*marketplace.Marketplace, error) {
	if s.Kind != Git && s.Kind != Folder && s.Kind != Bundle {
		return nil, fmt.Errorf("%s is no repository, folder or archive, which may have a list of plugins", s)
	}
	first, err := i.base(ctx, &s)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s, err)
	}
	tree, err := i.Store.New()
	if err != nil {
		return nil, err
	}
	a := i.fetchLocal(ctx, first)
	if err = a.err; err == nil {
		err = unpack(tree, a, first)
	}
	if err == nil {
		_, err = settle(tree, a, []lock.Part{first}, false)
	}
	var m *marketplace.Marketplace
	if err == nil {
		m, err = marketplace.Read(tree.Dir())
	}
	if err = errors.Join(err, tree.Drop()); err != nil {
		return nil, fmt.Errorf("%s: %w", s, err)
	}
	return m, nil
}
