package trust

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/internal/host/given"
	"github.com/exthost/exthost/internal/host/permit"
	"github.com/exthost/exthost/internal/host/unit"
	"github.com/exthost/exthost/internal/listing/skills"
	"github.com/exthost/exthost/internal/proc/process"
	"github.com/exthost/exthost/internal/proc/sandbox"
	"github.com/exthost/exthost/internal/secret/secrets"
	"github.com/exthost/exthost/internal/supply/consent"
	"github.com/exthost/exthost/internal/supply/lock"
	"github.com/exthost/exthost/internal/text"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/manifest/agentplugin"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
	"github.com/exthost/exthost/status"
	"github.com/exthost/exthost/tools"
)

// Item is what the user agrees to with one yes: a folder with its extensions, or the configuration of the working
// directory.
type Item struct {
	Names   []string // ids, or [hosts.ThisDirectory]
	place   string   // the folder, or the configuration files
	runs    []string
	asks    []string
	rules   []string // changes of policies and hooks since they were trusted
	warns   []string // warnings of exthost validate about the policies
	verdict *consent.Verdict
	broken  error             // why the folder cannot be compared
	agreed  []consent.Trusted // what a yes accepts; nil for the configuration
	secrets []string          // secrets that are not granted yet
	paths   []string          // of manifests
	plugin  string            // the name of a plugin, which is one item with its servers and skills
	skills  []string          // that are valid, of a plugin

	locked *discovery.Candidate // runs a package, with another manifest than exthost.lock states; nil: none does
}

// Pending holds what the user does not trust yet.
type Pending struct {
	k       *consent.Consent
	locks   *lock.Packages // nil: the lock file is left as it is
	cfg     *config.Config
	Items   []*Item
	trusted int                   // number of extensions that may run
	links   []protocol.Diagnostic // links to extensions that are not followed
}

// Find compares the extensions and configuration of cfg with what the user trusts.
func Find(ctx context.Context, c *console.Console, cfg *config.Config, origins *config.Origins) (*Pending, error) {
	k, err := hosts.Consent(cfg)
	if err != nil || k == nil {
		return &Pending{}, err
	}
	locks, err := hosts.Packages(cfg)
	if err != nil {
		return nil, err
	}
	p := &Pending{k: k, locks: locks, cfg: cfg}
	v, err := hosts.Configuration(k, cfg)
	if err != nil {
		return nil, err
	}
	if v != nil && !v.Trusted() {
		i := configurationItem(cfg, origins, v)
		i.warns = policyWarnings(ctx, c, cfg)
		p.Items = append(p.Items, i)
	}
	if !cfg.Extensions.Enabled {
		return p, nil
	}
	found, err := discovery.Discover(ctx, cfg.Extensions.Discovery())
	if err != nil {
		return nil, err
	}
	folders := map[string]*Item{}
	for _, candidate := range found.Candidates {
		p.add(cfg, candidate, folders, false)
	}
	for _, d := range found.Diagnostics {
		if d.Code == discovery.CodeLinkSkipped {
			p.links = append(p.links, d)
		}
	}
	return p, nil
}

// policyWarnings returns the warnings of exthost validate about the policies of cfg.
func policyWarnings(ctx context.Context, c *console.Console, cfg *config.Config) (texts []string) {
	h, err := hosts.Look(ctx, c, cfg)
	if err != nil {
		return []string{protocol.Reason(err)}
	}
	defer h.Close()
	for _, d := range h.Status().Diagnostics {
		if d.Level != protocol.LevelInfo && strings.HasPrefix(d.Extension, status.PolicyPrefix) {
			texts = append(texts, d.String())
		}
	}
	return texts
}

// Folder returns what the extensions in a folder run and ask for, trusted or not.
func Folder(ctx context.Context, k *consent.Consent, cfg *config.Config, dir string) (*Pending, error) {
	p := &Pending{k: k}
	found, err := discovery.Discover(ctx,
		discovery.Options{SearchPaths: []string{dir}, Safe: cfg.Extensions.SafeDirectories})
	if err != nil {
		return nil, err
	}
	folders := map[string]*Item{}
	portable := len(found.Candidates) > 0
	for _, c := range found.Candidates {
		p.add(cfg, c, folders, true)
		portable = portable && c.Portable()
	}
	for _, d := range found.Diagnostics {
		if d.Level == protocol.LevelError && !portable { // a part of a plugin that is invalid leaves the others
			return nil, errors.New(d.String())
		}
	}
	for _, i := range p.Items {
		if err := i.comparable(); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// Staged returns what [Folder] returns about the files in dir, shown as what will lie in the folder to. A yes to it is
// recorded with the items of that folder, once the files are there.
func Staged(ctx context.Context, k *consent.Consent, cfg *config.Config, dir, to string) ([]*Item, error) {
	p, err := Folder(ctx, k, cfg, dir)
	if err != nil {
		return nil, err
	}
	for _, i := range p.Items {
		i.place = console.NearbyPath(to)
	}
	return p.Items, nil
}

// comparable returns why the folder cannot be compared, and so not be trusted; nil if it can.
func (i *Item) comparable() error {
	if i.broken == nil {
		return nil
	}
	return protocol.Errorf(protocol.Untrusted, "%s cannot be trusted: %w", i.place, i.broken)
}

// Digest returns the hash of the item's files.
func (i *Item) Digest() string { return i.verdict.Files.Digest() }

// add adds c to the item of its folder. It does not if c may run as it is, unless always is set.
func (p *Pending) add(cfg *config.Config, c discovery.Candidate, folders map[string]*Item, always bool) {
	v, err := p.k.Extension(&c)
	ungranted := permit.Ungranted(p.k, os.Environ(), cfg, &c)
	changed, failed := p.changed(&c)
	if !always && (err == nil && v.Trusted() || !permit.Asks(cfg, &c)) && ungranted == nil && !changed {
		p.trusted++
		return
	}
	i := folders[c.Dir]
	if i == nil {
		i = &Item{place: console.NearbyPath(c.Dir), verdict: v}
		folders[c.Dir], p.Items = i, append(p.Items, i)
		if c.Portable() {
			i.describePlugin(&c)
		}
		for _, s := range skills.Read(c.Dir).Skills {
			i.skills = append(i.skills, s.Name)
		}
	}
	i.broken = errors.Join(i.broken, err, failed)
	if i.secrets = append(i.secrets, ungranted...); !slices.Contains(i.Names, c.ID) {
		i.Names = append(i.Names, c.ID)
	}
	i.agreed = append(i.agreed, consent.Trusted{ID: c.ID, Verdict: v, Secrets: ungranted})
	if !slices.Contains(i.paths, c.Path) {
		i.paths = append(i.paths, c.Path)
	}
	if changed {
		i.locked = &c
	}
	i.describe(cfg, &c)
}

// changed reports whether c runs a package and has another manifest than the lock file states.
func (p *Pending) changed(c *discovery.Candidate) (bool, error) {
	if p.locks == nil {
		return false, nil
	}
	return p.locks.Changed(c)
}

// describePlugin adds the name of the plugin that c belongs to, and its files.
func (i *Item) describePlugin(c *discovery.Candidate) {
	i.plugin = c.Owner
	i.Names = append(i.Names, c.Owner)
	if len(c.OwnedBy.MCPServers) > 0 {
		i.paths = append(i.paths, filepath.Join(c.Dir, agentplugin.ServersName))
	}
}

// describe adds what c runs, connects to and asks for.
func (i *Item) describe(cfg *config.Config, c *discovery.Candidate) {
	m := c.Manifest
	defer func() { i.runs, i.asks = distinct(i.runs), distinct(i.asks) }()
	if argv := m.Transport.CommandLine(); m.Transport.URL != "" {
		i.asks = append(i.asks, "connects to "+m.Transport.URL)
	} else if m.Transport.Kind == manifest.KindNATS {
		i.asks = append(i.asks,
			"is a service on the NATS servers of this host: "+m.Transport.SubjectPrefix+"."+c.ID+".rpc")
	} else if len(argv) > 0 {
		i.runs = append(i.runs, line(argv))
	}
	for _, t := range m.Tools {
		if len(t.Command) > 0 {
			i.runs = append(i.runs, fmt.Sprintf("%s (tool %s)", line(t.Command), t.Name))
		}
	}
	for _, h := range m.Hooks {
		i.runs = append(i.runs, fmt.Sprintf("%s (hook %s)", line(h.Command), h.Event))
	}
	names := secretNames(m)
	for _, name := range given.Asked(cfg, c) {
		names = append(names, secrets.Scheme+name)
	}
	if len(names) > 0 {
		i.asks = append(i.asks, "gets the secrets "+strings.Join(names, ", "))
	}
	if i.locked != nil {
		i.asks = append(i.asks, "has another plugin.toml than exthost.lock states, which is written there then")
	}
	i.asks = append(i.asks, risks(cfg, c)...)
	i.describeSandbox(cfg, c)
	if len(m.Hooks) > 0 || m.Capabilities != nil && len(m.Capabilities.Hooks) > 0 {
		sees := map[string]string{
			config.HooksAll:  "the calls of all extensions",
			config.HooksNone: "nothing",
		}[cfg.Extensions.Entries[c.ID].Hooks]
		i.asks = append(i.asks, "its hooks see "+cmp.Or(sees, "the calls of its own tools"))
	}
}

// risks says what calls of the tools of c can do, as far as its manifest says it and the operator does not.
func risks(cfg *config.Config, c *discovery.Candidate) (lines []string) {
	said := make(map[string]protocol.Risk)
	for _, t := range runtime.Declared(c.Manifest) {
		said[t.Name] = tools.RiskOf(rawjson.Get(t.Raw, "annotations"))
	}
	for name, risk := range c.Manifest.Risk {
		if said[name] != protocol.RiskDestroy {
			said[name] = risk
		}
	}
	of := make(map[protocol.Risk][]string)
	for _, name := range slices.Sorted(maps.Keys(said)) {
		risk := cmp.Or(cfg.Extensions.Entries[c.ID].Tools[name].Risk, said[name])
		of[risk] = append(of[risk], name)
	}
	for _, line := range []struct {
		risk protocol.Risk
		says string
	}{
		{protocol.RiskDestroy, "tools that may delete or overwrite: "},
		{protocol.RiskWrite, "tools that may change something: "},
		{protocol.RiskRead, "tools that it says change nothing: "},
	} {
		if names := of[line.risk]; len(names) > 0 {
			lines = append(lines, line.says+consent.Some(names))
		}
	}
	return lines
}

// describeSandbox adds the sandbox of a process that c starts, and what this system does not enforce of it.
func (i *Item) describeSandbox(cfg *config.Config, c *discovery.Candidate) {
	m := c.Manifest
	table := cfg.Extensions.Entries[c.ID].Sandbox.Over(m.Sandbox, cfg.Extensions.Sandbox.Default,
		m.Transport.Command)
	if table == nil || m.Transport.URL != "" || m.Transport.Kind == manifest.KindNATS {
		return
	}
	i.asks = append(i.asks, "in a sandbox: "+strings.Join(table.Asks(), "; "))
	policy := &sandbox.Policy{
		Profile:    table.Profile,
		Read:       []string{c.Dir},
		Net:        table.Net,
		BestEffort: true,
	}
	spec := &runtime.Spec{Manifest: expanded(cfg, c), Dir: c.Dir}
	for _, path := range policy.Loads(spec.Manifest.Transport.CommandLine(), spec.WorkDir()) {
		i.asks = append(i.asks,
			"in its sandbox it also reads "+console.NearbyPath(path)+", which its command line names")
	}
	have, _ := process.Protect(policy, m.Runtime.Isolate == manifest.IsolatePID, nil)
	if len(have.Lacks) > 0 {
		i.asks = append(i.asks, "its sandbox is NOT enforced by this system: "+strings.Join(have.Lacks, "; "))
	}
}

// expanded returns the manifest of c with the values of the variables in its command line, as a start has them. With an
// unknown variable there is no start, and expanded returns the manifest as it is.
func expanded(cfg *config.Config, c *discovery.Candidate) *manifest.Manifest {
	m := *c.Manifest
	if m.Transport.Literal {
		m.Transport = agentplugin.Expand(m.Transport, c.Dir, filepath.Join(c.Dir, "data")) // both are its own
		return &m
	}
	if m.Transport.Protocol != manifest.ProtocolMCP {
		return &m
	}
	stated, host := cfg.Extensions.Environ(c.ID), process.Lookup(os.Environ())
	of, err := unit.ExpandVariables(&m, func(name string) (string, bool) {
		if value, ok := stated[name]; ok {
			return value, true
		}
		if name == lock.Variable { // its package, which is its own as well
			return c.Dir, true
		}
		return host(name)
	})
	if err != nil {
		return &m
	}
	return of
}

// distinct removes duplicates.
func distinct(list []string) (out []string) {
	for _, s := range list {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// secretNames returns the variables that a manifest requires and whose names look like secrets.
func secretNames(m *manifest.Manifest) []string {
	return slices.DeleteFunc(slices.Clone(m.Requires.Env), func(name string) bool {
		return !process.Withholds(name, os.Getenv(name))
	})
}

// configurationItem describes what the configuration of the working directory makes the host do: the programs it runs,
// and every other setting.
func configurationItem(cfg *config.Config, origins *config.Origins, v *consent.Verdict) *Item {
	i := &Item{Names: []string{hosts.ThisDirectory}, verdict: v}
	files := slices.Sorted(maps.Keys(cfg.Project.Files))
	i.paths = slices.Clone(files)
	for n := range files {
		files[n] = console.NearbyPath(files[n])
	}
	i.place = strings.Join(files, ", ")
	line := func(argv []string) string { // masks secrets: the output may be read by others
		words := make([]string, len(argv))
		for n := range argv {
			words[n] = cfg.Shown(argv[n])
		}
		return line(words)
	}
	for _, s := range cfg.Plugins {
		argv := s.Cmd
		if s.MCP != nil {
			argv = s.MCP.Cmd
			if s.MCP.URL != "" {
				i.asks = append(i.asks, fmt.Sprintf("sends calls to %s (policy %s)", cfg.Shown(s.MCP.URL), s.Name))
			}
		}
		if len(argv) > 0 {
			i.runs = append(i.runs, fmt.Sprintf("%s (policy %s)", line(argv), s.Name))
		}
	}
	for _, h := range cfg.Hooks {
		i.runs = append(i.runs, fmt.Sprintf("%s (hook %s)", line(h.Command), h.Event))
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Destinations)) {
		d := cfg.Destinations[name]
		if d.URL != "" {
			i.asks = append(i.asks, fmt.Sprintf("connects to %s (destination %s)", cfg.Shown(d.URL), name))
		} else {
			i.runs = append(i.runs, fmt.Sprintf("%s (destination %s)", line(d.Command), name))
		}
	}
	for _, s := range cfg.Settings(origins) {
		if ofFiles(s.Origin, i.paths) && (!described.MatchString(s.Key) || decides.MatchString(s.Key)) {
			i.asks = append(i.asks, fmt.Sprintf("sets %s: %v", s.Key, s.Value))
		}
	}
	if record := v.Record; record.Trusted != nil {
		i.rules = config.DiffRules(record.Rules, cfg.Rules())
	}
	if len(cfg.Variables) > 0 {
		i.asks = append(i.asks, "reads the variables "+strings.Join(cfg.Variables, ", "))
	}
	return i
}

// described matches settings that an item shows in other lines.
var described = regexp.MustCompile(`^(plugins|hooks)\[|^destinations\..*\.(command|url)$`)

// decides matches settings of policies that influence what their command lines run.
var decides = regexp.MustCompile(`^plugins\[\d+\]\.(mcp\.)?(env\.|cwd$)`)

// ofFiles reports whether an origin lies in one of the files.
func ofFiles(origin string, files []string) bool {
	return slices.ContainsFunc(files, func(f string) bool {
		return strings.HasPrefix(origin, f+":") || strings.HasPrefix(origin, console.NearbyPath(f)+":")
	})
}

// Select returns the items called names, or all items without names. A name that needs no yes is an error.
func (p *Pending) Select(names []string) ([]*Item, error) {
	if len(names) == 0 {
		return p.Items, nil
	}
	var list []*Item
	for _, name := range names {
		n := slices.IndexFunc(p.Items, func(i *Item) bool { return slices.Contains(i.Names, name) })
		if n < 0 {
			return nil, p.nothing(name)
		}
		if !slices.Contains(list, p.Items[n]) {
			list = append(list, p.Items[n])
		}
	}
	return list, nil
}

// nothing returns why nothing called name waits to be trusted.
func (p *Pending) nothing(name string) error {
	for _, d := range p.links {
		dir := hosts.Linked(d)
		if name == filepath.Base(dir) || filepath.Clean(name) == filepath.Clean(console.NearbyPath(dir)) {
			return hosts.NotFollowed(d)
		}
	}
	return &console.Error{
		Code: console.ExitNotFound,
		Text: "nothing of that name waits to be trusted: " + name,
		Hint: "exthost trust; exthost status shows what was found",
	}
}

// Accept records a yes to the items.
func (p *Pending) Accept(items []*Item) error {
	for _, i := range items {
		if err := i.comparable(); err != nil {
			return err
		}
		if i.agreed == nil {
			if err := hosts.AcceptConfiguration(p.k, p.cfg, i.verdict); err != nil {
				return unrecorded(err)
			}
			continue
		}
		if err := p.k.Store.Trust(i.agreed...); err != nil {
			return unrecorded(err)
		}
		if i.locked == nil {
			continue
		}
		if err := hosts.LockAgreed(p.cfg.Project.Dir, i.locked, i.verdict.Files); err != nil {
			return err
		}
	}
	return nil
}

// Undo takes back what [Pending.Accept] has recorded about extensions, see [consent.Store.Undo].
func (p *Pending) Undo() (err error) {
	for _, i := range p.Items {
		if i.agreed != nil && i.verdict != nil {
			err = errors.Join(err, p.k.Store.Undo(i.verdict))
		}
	}
	return err
}

// unrecorded adds the next step to the error of a record that cannot be written.
func unrecorded(err error) error {
	if _, ok := errors.AsType[*fs.PathError](err); !ok || file.IsFull(err) {
		return err
	}
	return &console.Error{
		Code:  console.ExitFailed,
		Text:  "what you agreed to cannot be recorded: " + err.Error(),
		Hint:  "let this user write there, or set XDG_STATE_HOME to another directory",
		Cause: err,
	}
}

// Discover finds the extensions of cfg.
func Discover(ctx context.Context, cfg *config.Config) ([]discovery.Candidate, error) {
	found, err := discovery.Discover(ctx, cfg.Extensions.Discovery())
	if err != nil {
		return nil, err
	}
	return found.Candidates, nil
}

// line renders a command line as a shell would accept it.
func line(argv []string) string { return console.NearbyText(text.ShellLine(argv)) }
