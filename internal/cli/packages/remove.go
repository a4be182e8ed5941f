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
	var data, yes bool
	cmd := &cobra.Command{
		Use:   "remove ID...",
		Short: "Remove extensions that were added as packages",
		Long: "Remove what exthost add wrote of each extension, plugin.toml or the files of the plugin, its entry\n" +
			"in exthost.lock, the agreement to run it, and the files of the package that no other directory\n" +
			"uses. What its program has written stays, and is named: exthost add finds it again. With --data,\n" +
			"delete its state directory too, of a plugin its PLUGIN_DATA, after a question. That goes also for\n" +
			"the data of a plugin that is not of exthost.lock, or was removed before; its folder stays.",
		Example:           "  exthost remove memory\n  exthost remove reports --data",
		Args:              console.AtLeastOne("exthost remove ID", "exthost remove needs the id of an extension"),
		ValidArgsFunction: hosts.CompleteExtension(c),
		RunE: func(cmd *cobra.Command, args []string) error {
			return removeAll(cmd.Context(), c, args, data, yes)
		},
	}
	cmd.Flags().BoolVar(&data, "data", false, "delete their data too")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "delete the data without a question")
	return cmd
}

// removeAll removes extensions, and with data what their programs have written.
func removeAll(ctx context.Context, c *console.Console, ids []string, data, yes bool) error {
	cfg, _, err := hosts.Load(c)
	if err != nil {
		return err
	}
	f, err := readLock(cfg)
	if err != nil {
		return err
	}
	ids = distinct(ids)
	portable := map[string]bool{}
	var drafts []*draft
	for _, id := range ids { // before anything is removed
		e := f.Extensions[id]
		switch {
		case e.Tree == "" && data && hasPluginData(id):
			portable[id] = true
			continue
		case e.Tree == "":
			return notLocked(id)
		}
		d, err := draftOf(c, cfg, id, e)
		if err != nil {
			return err
		}
		drafts, portable[id] = append(drafts, d), d.portable
	}
	r := &eraser{c: c}
	if data {
		if err := r.ask(ctx, ids, portable, yes); err != nil {
			return err
		}
	}
	for _, d := range drafts {
		if err := d.remove(ctx, f.Extensions[d.id], data); err != nil {
			return err
		}
	}
	return r.erase()
}

// distinct removes duplicates.
func distinct(ids []string) []string { return slices.Compact(slices.Sorted(slices.Values(ids))) }

// remove removes the extension with its entry e of the lock file. erased means that its data goes too.
func (d *draft) remove(ctx context.Context, e lock.Entry, erased bool) error {
	if real, err := filepath.EvalSymlinks(d.dir); err == nil {
		if err := d.k.Store.Forget(real, consent.Extension); err != nil {
			return err
		}
	}
	left, err := d.removeFiles(e)
	if err != nil {
		return err
	}
	if err := unlist(d.cfg, d.id); err != nil {
		return err
	}
	did := fmt.Sprintf("removed %s: %s and its entry in exthost.lock", d.id, console.NearbyPath(d.dir))
	if err := hosts.Apply(ctx, d.c, d.stated, did); err != nil {
		return err
	}
	tellLeft(d.c, "kept, because exthost add did not write them", store.Left{Dir: d.dir, Files: left})
	if !erased {
		if err := tellState(d.c, d.id, d.portable); err != nil {
			return err
		}
	}
	return release(d.c, e.Tree)
}

// removeFiles removes what exthost add wrote into the extension's folder, and returns what is left there.
func (d *draft) removeFiles(e lock.Entry) (left []string, err error) {
	if d.store == nil {
		return removeFolder(d.dir)
	}
	left, err = d.store.Exchange(d.dir, e.Tree, "")
	if _, unknown := errors.AsType[store.Missing](err); !unknown {
		return left, err
	}
	d.c.Tell(console.Safe("which files of " + console.NearbyPath(d.dir) + " are those of the package is not known on " +
		"this machine, so that all stay; it is a plugin that nobody trusts"))
	return nil, nil
}

// tellState prints that the data of an extension is kept. That of an extension that is not in the lock file any more is
// only known for portable plugins, whose data lies apart.
func tellState(c *console.Console, id string, portable bool) error {
	dirs, err := dataOf(id, portable)
	if err != nil {
		return err
	}
	who := "you delete"
	if portable {
		who = "exthost remove " + id + " --data deletes"
	}
	for _, dir := range dirs {
		if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
			c.Tell(console.Safe("kept, its state directory " + dir + ", which only " + who))
		}
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
