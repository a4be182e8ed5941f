package packages

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/exthost/exthost/internal/proc/process"
	"github.com/exthost/exthost/internal/supply/download"
	"github.com/exthost/exthost/internal/supply/lock"
	"github.com/exthost/exthost/internal/supply/store"
	"github.com/exthost/exthost/manifest"
)

// archive is a downloaded part, or the error of its download.
type archive struct {
	form  store.Form
	strip int // leading path elements to drop when unpacking
	data  []byte

	submodules []string // of a commit, which are not in it
	err        error
}

// assemble fetches all parts and unpacks them into a tree that runs program. The caller puts the tree into the store or
// drops it.
func (i *Installer) assemble(ctx context.Context, from origin, parts []lock.Part, program string,
) (*store.Tree, error) {
	return i.place(ctx, from, &placing{parts: parts, choice: choice{program: program}})
}

// placing is a package that is being assembled.
type placing struct {
	parts []lock.Part // with their places, once they have them
	raise bool        // a plugin of npm is placed in the root
	choice
	notes []string // what of a plugin in the format of another program is left out
}

// place is assemble for parts whose places are not locked yet.
func (i *Installer) place(ctx context.Context, from origin, p *placing) (*store.Tree, error) {
	client, err := from.client()
	if err != nil {
		return nil, err
	}
	defer client.Close()
	tree, err := i.Store.New()
	if err != nil {
		return nil, err
	}
	if err = i.unpackAll(ctx, client, from, tree, p); err == nil && formOfParts(tree.Dir(), p.parts) == formTranslated {
		err = fmt.Errorf("it has a %s of its own; copy the folder into a search path to run it", manifest.FileName)
	}
	if err == nil {
		err = i.translate(tree.Dir(), p)
	}
	if err == nil {
		err = complete(tree, p.parts, p.program)
	}
	if err != nil {
		return nil, errors.Join(err, tree.Drop())
	}
	return tree, nil
}

// translate makes a plugin in the format of another program one that this program runs. A package in the standard
// format needs none, nor does one of a registry, which is a program.
func (i *Installer) translate(dir string, p *placing) (err error) {
	first := p.parts[0]
	if i.Translate == nil || !isLocal(first) && !isGit(first) || p.program != "" || formOf(dir) == formPlugin {
		return nil
	}
	ok := false
	if p.notes, ok, err = i.Translate(dir, p.listed); err == nil && !ok && p.listed != nil && formOf(dir) == "" {
		err = errors.New("the plugin has nothing that means anything here")
	}
	return err
}

// unpackAll unpacks the parts in order while later parts are being downloaded.
func (i *Installer) unpackAll(ctx context.Context, client *download.Client, from origin, tree *store.Tree, p *placing,
) error {
	parts := p.parts // the downloads go on with the slice that they have
	ctx, cancel := context.WithCancel(ctx)
	var fetching sync.WaitGroup
	defer fetching.Wait()
	defer cancel()
	arrived := make([]chan archive, len(parts))
	room := make(chan struct{}, width) // limits parts that are being downloaded or wait for unpacking
	for n := range parts {
		arrived[n] = make(chan archive, 1)
	}
	fetching.Go(func() {
		for n, p := range parts {
			select {
			case room <- struct{}{}:
				fetching.Go(func() { arrived[n] <- i.fetch(ctx, client, from, p) })
			case <-ctx.Done():
				arrived[n] <- archive{err: ctx.Err()}
			}
		}
	})
	for n := range parts {
		a := <-arrived[n]
		if a.err == nil {
			a.err = unpack(tree, a, p.parts[n])
		}
		if n == 0 && a.err == nil {
			p.parts, a.err = settle(tree, a, parts, p.raise)
		}
		if n == 0 && a.err == nil {
			p.choice, a.err = choose(tree, parts[0], p.program, a.submodules)
		}
		part := p.parts[n]
		if a.err == nil {
			a.err = sameName(tree.Dir(), part)
		}
		if a.err != nil {
			return fmt.Errorf("%s %s: %w", part.Name, part.Version, a.err)
		}
		<-room
	}
	return nil
}

// unpack adds a part to the tree. In what no registry has packed, symbolic links are common.
func unpack(tree *store.Tree, a archive, p lock.Part) error {
	if isLocal(p) || isGit(p) {
		return tree.UnpackLinks(a.form, a.data, p.Path, a.strip)
	}
	return tree.Unpack(a.form, a.data, p.Path, a.strip)
}

// settle unpacks the first part again where its content decides about its place. What is in the only folder of an
// archive goes into the root of the tree, and with raise a plugin of npm does too, because a plugin is one folder. It
// returns the parts with their places.
func settle(tree *store.Tree, a archive, parts []lock.Part, raise bool) ([]lock.Part, error) {
	first := parts[0]
	switch {
	case isLocal(first) && first.Integrity != "":
		top, err := tree.Top()
		if err != nil || top == "" {
			return parts, err
		}
		a.strip = 1
	case raise && first.Path != "" && IsPlugin(filepath.Join(tree.Dir(), filepath.FromSlash(first.Path))):
		parts = raised(parts)
	default:
		return parts, nil
	}
	if err := tree.Clear(); err != nil {
		return parts, err
	}
	return parts, unpack(tree, a, parts[0])
}

// fetch downloads a part and verifies its hash.
func (i *Installer) fetch(ctx context.Context, client *download.Client, from origin, p lock.Part) (a archive) {
	if isLocal(p) || isGit(p) {
		return i.fetchLocal(ctx, p)
	}
	if a.form, a.strip = store.TarGz, 1; isWheel(p) {
		a.form, a.strip = store.Zip, 0
	}
	at, err := from.address(p.Name, p.URL)
	if err != nil {
		a.err = err
	} else if a.data, a.err = client.Get(ctx, at, "", store.MaxArchive); a.err == nil {
		a.err = download.Verify(a.data, p.Integrity)
	}
	return a
}

// sameName refuses an archive whose metadata names another package.
func sameName(dir string, p lock.Part) error {
	dir = filepath.Join(dir, filepath.FromSlash(p.Path))
	if isWheel(p) {
		return sameWheel(dir, p)
	}
	if isLocal(p) || isGit(p) { // it has no registry name
		return nil
	}
	pkg, err := readPackageJSON(dir)
	switch {
	case err != nil:
		return err
	case pkg.Name != p.Name || strings.TrimPrefix(pkg.Version, "v") != p.Version:
		return fmt.Errorf("its package.json says that it is %q %q", pkg.Name, pkg.Version)
	}
	return nil
}

// finish runs the install scripts of the named parts, without secrets in the environment, and normalizes file
// modes for the store.
func (i *Installer) finish(ctx context.Context, tree *store.Tree, parts []lock.Part, names []string) error {
	if len(names) == 0 {
		return nil
	}
	if _, err := os.Lstat(filepath.Join(tree.Dir(), ".npmrc")); err == nil {
		return errors.New("its .npmrc would decide how npm runs install scripts")
	}
	env, _ := process.Environ(i.environ(), process.EnvPolicy{})
	argv := []string{"npm", "rebuild", "--ignore-scripts=false", "--bin-links=false", "--foreground-scripts",
		"--offline", "--no-audit", "--no-update-notifier", "--loglevel=error", "--global=false"}
	for _, p := range parts {
		// by path: npm would read a bare name as the folder of that name, which may hold another package
		if slices.Contains(names, p.Name) {
			argv = append(argv, "./"+p.Path)
		}
	}
	if _, err := (command{dir: tree.Dir(), argv: argv, env: env}).run(ctx); err != nil {
		return fmt.Errorf("the install scripts of %s: %w", strings.Join(names, ", "), err)
	}
	return filepath.WalkDir(tree.Dir(), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return os.Chmod(path, 0o755)
		case !d.Type().IsRegular():
			return fmt.Errorf("an install script made %s, which is no file", path)
		case info.Mode()&0o111 != 0:
			return os.Chmod(path, 0o555)
		default:
			return os.Chmod(path, 0o444)
		}
	})
}

// registryScheme starts archive URLs that are relative to the package's registry.
const registryScheme = "registry://"

// lockedURL returns the URL of an archive for the lock file. It leaves out the part that the URL shares with the
// registry's, because the path of a registry may contain a user's token.
func lockedURL(registry, archive string) (string, error) {
	at, err := url.Parse(registry)
	if err != nil {
		return "", errors.New("the registry is no address")
	}
	u, err := url.Parse(archive)
	switch {
	case err != nil:
		return "", errors.New("the registry states an archive at what is no address")
	case u.RawQuery != "":
		return "", fmt.Errorf("the registry states an archive at %s with a query, which may be a secret and would be "+
			"in exthost.lock", u.Host)
	}
	u.User, u.Fragment = nil, ""
	if rel, ok := download.Relative(at, u); ok {
		return registryScheme + rel, nil
	}
	for part := range strings.SplitSeq(at.EscapedPath(), "/") {
		if len(part) >= minToken && strings.Contains(u.String(), part) {
			return "", fmt.Errorf("the registry states an archive at %s, at an address with a part of that of the "+
				"registry, which may be a token and would be in exthost.lock", u.Host)
		}
	}
	return u.String(), nil
}

// paths returns the paths of the registry URLs, which may contain tokens.
func (o origin) paths() (list []string) {
	for _, registry := range o.registries {
		if u, err := url.Parse(registry); err == nil && strings.Trim(u.EscapedPath(), "/") != "" &&
			registry != defaultIndex {
			list = append(list, strings.Trim(u.EscapedPath(), "/"))
		}
	}
	return list
}

const minToken = 16 // shortest path element that may be a token, in characters

// address resolves the archive URL of a lock file.
func (o origin) address(name, text string) (string, error) {
	rel, ok := strings.CutPrefix(text, registryScheme)
	if !ok {
		return text, nil
	}
	if o.registryOf == nil {
		return "", errors.New("its archive is at a registry, and its source has none")
	}
	at, err := url.Parse(strings.TrimSuffix(o.registryOf(name), "/") + "/")
	if err != nil {
		return "", errors.New("the registry is no address")
	}
	u, err := at.Parse("./" + rel)
	if err != nil {
		return "", fmt.Errorf("%q is no address of an archive", text)
	}
	return u.String(), nil
}
