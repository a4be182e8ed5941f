package packages

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/internal/cli/trust"
	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/internal/host/policies"
	"github.com/exthost/exthost/internal/listing/skills"
	"github.com/exthost/exthost/internal/supply/consent"
	"github.com/exthost/exthost/internal/supply/lock"
	"github.com/exthost/exthost/internal/supply/packages"
	"github.com/exthost/exthost/internal/supply/store"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/manifest/agentplugin"
	"github.com/exthost/exthost/status"
	"github.com/exthost/exthost/supervisor"
)

// draft is a change of one extension that runs a package. It holds the previous state, to restore it unless the user
// agrees and the extension starts.
type draft struct {
	c       *console.Console
	cfg     *config.Config // with extensions.trust = "ask"
	stated  *config.Config // the configuration as loaded
	k       *consent.Consent
	id, dir string
	root    bool // the search path did not exist before
	locked  bool // the lock file existed before

	entry *lock.Entry // the previous entry; nil: none
	next  lock.Entry
	text  []byte // previous text of plugin.toml
	pkg   *packages.Package
	asked *trust.Pending

	store    *store.Store // of a plugin, which the folder has a copy of; nil: plugin.toml runs a program
	portable bool         // the plugin is one of Agent Plugins, and not translated
	placed   bool         // the plugin's files are in the folder

	carried []store.Copy // data files taken over from the previous version
}

// newDraft prepares a change of extension id in the first search path; id may be the name of a plugin.
func newDraft(c *console.Console, cfg *config.Config, id string) (*draft, error) {
	if err := manifest.ValidateID(id); err != nil && agentplugin.ValidateName(id) != nil {
		return nil, console.Usagef("exthost add SOURCE --id ID", "%v", err)
	}
	if len(cfg.Extensions.SearchPaths) == 0 {
		return nil, console.Usagef("", "extensions.search_paths is empty, so that there is no place for an extension")
	}
	d := &draft{c: c, stated: cfg, id: id, dir: filepath.Join(cfg.Extensions.SearchPaths[0], id)}
	if err := file.CheckBelow(cfg.Project.Dir, filepath.Join(d.dir, manifest.FileName)); err != nil {
		return nil, console.Usagef("", "exthost.lock states what lies in its directory: %v", err)
	}
	ask := *cfg
	ask.Extensions.Trust = config.TrustAsk
	d.cfg = &ask
	var err error
	if d.k, err = hosts.Consent(d.cfg); err != nil {
		return nil, err
	}
	_, err = os.Lstat(filepath.Join(cfg.Project.Dir, lock.FileName))
	d.locked = err == nil
	_, err = os.Lstat(cfg.Extensions.SearchPaths[0])
	d.root = errors.Is(err, fs.ErrNotExist)
	return d, nil
}

// absent returns an error if the id is in use. An id whose folder has no manifest is not in use: the files in the
// folder belong to the user, or to a package that was removed, and they stay. Files of a plugin that a killed command
// has left are taken back first.
func (d *draft) absent() error {
	f, err := readLock(d.cfg)
	if err != nil {
		return err
	}
	s, err := hosts.PackageStore()
	if err == nil {
		err = s.Withdraw(d.dir)
	}
	if err != nil {
		return err
	}
	_, err = os.Lstat(filepath.Join(d.dir, manifest.FileName))
	_, locked := f.Lookup(d.id)
	plugin := packages.IsPlugin(d.dir)
	if !locked && !plugin && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	hint := "exthost upgrade " + d.id
	switch {
	case plugin && !locked:
		hint = "exthost trust " + d.id + ", which runs it where it lies"
	case !locked: // the user's own folder, or one that was copied there
		hint = "exthost trust " + d.id + ", which runs that one; or --id with another name for this one"
	case !plugin:
		hint += "; or --id with another one"
	}
	return &console.Error{
		Code: console.ExitFailed,
		Text: fmt.Sprintf("there is an extension %s: %s", d.id, console.NearbyPath(d.dir)),
		Hint: hint,
	}
}

// write writes the extension. It cannot run before it is trusted, or with extensions.trust = "lock" before it is in the
// lock file.
func (d *draft) write(ctx context.Context, p *packages.Package, text []byte) error {
	d.pkg = p
	if err := remember(d.cfg); err != nil {
		return err
	}
	if err := os.MkdirAll(d.dir, 0o755); err != nil {
		return err
	}
	if err := file.WriteAtomic(filepath.Join(d.dir, manifest.FileName), text); err != nil {
		return err
	}
	if err := d.recordable(); err != nil {
		return err
	}
	d.k.Package = func(*discovery.Candidate) (string, error) { return p.Tree, nil }
	var err error
	if d.asked, err = trust.Folder(ctx, d.k, d.cfg, d.dir); err != nil {
		return err
	}
	if len(d.asked.Items) != 1 {
		return fmt.Errorf("%s holds no extension", d.dir)
	}
	m, diags := manifest.Parse(filepath.Join(d.dir, manifest.FileName), text)
	if m == nil {
		return fmt.Errorf("%v", diags)
	}
	d.state(lock.Sum(text), m)
	return nil
}

// recordable returns an error if the record of trust cannot be read, which a yes would be added to.
func (d *draft) recordable() error {
	real, err := filepath.EvalSymlinks(d.dir)
	if err == nil {
		_, err = d.k.Store.Of(real, consent.Extension)
	}
	return err
}

// state sets the next entry of the lock file, of the package whose manifest is m.
func (d *draft) state(sum string, m *manifest.Manifest) {
	p := d.pkg
	d.next = lock.Entry{
		Source:     p.Source.String(),
		Program:    p.Source.Program,
		Version:    p.Version,
		Tree:       p.Tree,
		Parts:      p.Parts,
		Scripts:    p.Scripts,
		Manifest:   sum,
		Files:      d.asked.Items[0].Digest(),
		Command:    lock.CommandSum(m),
		Approved:   time.Now().UTC().Format(time.RFC3339),
		ApprovedBy: hosts.Operator(),
	}
}

// agree asks the user unless yes is set, and then writes the entry in the lock file.
func (d *draft) agree(ctx context.Context, yes bool, next string) error {
	if err := d.ask(ctx, d.asked.Items, yes, next); err != nil {
		return err
	}
	return d.accept()
}

// ask asks the user about items unless yes is set.
func (d *draft) ask(ctx context.Context, items []*trust.Item, yes bool, next string) error {
	refused := &console.Error{Code: console.ExitDenied, Text: "not agreed to; nothing is left of it"}
	unasked := &console.Error{
		Code: console.ExitDenied,
		Text: "this needs an answer, and there is no terminal; nothing was written",
		Hint: next,
	}
	return trust.Agree(ctx, d.c, items, yes, refused, unasked)
}

// accept records the user's yes, and writes the entry in the lock file.
func (d *draft) accept() error {
	if err := d.asked.Accept(d.asked.Items); err != nil {
		return err
	}
	f, unlock, err := changeLock(d.cfg)
	if err != nil {
		return err
	}
	defer unlock()
	f.Extensions[d.id] = d.next
	return f.Write(d.cfg.Project.Dir)
}

// undo reverts the change.
func (d *draft) undo() (err error) {
	if d.pkg == nil {
		return nil
	}
	switch {
	case d.store != nil:
		err = d.displace()
	case d.text != nil:
		err = file.WriteAtomic(filepath.Join(d.dir, manifest.FileName), d.text)
	default:
		_, err = removeFolder(d.dir)
	}
	if d.text == nil && d.root {
		_ = os.Remove(filepath.Dir(d.dir)) // fails if there is more in it by now
	}
	if d.asked != nil {
		err = errors.Join(err, d.asked.Undo())
	}
	return errors.Join(err, d.unlock(), release(d.c, d.pkg.Tree, d.carried...))
}

// removeFolder removes what exthost add wrote into the folder of an extension, and the folder itself if that leaves it
// empty. It returns the names of the files that are left.
func removeFolder(dir string) (left []string, err error) {
	if err := os.Remove(filepath.Join(dir, manifest.FileName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case len(entries) == 0:
		return nil, os.Remove(dir)
	}
	for _, e := range entries {
		left = append(left, e.Name())
	}
	return left, nil
}

// lockTools writes the hashes of the extension's tools into the lock file.
func (d *draft) lockTools(hashes map[string]string) error {
	f, unlock, err := changeLock(d.cfg)
	if err != nil {
		return err
	}
	defer unlock()
	e := f.Extensions[d.id]
	e.Tools = hashes
	f.Extensions[d.id] = e
	return f.Write(d.cfg.Project.Dir)
}

// unlock removes the entry from the lock file, or restores the previous one.
func (d *draft) unlock() error {
	f, unlock, err := changeLock(d.cfg)
	if err != nil {
		return err
	}
	defer unlock()
	if delete(f.Extensions, d.id); d.entry != nil {
		f.Extensions[d.id] = *d.entry
	}
	if !d.locked && len(f.Extensions) == 0 && f.Configuration == "" {
		// the file may not be written yet
		if err := os.Remove(filepath.Join(d.cfg.Project.Dir, lock.FileName)); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	return f.Write(d.cfg.Project.Dir)
}

func readLock(cfg *config.Config) (*lock.File, error) {
	f, err := lock.Read(cfg.Project.Dir)
	return f, unusableLock(err)
}

// changeLock is readLock for a change. No other process can change the file until unlock is called.
func changeLock(cfg *config.Config) (f *lock.File, unlock func(), err error) {
	f, unlock, err = lock.Edit(cfg.Project.Dir)
	return f, unlock, unusableLock(err)
}

func unusableLock(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, lock.ErrBusy) {
		return &console.Error{Code: console.ExitFailed, Text: err.Error(), Hint: "the same command again"}
	}
	return &console.Error{
		Code: console.ExitInvalid,
		Text: err.Error(),
		Hint: "mend it, or take it from the repository again",
	}
}

// remember adds the working directory to the list of directories whose lock files name packages.
func remember(cfg *config.Config) error {
	u, err := hosts.PackageUses()
	if err != nil {
		return err
	}
	return u.Add(cfg.Project.Dir)
}

// release removes a package that is no longer used, and prints which of its files stay.
func release(c *console.Console, tree string, copies ...store.Copy) error {
	u, err := hosts.PackageUses()
	if err != nil {
		return err
	}
	left, err := u.Release(tree, copies...)
	tellLeft(c, "kept, because its program wrote them and not exthost", left)
	return err
}

// tellLeft prints which files the store has kept, where, and why.
func tellLeft(c *console.Console, why string, left store.Left) {
	if len(left.Files) > 0 {
		c.Tell(console.Safe(fmt.Sprintf("%s, %s: %s; in %s, which nothing but you deletes",
			console.Plural(len(left.Files), "file"), why, consent.Some(left.Files), left.Dir)))
	}
}

// try starts the extension once, lists its tools and locks their hashes. If this machine lacks a requirement of the
// extension, try only prints that. yes accepts changed tools without a question.
func (d *draft) try(ctx context.Context, yes bool) (err error) {
	servers := d.servers()
	own := slices.Clone(servers)
	if d.store != nil { // its skills and hooks
		own = append(own, agentplugin.PluginID(d.id))
	}
	h, err := hosts.Open(ctx, d.c, d.stated,
		exthost.Options{
			Start: func(id string) bool { return slices.Contains(own, id) },
			Mode:  exthost.Mode{Inspect: true, StartLazy: true},
		})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	s := h.Status()
	var ready []string
	var failed []status.Extension
	found := false
	for _, x := range s.Extensions {
		if !slices.Contains(own, x.ID) {
			continue
		}
		found = true
		switch x.State {
		case string(supervisor.Ready):
			if slices.Contains(servers, x.ID) {
				ready = append(ready, x.ID)
			}
		case status.StateSkipped, status.StateDisabled:
			d.c.Tell(console.Safe(d.prefix(x.ID) + "not started: " + x.Reason +
				strings.TrimSuffix("; "+hosts.Remedy(s, x), "; ")))
		default:
			failed = append(failed, x)
		}
	}
	if !found {
		return &console.Error{
			Code: console.ExitFailed,
			Text: d.id + " was not found, so that nothing is left of it",
			Hint: "exthost check; extensions.disabled, extensions.allowlist and another extension of that id are " +
				"the usual reasons",
		}
	}
	if err := d.failed(failed, len(ready)); err != nil || len(ready) == 0 {
		return err
	}
	d.c.Tell("it offers:")
	hashes := map[string]string{}
	for _, e := range h.Tools().Entries() {
		if slices.Contains(ready, e.Extension) {
			d.c.Tell(console.Safe(fmt.Sprintf("  %s  %s", e.Name,
				console.Cut(hosts.Description(e.Description, e.Extension), 100))))
			hashes[e.Extension+"/"+e.Tool] = policies.HashTool(e.Raw)
		}
	}
	for _, id := range ready {
		if err := d.acceptTools(ctx, h, id, yes); err != nil {
			return err
		}
	}
	return d.lockTools(hashes)
}

// servers returns the ids of what the extension runs: of a plugin those of its servers.
func (d *draft) servers() (ids []string) {
	if d.store == nil {
		return []string{d.id}
	}
	for _, s := range packages.ReadPlugin(d.dir).Servers {
		ids = append(ids, s.ID)
	}
	return ids
}

// prefix begins a line about one server of a plugin.
func (d *draft) prefix(id string) string {
	if d.store == nil {
		return ""
	}
	return id + ": "
}

// failed returns the error of extensions that did not start. Servers of a plugin that did not start are named, and
// leave the others, the skills and the hooks.
func (d *draft) failed(list []status.Extension, ready int) error {
	if len(list) == 0 {
		return nil
	}
	said := func(x status.Extension, what string) string {
		return strings.Join(append([]string{fmt.Sprintf("%s did not start%s: %s", x.ID, what,
			cmp.Or(x.Reason, x.State))}, console.LastWords(hosts.Evidence(x))...), "\n")
	}
	if d.store != nil && (ready > 0 || d.hasMore()) {
		for _, x := range list {
			d.c.Tell(console.SafeText(said(x, "")))
		}
		return nil
	}
	x := list[0]
	left := ", and nothing is left of it"
	if d.pkg == nil { // the extension existed before
		left = ""
	}
	hint := "arguments of the program follow --, variables are named with --env"
	switch {
	case slices.Contains([]string{manifest.KindHTTP, manifest.KindSSE}, x.Transport): // the reason says what to do
		hint = "the same command again, once its server answers"
	case d.store != nil:
		hint = "extensions.entries." + x.ID + ".env gives it variables; exthost validate lists what it states"
	}
	return &console.Error{Code: console.ExitExtension, Text: console.SafeText(said(x, left)), Hint: hint}
}

// hasMore reports whether a plugin has skills, or hooks that see more than the calls of its own tools.
func (d *draft) hasMore() bool {
	m := packages.ReadPlugin(d.dir).Manifest
	hooked := m != nil && slices.ContainsFunc(m.Hooks, func(h manifest.HookSpec) bool {
		return !slices.Contains([]manifest.HookEvent{manifest.BeforeToolCall, manifest.AfterToolCall,
			manifest.ToolCallFailed}, manifest.HookEvent(h.Event))
	})
	return hooked || len(skills.Read(d.dir).Skills) > 0
}

// acceptTools shows how the tools of one extension differ from those that the user accepted last, and accepts them
// after a yes.
func (d *draft) acceptTools(ctx context.Context, h *exthost.Host, id string, yes bool) error {
	var digests []string
	for _, p := range h.Admin().Pins() {
		if p.Extension == id && p.Digest != "" {
			if digests == nil {
				d.c.Tell(d.prefix(id) + "what it says of itself differs from what you accepted before:")
			}
			digests = append(digests, p.Digest)
			for line := range strings.Lines(p.Diff) {
				d.c.Tell("  " + console.Safe(strings.TrimSpace(line)))
			}
		}
	}
	if digests == nil {
		return nil
	}
	if !yes && !d.c.Interactive() {
		return &console.Error{
			Code: console.ExitDenied,
			Text: "this needs an answer, and there is no terminal; nothing was changed",
			Hint: "exthost upgrade " + d.id + " --yes",
		}
	}
	if !yes {
		if yes, err := d.c.Yes(ctx); err != nil {
			return err
		} else if !yes {
			return &console.Error{Code: console.ExitDenied, Text: "not agreed to; nothing was changed"}
		}
	}
	return h.Admin().AcceptTools(status.Selection{Extension: id, Digests: digests}, hosts.Operator())
}
