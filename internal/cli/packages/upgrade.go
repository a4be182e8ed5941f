package packages

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/internal/supply/consent"
	"github.com/exthost/exthost/internal/supply/lock"
	"github.com/exthost/exthost/internal/supply/packages"
	"github.com/exthost/exthost/internal/supply/store"
	"github.com/exthost/exthost/internal/text"
	"github.com/exthost/exthost/manifest"
)

// Upgrade returns exthost upgrade.
func Upgrade(c *console.Console) *cobra.Command {
	var t terms
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "upgrade [ID...]",
		Short: "Take the newest version of packages that their source allows",
		Long: "Resolve the sources that exthost.lock states again, and for each package that is another one\n" +
			"now show the difference: versions, what it needs, the command line and what it asks for, of a\n" +
			"plugin its servers, permissions and skills. After your yes, start it once and write plugin.toml, or\n" +
			"the files of the plugin, and exthost.lock. Without a yes everything stays. What you\n" +
			"have added to plugin.toml stays. A named extension that npx, uvx or their kind download at each\n" +
			"start is locked: it then runs the same package as exthost add would. Where exthost.lock states no\n" +
			"tools of a package, because it lacked a variable when it was added, it is started once, and they\n" +
			"are locked.\n\n" +
			"--dry-run lists for each package the version that is locked, the one that would be taken, and the\n" +
			"latest one where the source states a version. No archive of a registry is downloaded, and nothing\n" +
			"changes.",
		Example:           "  exthost upgrade --dry-run\n  exthost upgrade\n  exthost upgrade memory --yes",
		SuggestFor:        []string{"update", "outdated"},
		ValidArgsFunction: hosts.CompleteExtension(c),
		RunE: func(cmd *cobra.Command, args []string) error {
			if dryRun {
				return t.outdated(cmd.Context(), c, args)
			}
			rest, err := t.lockNamed(cmd.Context(), c, args)
			if err != nil || len(args) > 0 && len(rest) == 0 {
				return err
			}
			return t.upgradeAll(cmd.Context(), c, rest)
		},
	}
	t.flags(cmd)
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only list what would be taken")
	return cmd
}

// upgradeAll upgrades the named packages of the lock file, or all of them.
func (t *terms) upgradeAll(ctx context.Context, c *console.Console, ids []string) error {
	cfg, _, err := hosts.LoadTrusted(c)
	if err != nil {
		return err
	}
	f, ids, err := readPackages(cfg, ids)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if err := t.upgrade(ctx, c, cfg, id, f.Extensions[id]); err != nil {
			return err
		}
	}
	return nil
}

// readPackages returns the lock file, and those of its ids that a command is about: ids, after a check that each has a
// package, or all with a package if ids is empty.
func readPackages(cfg *config.Config, ids []string) (f *lock.File, of []string, err error) {
	if f, err = readLock(cfg); err != nil {
		return nil, nil, err
	}
	none := func(id string) bool { return f.Extensions[id].Tree == "" }
	if len(ids) == 0 {
		return f, slices.DeleteFunc(slices.Sorted(maps.Keys(f.Extensions)), none), nil
	}
	if n := slices.IndexFunc(ids, none); n >= 0 {
		return nil, nil, notLocked(ids[n])
	}
	return f, ids, nil
}

func notLocked(id string) error {
	return &console.Error{
		Code: console.ExitNotFound,
		Text: "exthost.lock names no package for " + id,
		Hint: "exthost upgrade --dry-run, which lists those that it names",
	}
}

// upgrade replaces the package of one entry by the newest version that its source allows.
func (t *terms) upgrade(ctx context.Context, c *console.Console, cfg *config.Config, id string, e lock.Entry,
) error {
	i, err := t.installer(cfg)
	if err != nil {
		return err
	}
	source, err := i.Source(e)
	if err != nil {
		return &console.Error{
			Code: console.ExitInvalid,
			Text: err.Error(),
			Hint: "exthost.lock states the source of " + id,
		}
	}
	newest, err := i.Resolve(ctx, source)
	if err != nil {
		return &console.Error{Code: console.ExitFailed, Text: console.Safe(err.Error()), Cause: err}
	}
	if newest.Same(e) {
		c.Tell(console.Safe(fmt.Sprintf("%s: %s %s is the newest", id, e.Source, e.Version)))
		return t.stateTools(ctx, c, cfg, id, e)
	}
	d, err := draftOf(c, cfg, id, e)
	if err != nil {
		return err
	}
	i.Programs = d.store == nil
	p, err := resolve(ctx, c, i, source)
	if err != nil {
		return err
	}
	if d.store != nil {
		d.pkg, d.entry = p, &e
		return t.upgradePlugin(ctx, d, p)
	}
	if d.text, err = os.ReadFile(filepath.Join(d.dir, manifest.FileName)); err == nil && p.Run.Plugin != nil {
		err = &console.Error{
			Code: console.ExitFailed,
			Text: console.Safe(p.Source.String() + " is a plugin now, and " + id + " is a program of it"),
			Hint: "exthost remove " + id + "; exthost add " + e.Source,
		}
	}
	if err != nil {
		return errors.Join(err, release(c, p.Tree))
	}
	d.pkg, d.entry = p, &e
	if err := d.upgrade(ctx, i.Store, t.yes); err != nil {
		return errors.Join(err, d.undo())
	}
	return nil
}

// upgrade shows how the package of the draft differs from the previous one, and replaces the previous one if the user
// agrees.
func (d *draft) upgrade(ctx context.Context, s store.Store, yes bool) error {
	path, p, e := filepath.Join(d.dir, manifest.FileName), d.pkg, d.entry
	before, diags := manifest.Parse(path, d.text)
	if before == nil || lock.Sum(d.text) != e.Manifest {
		return &console.Error{
			Code: console.ExitDenied,
			Text: fmt.Sprintf("%s is not the one that exthost.lock states %v", console.NearbyPath(path), diags),
			Hint: "exthost trust " + d.id + ", where you agree to it",
		}
	}
	text, err := upgraded(slices.Clone(d.text), p, usersOf(before, p))
	if err != nil {
		return &console.Error{
			Code: console.ExitInvalid,
			Text: console.Safe(err.Error()),
			Hint: "edit " + console.NearbyPath(path),
		}
	}
	if err := d.write(ctx, p, text); err != nil {
		return err
	}
	after, _ := manifest.Parse(path, text)
	for _, line := range differences(e, p, before, after) {
		d.c.Tell(console.Safe(line))
	}
	if err := d.agree(ctx, yes, "exthost upgrade "+d.id+" --yes"); err != nil {
		return err
	}
	if d.carried, err = s.Carry(e.Tree, p.Tree); err != nil {
		return err
	}
	if err := d.try(ctx, yes); err != nil {
		return err
	}
	did := fmt.Sprintf("upgraded %s: %s → %s; commit %s and exthost.lock", d.id, e.Version, p.Version,
		console.NearbyPath(path))
	if err := hosts.Apply(ctx, d.c, d.stated, did); err != nil {
		return err
	}
	return release(d.c, e.Tree, d.carried...)
}

// stateTools starts the extension of an entry without tools and locks the hashes of its tools. They are missing if this
// machine lacked a requirement when the package was added.
func (t *terms) stateTools(ctx context.Context, c *console.Console, cfg *config.Config, id string, e lock.Entry,
) error {
	if e.Tools != nil {
		return nil
	}
	d, err := draftOf(c, cfg, id, e)
	if err != nil {
		return err
	}
	return d.try(ctx, t.yes)
}

// usersOf returns the user's part of a manifest: the arguments that follow those of the package, and all requirements.
func usersOf(m *manifest.Manifest, p *packages.Package) users {
	args, fixed := afterProgram(m.Transport.Command, m.Transport.Args), afterProgram(p.Run.Command, p.Run.Args)
	if len(args) >= len(fixed) && slices.Equal(args[:len(fixed)], fixed) {
		args = args[len(fixed):]
	}
	return users{args: args, asks: m.Requires.Env, bins: m.Requires.Bins}
}

// afterProgram returns the words after the last one that names a file of the package.
func afterProgram(command string, words []string) []string {
	if strings.HasPrefix(command, packages.Root) {
		return words
	}
	for n, word := range slices.Backward(words) {
		if strings.HasPrefix(word, packages.Root) {
			return words[n+1:]
		}
	}
	return nil
}

// differences lists what another version of a package changes.
func differences(e *lock.Entry, p *packages.Package, before, after *manifest.Manifest) (lines []string) {
	lines = append(lines, fmt.Sprintf("%s: %s → %s", e.Source, e.Version, p.Version))
	lines = append(lines, partsChanged(e, p)...)
	if a, b := before.Transport.CommandLine(), after.Transport.CommandLine(); !slices.Equal(a, b) {
		lines = append(lines, "  runs: "+text.ShellLine(a)+" → "+text.ShellLine(b))
	}
	for _, name := range after.Requires.Env {
		if !slices.Contains(before.Requires.Env, name) {
			lines = append(lines, "  asks for "+name)
		}
	}
	return append(lines, "")
}

// partsChanged lists the parts that another version of a package adds, replaces and drops, and those whose install
// scripts did not run.
func partsChanged(e *lock.Entry, p *packages.Package) (lines []string) {
	was, is := map[string]string{}, map[string]string{}
	for _, part := range e.Parts {
		was[part.Path] = part.Name + " " + part.Version
	}
	for _, part := range p.Parts {
		is[part.Path] = part.Name + " " + part.Version
	}
	var changes []string
	for _, path := range slices.Sorted(maps.Keys(is)) {
		if was[path] == "" {
			changes = append(changes, "+ "+is[path])
		} else if was[path] != is[path] {
			changes = append(changes, was[path]+" → "+is[path])
		}
	}
	for _, path := range slices.Sorted(maps.Keys(was)) {
		if is[path] == "" {
			changes = append(changes, "- "+was[path])
		}
	}
	if len(changes) > 0 {
		lines = append(lines, "  packages: "+consent.Some(changes))
	}
	for _, name := range p.Held {
		lines = append(lines, "  has install scripts, which did not run: "+name)
	}
	return lines
}
