package packages

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/internal/proc/process"
	"github.com/exthost/exthost/internal/supply/launcher"
	"github.com/exthost/exthost/internal/supply/lock"
	"github.com/exthost/exthost/internal/supply/packages"
	"github.com/exthost/exthost/manifest"
)

// downloads reports whether the program of a plugin.toml downloads a package at each start, as npx and uvx do. It is
// true for an invalid file.
func downloads(text []byte) bool {
	m, _ := manifest.Parse(manifest.FileName, text)
	if m == nil {
		return true
	}
	_, ok := launcher.Parse(m.Transport.CommandLine())
	return ok
}

// addLocked adds an extension whose plugin.toml runs a package with npx, uvx or the like, and makes it run the locked
// package instead. The user has agreed to that.
func addLocked(ctx context.Context, c *console.Console, id string, text []byte) error {
	cfg, _, err := hosts.LoadTrusted(c)
	if err != nil {
		return err
	}
	d, err := newDraft(c, cfg, id)
	if err != nil {
		return err
	}
	if err := d.absent(); err != nil {
		return err
	}
	return d.lock(ctx, &terms{yes: true}, text)
}

// lockNamed locks the packages of those named extensions that download their package at each start. It returns the
// other ids.
func (t *terms) lockNamed(ctx context.Context, c *console.Console, ids []string) (rest []string, err error) {
	if len(ids) == 0 {
		return nil, nil
	}
	cfg, _, err := hosts.LoadTrusted(c)
	if err != nil {
		return nil, err
	}
	f, err := readLock(cfg)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		text := unlocked(cfg, f, id)
		if text == nil {
			rest = append(rest, id)
			continue
		}
		d, err := newDraft(c, cfg, id)
		if err != nil {
			return nil, err
		}
		d.text = text
		if e, ok := f.Lookup(id); ok { // written by exthost trust --lock
			d.entry = &e
		}
		if err := d.lock(ctx, t, text); err != nil {
			return nil, err
		}
	}
	return rest, nil
}

// unlocked returns the plugin.toml of an extension if it downloads its package at each start and has no package in the
// lock file; else nil.
func unlocked(cfg *config.Config, f *lock.File, id string) []byte {
	if f.Extensions[id].Tree != "" || manifest.ValidateID(id) != nil || len(cfg.Extensions.SearchPaths) == 0 {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(cfg.Extensions.SearchPaths[0], id, manifest.FileName))
	if err != nil || !downloads(text) {
		return nil
	}
	return text
}

// lock rewrites text, a plugin.toml, to run the locked package in place of the one that its command line downloads.
func (d *draft) lock(ctx context.Context, t *terms, text []byte) (err error) {
	invalid := func(err error) error {
		return &console.Error{Code: console.ExitInvalid, Text: console.Safe(d.id + " cannot be locked: " + err.Error())}
	}
	m, diags := manifest.Parse(manifest.FileName, text)
	if m == nil {
		return invalid(fmt.Errorf("%v", diags))
	}
	run, _ := launcher.Parse(m.Transport.CommandLine())
	source, err := lockable(m, run)
	if err != nil {
		return invalid(err)
	}
	source.Program = run.Program
	i, err := t.installer(d.cfg)
	if err != nil {
		return err
	}
	i.Programs = true // the command line runs one
	p, err := resolve(ctx, d.c, i, source)
	if err != nil {
		return err
	}
	d.pkg = p
	defer func() {
		if err != nil {
			err = errors.Join(err, d.undo())
		}
	}()
	u := usersOfLauncher(m, run)
	lookup := process.Lookup(os.Environ())
	u.data = documented(p, func(name string) bool {
		_, stated := lookup(name)
		return stated || m.Transport.Env[name] != "" || slices.Contains(u.asks, name)
	})
	after, err := upgraded(slices.Clone(text), p, u)
	if err != nil {
		return invalid(err)
	}
	if err := d.write(ctx, p, after); err != nil {
		return err
	}
	describe(d.c, p, u.data)
	if err := d.agree(ctx, t.yes, "exthost upgrade "+d.id+" --yes"); err != nil {
		return err
	}
	if err := d.try(ctx, t.yes); err != nil {
		return err
	}
	return hosts.Apply(ctx, d.c, d.stated,
		"locked "+d.id+": "+console.NearbyPath(d.dir)+" and exthost.lock; commit both")
}

// lockable returns the source of the package that a command line downloads. It returns an error if a locked package
// cannot do everything that the command line asks for.
func lockable(m *manifest.Manifest, run launcher.Command) (packages.Source, error) {
	switch {
	case len(m.Transport.Cmd) > 0:
		return packages.Source{},
			errors.New("transport.cmd is not rewritten; write transport.command and transport.args")
	case run.Unclear != "":
		return packages.Source{}, fmt.Errorf("%s of %s has no counterpart in a locked package", run.Unclear,
			m.Transport.Command)
	case run.Source == "":
		return packages.Source{}, errors.New("the package is no name of a registry")
	}
	return packages.Parse(run.Source)
}

// usersOfLauncher returns the user's part of a manifest whose command line downloads a package.
func usersOfLauncher(m *manifest.Manifest, run launcher.Command) users {
	name := strings.TrimSuffix(path.Base(filepath.ToSlash(m.Transport.Command)), ".cmd")
	bins := slices.DeleteFunc(slices.Clone(m.Requires.Bins), func(bin string) bool { return bin == name })
	return users{args: run.Args, asks: m.Requires.Env, bins: bins}
}
