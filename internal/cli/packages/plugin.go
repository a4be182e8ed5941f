package packages

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/internal/cli/trust"
	"github.com/exthost/exthost/internal/listing/skills"
	"github.com/exthost/exthost/internal/supply/lock"
	"github.com/exthost/exthost/internal/supply/packages"
	"github.com/exthost/exthost/internal/supply/store"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/manifest/agentplugin"
)

// draftOf prepares a change of the package of a lock file entry, which may be a plugin.
func draftOf(c *console.Console, cfg *config.Config, id string, e lock.Entry) (*draft, error) {
	d, err := newDraft(c, cfg, id)
	if err != nil {
		return nil, err
	}
	s, err := hosts.PackageStore()
	if err != nil {
		return nil, err
	}
	tree, err := s.Path(e.Tree)
	if err != nil {
		return nil, err
	}
	for _, dir := range []string{d.dir, tree} {
		if packages.IsPlugin(dir) {
			d.store, d.portable = &s, packages.PluginFile(dir) == agentplugin.FileName
			break
		}
	}
	return d, nil
}

// addPlugin adds a package that is a plugin. Its files are copied into a folder of the search path with its name, once
// the user has agreed.
func (t *terms) addPlugin(ctx context.Context, c *console.Console, cfg *config.Config, s store.Store,
	p *packages.Package, source string, args []string) (err error) {
	d, err := t.pluginDraft(c, cfg, p, source, args)
	if err == nil {
		err = noTwin(ctx, cfg, p.Run.Plugin)
	}
	if err != nil {
		return errors.Join(err, release(c, p.Tree))
	}
	d.pkg, d.store = p, &s
	defer func() {
		if err != nil {
			err = errors.Join(err, d.undo())
		}
	}()
	tree, err := s.Path(p.Tree)
	if err != nil {
		return err
	}
	describe(c, p, nil)
	tellInvalid(c, p.Run, tree)
	if err := tellData(c, d.id, p.Run.Plugin.Manifest.Portable); err != nil {
		return err
	}
	if err := d.askAndPlace(ctx, "", t.yes, "exthost add "+source+" --yes"); err != nil {
		return err
	}
	if err := d.try(ctx, t.yes); err != nil {
		return err
	}
	return hosts.Apply(ctx, c, cfg, "added "+d.id+": "+console.NearbyPath(d.dir)+" and exthost.lock; commit both")
}

// pluginDraft returns the draft of a new plugin. It refuses what a plugin cannot be given, and a folder that is in use
// by more than what an exthost add has left that was killed.
func (t *terms) pluginDraft(c *console.Console, cfg *config.Config, p *packages.Package, source string, args []string,
) (*draft, error) {
	name := p.Run.Plugin.Identity.Name
	switch {
	case t.id != "" && t.id != name:
		return nil, console.Usagef("exthost add "+source+" --id "+name,
			"it is a plugin, and its plugin.json names it %s, not %s", name, t.id)
	case len(args) > 0 || len(t.env) > 0:
		return nil, console.Usagef("exthost add "+source,
			"it is a plugin, whose mcp.json states the arguments of its servers; extensions.entries.%s.env gives them "+
				"variables", name)
	}
	d, err := newDraft(c, cfg, name)
	if err == nil {
		err = d.absent()
	}
	if err != nil {
		return nil, err
	}
	if entries, err := os.ReadDir(d.dir); err == nil && len(entries) > 0 {
		return nil, &console.Error{
			Code: console.ExitFailed,
			Text: fmt.Sprintf("the plugin's folder %s is not empty, and all that is in it would be part of the plugin",
				console.NearbyPath(d.dir)),
			Hint: "move it away",
		}
	}
	if from := p.Source; from.Kind == packages.Folder {
		rel, err := filepath.Rel(filepath.Join(cfg.Project.Dir, filepath.FromSlash(from.Name)), d.dir)
		if err == nil && filepath.IsLocal(rel) {
			return nil, console.Usagef("", "%s would be copied into itself, %s; exthost trust runs a plugin where it "+
				"is", from.Name, console.NearbyPath(d.dir))
		}
	}
	return d, nil
}

// noTwin returns an error if an extension in the search paths has the name of a new plugin or an id of its servers.
// Neither of the two would run.
func noTwin(ctx context.Context, cfg *config.Config, p *agentplugin.Plugin) error {
	ids := []string{p.Identity.Name, agentplugin.PluginID(p.Identity.Name)}
	for _, s := range p.Servers {
		ids = append(ids, s.ID)
	}
	found, err := discovery.Discover(ctx, cfg.Extensions.Discovery())
	if err != nil {
		return err
	}
	for _, c := range append(found.Candidates, found.Conflicting...) {
		if slices.Contains(ids, c.ID) || slices.Contains(ids, c.Owner) {
			return &console.Error{
				Code: console.ExitFailed,
				Text: console.Safe(fmt.Sprintf("there is an extension %s: %s", c.ID, console.NearbyPath(c.Dir))),
				Hint: "move it away; two of one id do not run",
			}
		}
	}
	return nil
}

// tellInvalid prints which parts of a plugin are not used. dir holds its files.
func tellInvalid(c *console.Console, r packages.Run, dir string) {
	for _, note := range r.Notes {
		c.Tell(console.Safe("  " + note))
	}
	for _, s := range r.Plugin.Servers {
		if !s.Valid {
			c.Tell(console.Safe(fmt.Sprintf("  the server %q is not used: %s", s.Name, s.Reason)))
		}
	}
	found := skills.Read(dir)
	if found.Err != nil {
		c.Tell(console.Safe(fmt.Sprintf("  no skill is used: %v", found.Err)))
	}
	invalid := slices.DeleteFunc(found.Reports, func(s skills.Report) bool { return s.Valid })
	for n, s := range invalid {
		if n == maxInvalid {
			c.Tell(fmt.Sprintf("  %d more skills are not used; exthost skills list names them", len(invalid)-n))
			break
		}
		c.Tell(console.Safe(fmt.Sprintf("  the skill %q is not used: %s", s.Name, s.Reason)))
	}
}

// maxInvalid bounds the skills that are named because they are not used.
const maxInvalid = 5

// askAndPlace asks the user about the files of the plugin in the store, copies them into its folder, in place of those
// of the tree before, and writes the lock file.
func (d *draft) askAndPlace(ctx context.Context, before string, yes bool, next string) error {
	tree, err := d.store.Path(d.pkg.Tree)
	if err != nil {
		return err
	}
	d.k.Package = func(*discovery.Candidate) (string, error) { return d.pkg.Tree, nil }
	staged, err := trust.Staged(ctx, d.k, d.cfg, tree, d.dir)
	if err != nil {
		return err
	}
	if len(staged) != 1 {
		return &console.Error{
			Code: console.ExitInvalid,
			Text: d.id + " has nothing that could run",
			Hint: "exthost validate, on its folder, says why",
		}
	}
	if err := d.ask(ctx, staged, yes, next); err != nil {
		return err
	}
	if err := remember(d.cfg); err != nil {
		return err
	}
	left, err := d.place(before)
	if err != nil {
		return err
	}
	if err := d.recordable(); err != nil {
		return err
	}
	if d.asked, err = trust.Folder(ctx, d.k, d.cfg, d.dir); err != nil {
		return err
	}
	if len(d.asked.Items) != 1 {
		return fmt.Errorf("%s holds no plugin", d.dir)
	}
	if d.asked.Items[0].Digest() != staged[0].Digest() {
		tellLeft(d.c, "beside those of the package, and part of what you agree to", store.Left{Dir: d.dir, Files: left})
		if err := d.ask(ctx, d.asked.Items, yes, next); err != nil {
			return err
		}
	}
	sum, m, err := readPlugin(d.dir)
	if err != nil {
		return err
	}
	d.state(sum, m)
	return d.accept()
}

// readPlugin returns the hash of a plugin's plugin.json, and its manifest.
func readPlugin(dir string) (sum string, m *manifest.Manifest, err error) {
	data, err := os.ReadFile(filepath.Join(dir, packages.PluginFile(dir)))
	if err != nil {
		return "", nil, err
	}
	p := packages.ReadPlugin(dir)
	if p.Manifest == nil {
		return "", nil, fmt.Errorf("%s: the plugin is rejected", dir)
	}
	return lock.Sum(data), p.Manifest, nil
}

// inTheWay adds the next step to the error of files that are not replaced.
func inTheWay(err error) error {
	if _, ok := errors.AsType[store.InTheWay](err); !ok {
		return err
	}
	return &console.Error{Code: console.ExitFailed, Text: console.Safe(err.Error()), Hint: "move it away", Cause: err}
}

// place copies the plugin's files into its folder, in place of those of the tree before, and returns the names of the
// files that are of neither.
func (d *draft) place(before string) (left []string, err error) {
	if left, err = d.store.Exchange(d.dir, before, d.pkg.Tree); err != nil {
		return nil, inTheWay(err)
	}
	d.placed = true
	return left, nil
}

// displace puts the plugin's folder back into the state before [draft.place]. Without its files there, those of the
// user may be the same as some of the package, and stay.
func (d *draft) displace() error {
	if !d.placed {
		return d.store.Withdraw(d.dir) // takes back what an exchange did that failed in the middle
	}
	before := ""
	if d.entry != nil {
		before = d.entry.Tree
	}
	_, err := d.store.Exchange(d.dir, d.pkg.Tree, before)
	return err
}

// upgradePlugin replaces a plugin by the one of p, after a yes.
func (t *terms) upgradePlugin(ctx context.Context, d *draft, p *packages.Package) (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, d.undo())
		}
	}()
	if err := d.store.Withdraw(d.dir); err != nil {
		return err
	}
	if err := d.replaceable(p); err != nil {
		return err
	}
	tree, err := d.store.Path(p.Tree)
	if err != nil {
		return err
	}
	lines := append([]string{fmt.Sprintf("%s: %s → %s", d.entry.Source, d.entry.Version, p.Version)},
		partsChanged(d.entry, p)...)
	for _, line := range append(lines, pluginChanges(d.dir, tree)...) {
		d.c.Tell(console.Safe(line))
	}
	tellInvalid(d.c, p.Run, tree)
	if err := d.askAndPlace(ctx, d.entry.Tree, t.yes, "exthost upgrade "+d.id+" --yes"); err != nil {
		return err
	}
	if err := d.try(ctx, t.yes); err != nil {
		return err
	}
	did := fmt.Sprintf("upgraded %s: %s → %s; commit %s and exthost.lock", d.id, d.entry.Version, p.Version,
		console.NearbyPath(d.dir))
	if err := hosts.Apply(ctx, d.c, d.stated, did); err != nil {
		return err
	}
	return release(d.c, d.entry.Tree)
}

// replaceable returns an error if p is another plugin than that of the draft, or the folder is not what exthost.lock
// states.
func (d *draft) replaceable(p *packages.Package) error {
	remedy := "exthost remove " + d.id + "; exthost add " + d.entry.Source
	switch {
	case p.Run.Plugin == nil:
		return &console.Error{
			Code: console.ExitFailed,
			Text: console.Safe(p.Source.String() + " is no plugin any more"),
			Hint: remedy,
		}
	case p.Run.Plugin.Identity.Name != d.id:
		return &console.Error{
			Code: console.ExitDenied,
			Text: console.Safe(fmt.Sprintf("its plugin.json names it %s now, and it was added as %s: that is another "+
				"plugin, which would not have the data of this one", p.Run.Plugin.Identity.Name, d.id)),
			Hint: remedy,
		}
	}
	if err := d.store.VerifyCopy(d.entry.Tree, d.dir); err != nil {
		return &console.Error{
			Code:  console.ExitDenied,
			Text:  console.Safe(err.Error()),
			Hint:  "exthost add --locked " + d.id + ", which restores what is missing",
			Cause: err,
		}
	}
	return d.store.Keep(d.entry.Tree, d.dir) // to put it back
}

// restorePlugin copies the plugin of a lock file entry from the store into its folder.
func (d *draft) restorePlugin(s *store.Store, e lock.Entry) error {
	_, err := s.Exchange(d.dir, "", e.Tree)
	return inTheWay(err)
}
