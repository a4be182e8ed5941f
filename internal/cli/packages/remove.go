package packages

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/internal/supply/consent"
	"github.com/exthost/exthost/internal/supply/lock"
	"github.com/exthost/exthost/internal/supply/store"
)

// Remove returns exthost remove.
func Remove(c *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "remove ID",
		Short: "Remove an extension that was added as a package",
		Long: "Remove the plugin.toml of an extension that exthost add wrote, its entry in exthost.lock, the\n" +
			"agreement to run it, and the files of the package that no other directory uses. What its\n" +
			"program has written stays, and is named: exthost add finds it again.",
		Example:           "  exthost remove memory",
		Args:              console.One("the id of an extension"),
		ValidArgsFunction: hosts.CompleteExtension(c),
		RunE:              func(cmd *cobra.Command, args []string) error { return remove(cmd.Context(), c, args[0]) },
	}
}

func remove(ctx context.Context, c *console.Console, id string) error {
	cfg, _, err := hosts.Load(c)
	if err != nil {
		return err
	}
	file, err := readLock(cfg)
	if err != nil {
		return err
	}
	e, ok := file.Lookup(id)
	if !ok || e.Tree == "" {
		return notLocked(id)
	}
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

// Outdated returns exthost outdated.
func Outdated(c *console.Console) *cobra.Command {
	var t terms
	cmd := &cobra.Command{
		Use:   "outdated [ID...]",
		Short: "List packages of exthost.lock, and their newest versions",
		Long: "Resolve the sources that exthost.lock states again, and list for each package the version that\n" +
			"is locked and the one that exthost upgrade would take. No archive of a registry is downloaded,\n" +
			"and nothing changes.",
		ValidArgsFunction: hosts.CompleteExtension(c),
		RunE: func(cmd *cobra.Command, args []string) error {
			rows := [][]string{{"ID", "SOURCE", "LOCKED", "NEWEST"}}
			list := []outdated{}
			var names []string
			err := eachLocked(cmd.Context(), c, args,
				func(ctx context.Context, cfg *config.Config, id string, e lock.Entry) error {
					one, err := t.newest(ctx, c, cfg, id, e)
					list, names = append(list, one), append(names, id)
					rows = append(rows, []string{id, one.Source, one.Locked, one.Newest})
					return err
				})
			if err != nil {
				return err
			}
			return c.Print(console.Document{Kind: "outdated", Value: list, Names: names, Rows: rows})
		},
	}
	return cmd
}

// outdated compares the locked and the newest version of a package.
type outdated struct {
	ID      string `json:"id"`
	Source  string `json:"source"`
	Locked  string `json:"locked"`
	Newest  string `json:"newest"`
	Differs bool   `json:"differs"` // also if only the versions of dependencies differ
}

func (t *terms) newest(ctx context.Context, c *console.Console, cfg *config.Config, id string, e lock.Entry,
) (outdated, error) {
	one := outdated{ID: id, Source: e.Source, Locked: e.Version}
	i, err := t.installer(cfg)
	if err != nil {
		return one, err
	}
	source, err := i.Source(e)
	if err != nil {
		return one, err
	}
	defer c.Progress(func() string { return "resolving " + e.Source })()
	p, err := i.Resolve(ctx, source)
	if err != nil {
		return one, &console.Error{Code: console.ExitFailed, Text: console.Safe(err.Error()), Cause: err}
	}
	if one.Newest, one.Differs = p.Version, !p.Same(e); one.Differs && p.Version == e.Version {
		one.Newest += ", with others of what it needs"
	}
	return one, nil
}
