package exthost

import (
	"context"
	"maps"
	"slices"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/hooks"
	"github.com/exthost/exthost/protocol"
)

// roster is what a configuration and the search paths make of each other: which
// extensions may run, in order, and which may not. It is immutable.
type roster struct {
	cfg         *config.Config
	members     []governance.Member
	policy      *governance.Pipeline // of members
	officers    []*extension         // the processes of members
	extensions  map[string]*extension
	order       []string              // the ids of extensions as discovered
	bridged     map[string]*extension // the destinations, by name
	skipped     []discovery.Candidate // found, but may not run here
	diagnostics []protocol.Diagnostic // of files
	hooks       []hooks.Handler       // of the configuration
	dirs        []string              // that were searched
}

// has reports whether x is an extension or a policy's process of the roster.
func (r *roster) has(x *extension) bool {
	id := x.candidate.ID
	return r.extensions[id] == x || r.bridged[id] == x || slices.Contains(r.officers, x)
}

// worker returns the extension, destination or policy's process of that id; nil
// when there is none.
func (r *roster) worker(id string) *extension {
	if i := slices.IndexFunc(r.officers, func(x *extension) bool { return x.candidate.ID == id }); i >= 0 {
		return r.officers[i]
	}
	return r.target(id)
}

// target returns the extension or destination of that id; nil when there is none.
func (r *roster) target(id string) *extension {
	if x := r.extensions[id]; x != nil {
		return x
	}
	return r.bridged[id]
}

// everyone returns all that may have processes.
func (r *roster) everyone() []*extension {
	return slices.Concat(r.officers, r.inOrder(), r.destinations())
}

// destinations returns the destinations by name.
func (r *roster) destinations() (list []*extension) {
	for _, name := range slices.Sorted(maps.Keys(r.bridged)) {
		list = append(list, r.bridged[name])
	}
	return list
}

// inOrder returns the extensions as discovered.
func (r *roster) inOrder() []*extension {
	list := make([]*extension, len(r.order))
	for i, id := range r.order {
		list[i] = r.extensions[id]
	}
	return list
}

// discover makes a roster of cfg and of what is in its search paths; before is the
// one that it follows, nil for the first. What cannot run here is kept aside with
// its diagnostics.
func (h *Host) discover(ctx context.Context, cfg *config.Config, before *roster) (*roster, error) {
	r := &roster{cfg: cfg, extensions: make(map[string]*extension)}
	var known []governance.Member
	if before != nil {
		known = before.members
	}
	var err error
	if r.members, err = h.members(cfg, known); err != nil {
		return nil, err
	}
	if err := h.openResults(r); err != nil {
		return nil, err
	}
	r.officers = officers(r.members)
	if r.hooks, err = h.operatorHooks(cfg); err != nil {
		return nil, err
	}
	if cfg.Extensions.Enabled {
		if err := h.discoverExtensions(ctx, r); err != nil {
			return nil, err
		}
	}
	h.addDestinations(r)
	return r, nil
}

// discoverExtensions adds what is in the search paths to r.
func (h *Host) discoverExtensions(ctx context.Context, r *roster) error {
	cfg, e := r.cfg, r.cfg.Extensions
	found, err := discovery.Discover(ctx, discovery.Options{
		SearchPaths: e.SearchPaths, IgnoreDirs: e.IgnoreDirs, Disabled: e.Disabled, Allowlist: e.Allowlist,
		MaxDepth: e.MaxDepth, FollowLinks: e.FollowLinks,
	})
	if err != nil {
		return err
	}
	r.diagnostics, r.dirs = found.Diagnostics, found.Dirs
	first := h.hookSet(slices.Concat(h.opts.Hooks, r.hooks))
	for _, c := range found.Candidates {
		x, diags := h.newExtension(cfg, c)
		r.diagnostics = append(r.diagnostics, diags...)
		if x == nil {
			r.skipped = append(r.skipped, c)
			continue
		}
		x.admit = func(ctx context.Context) error { return h.admit(ctx, x, first) }
		r.extensions[c.ID] = x
		r.order = append(r.order, c.ID)
	}
	return nil
}

// adopt makes r what the host runs: the next generation is made of it.
func (h *Host) adopt(r *roster) {
	h.enlist(r)
	h.oversight.stats.keep(r.members)
	h.spill(r)
	var known []protocol.Diagnostic
	if g := h.gen.Load(); g != nil {
		known = g.diagnostics
	}
	for _, d := range r.diagnostics {
		if !slices.Contains(known, d) {
			h.logDiagnostic(d)
		}
	}
	h.succeed(r)
	h.rebridged()
}

// enlist notes that the extensions of r may have processes from now on.
func (h *Host) enlist(r *roster) {
	h.mu.Lock()
	for _, x := range r.everyone() {
		h.live[x] = struct{}{}
	}
	h.mu.Unlock()
	h.keepSecrets()
}

// keepSecrets tells the redactor what the processes of all extensions know.
func (h *Host) keepSecrets() {
	var secrets []string
	for _, x := range h.alive() {
		secrets = slices.Concat(secrets, x.secrets, x.shown())
		if x.bridge != nil {
			secrets = append(secrets, x.bridge.secrets()...)
		}
	}
	h.redactor.SetSecrets(secrets)
}
