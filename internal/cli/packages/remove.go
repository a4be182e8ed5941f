package packages

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/internal/supply/consent"
	"github.com/exthost/exthost/internal/supply/lock"
	"github.com/exthost/exthost/internal/supply/packages"
	"github.com/exthost/exthost/internal/supply/store"
)

// Remove returns exthost remove.
func Remove(c *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "remove ID...",
		Short: "Remove extensions that were added as packages",
		Long: "Remove the plugin.toml of each extension that exthost add wrote, its entry in exthost.lock, the\n" +
			"agreement to run it, and the files of the package that no other directory uses. What its\n" +
			"program has written stays, and is named: exthost add finds it again.",
		Example:           "  exthost remove memory",
		Args:              console.AtLeastOne("exthost remove ID", "exthost remove needs the id of an extension"),
		ValidArgsFunction: hosts.CompleteExtension(c),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, _, err := hosts.Load(c)
			if err != nil {
				return err
			}
			f, ids, err := readPackages(cfg, args) // before anything is removed
			if err != nil {
				return err
			}
			for _, id := range ids {
				if err := remove(cmd.Context(), c, cfg, id, f.Extensions[id]); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// remove removes an extension with its entry e of the lock file.
func remove(ctx context.Context, c *console.Console, cfg *config.Config, id string, e lock.Entry) error {
	d, err := newDraft(c, cfg, id)
	if err != nil {
		return err
	}
	if real, err := filepath.EvalSymlinks(d.dir); err == nil {
		if err := d.k.Store.Forget(real, consent.Extension); err != nil {
			return err
		}
	}
	left, err := removeFolder(d.dir)
	if err != nil {
		return err
	}
	if err := unlist(cfg, id); err != nil {
		return err
	}
	did := fmt.Sprintf("removed %s: %s and its entry in exthost.lock", id, console.NearbyPath(d.dir))
	if err := hosts.Apply(ctx, c, cfg, did); err != nil {
		return err
	}
	tellLeft(c, "kept, because exthost add did not write them", store.Left{Dir: d.dir, Files: left})
	if err := tellState(c, id); err != nil {
		return err
	}
	return release(c, e.Tree)
}

// tellState prints that the state of an extension is kept.
func tellState(c *console.Console, id string) error {
	state, err := exthost.DefaultStateDir()
	if err != nil {
		return err
	}
	dir := filepath.Join(state, id)
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		c.Tell(console.Safe("kept, its state directory " + dir + ", which nothing but you deletes"))
	}
	return nil
}

// unlist removes an extension from the lock file.
func unlist(cfg *config.Config, id string) error {
	file, unlock, err := changeLock(cfg)
	if err != nil {
		return err
	}
	defer unlock()
	delete(file.Extensions, id)
	return file.Write(cfg.Project.Dir)
}

// outdated lists the versions that an upgrade would take; ids is nil for all packages.
func (t *terms) outdated(ctx context.Context, c *console.Console, ids []string) error {
	list, failed := t.compare(ctx, c, ids)
	if list == nil {
		return failed
	}
	rows, names := [][]string{{"ID", "SOURCE", "LOCKED", "NEWEST", "LATEST"}}, []string{}
	for _, one := range list {
		names = append(names, one.ID)
		rows = append(rows, []string{one.ID, one.Source, one.Locked, one.Newest, one.Latest})
	}
	printed := c.Print(console.Document{Kind: "outdated", Value: list, Names: names, Rows: rows})
	return errors.Join(printed, failed)
}

// outdated compares the locked and the newest version of a package.
type outdated struct {
	ID      string `json:"id"`
	Source  string `json:"source"`
	Locked  string `json:"locked"`
	Newest  string `json:"newest"`  // that the source allows
	Latest  string `json:"latest"`  // of the package; "" if its source has no other versions
	Differs bool   `json:"differs"` // also if only the versions of dependencies differ
}

// maxResolving bounds the packages that are resolved at a time; each of them runs a package manager.
const maxResolving = 4

// compare compares the named packages of the lock file, or all of them. The error joins those of packages that could
// not be resolved, which the list leaves out; the list is nil if none was tried.
func (t *terms) compare(ctx context.Context, c *console.Console, ids []string) ([]outdated, error) {
	cfg, _, err := hosts.LoadTrusted(c)
	if err != nil {
		return nil, err
	}
	f, ids, err := readPackages(cfg, ids)
	if err != nil {
		return nil, err
	}
	i, err := t.installer(cfg)
	if err != nil {
		return nil, err
	}
	defer c.Progress(func() string { return "resolving " + console.Plural(len(ids), "package") })()
	list, errs := make([]outdated, len(ids)), make([]error, len(ids))
	var workers sync.WaitGroup
	room := make(chan struct{}, maxResolving)
	for n, id := range ids {
		room <- struct{}{}
		workers.Go(func() {
			defer func() { <-room }()
			list[n], errs[n] = newest(ctx, i, id, f.Extensions[id])
		})
	}
	workers.Wait()
	list = slices.DeleteFunc(list, func(one outdated) bool { return one.ID == "" })
	return list, failures(errs)
}

// failures returns one error with the lines of all errors; nil if there is none.
func failures(errs []error) error {
	err := errors.Join(errs...)
	if err == nil {
		return nil
	}
	return &console.Error{Code: console.ExitFailed, Text: console.SafeText(err.Error()), Cause: err}
}

// newest resolves the source of an entry, and again without the version that it states. On an error the result is zero.
func newest(ctx context.Context, i *packages.Installer, id string, e lock.Entry) (outdated, error) {
	source, err := i.Source(e)
	if err != nil {
		return outdated{}, err
	}
	p, err := i.Resolve(ctx, source)
	if err != nil {
		return outdated{}, err
	}
	one := outdated{ID: id, Source: e.Source, Locked: e.Version, Newest: p.Version, Differs: !p.Same(e)}
	switch source.Kind {
	case packages.NPM, packages.PyPI, packages.Registry:
		one.Latest = p.Version
		if source.Version != "" {
			source.Version = ""
			latest, err := i.Resolve(ctx, source)
			if err != nil {
				return outdated{}, err
			}
			one.Latest = latest.Version
		}
	}
	if one.Differs && p.Version == e.Version {
		one.Newest += ", with others of what it needs"
	}
	return one, nil
}
