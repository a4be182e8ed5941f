package exthost

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/hooks"
	"github.com/exthost/exthost/internal/host/bridge"
	"github.com/exthost/exthost/internal/host/dispatch"
	"github.com/exthost/exthost/internal/host/policies"
	"github.com/exthost/exthost/internal/host/snapshot"
	"github.com/exthost/exthost/internal/host/stats"
	"github.com/exthost/exthost/internal/host/unit"
	"github.com/exthost/exthost/internal/listing/toolset"
	"github.com/exthost/exthost/internal/proc/process"
	"github.com/exthost/exthost/internal/recording/recorder"
	"github.com/exthost/exthost/internal/text/diagnostics"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
	"github.com/exthost/exthost/supervisor"
	"github.com/exthost/exthost/tools"
)

// discover makes a plan of cfg and its search paths. before is the previous plan, nil for the first.
func (h *Host) discover(ctx context.Context, cfg *config.Config, before *snapshot.Plan) (*snapshot.Plan, error) {
	if err := checkToolsets(cfg); err != nil {
		return nil, err
	}
	p := &snapshot.Plan{Config: cfg, Extensions: make(map[string]*unit.Extension)}
	var known *policies.Set
	if before != nil {
		known = before.Policies
	}
	var err error
	if p.Policies, err = h.policies.NewSet(cfg, known); err != nil {
		return nil, err
	}
	if p.Hooks, err = h.hooks.operator(cfg); err != nil {
		return nil, err
	}
	if cfg.Extensions.Enabled {
		if err := h.discoverExtensions(ctx, p, before); err != nil {
			return nil, err
		}
	}
	p.InjectFaults(before)
	p.AddDestinations(func(name string, d config.Destination) *bridge.Destination {
		return bridge.New(h.env, cfg, name, d, h.destinationEvents)
	})
	return p, nil
}

// checkToolsets returns the error for toolsets that cannot be used. Those of files were checked when they were read,
// those of a program were not: one that cannot be carried out would show what it is to hide.
func checkToolsets(cfg *config.Config) error {
	var problems []string
	for _, p := range toolset.Check(cfg.Toolsets, nil) {
		problems = append(problems, strings.TrimSuffix(p.Key+": "+p.Message+": "+p.Hint, ": "))
	}
	if problems == nil {
		return nil
	}
	return protocol.Errorf(protocol.ConfigInvalid, "%s", strings.Join(problems, "; "))
}

// discoverExtensions adds the extensions in the search paths to p. before is the previous plan, nil for the first.
func (h *Host) discoverExtensions(ctx context.Context, p, before *snapshot.Plan) error {
	found, err := discovery.Discover(ctx, p.Config.Extensions.Discovery())
	if err != nil {
		return err
	}
	p.Diagnostics, p.Dirs, p.Skipped = found.Diagnostics, found.Dirs, found.Conflicting
	first := h.hooks.set(slices.Concat(h.hooks.own, p.Hooks))
	for _, c := range found.Candidates {
		x, diags := unit.NewExtension(h.env, p.Config, c, h.hooks.commands,
			func(x *unit.Extension) unit.Events { return h.extensionEvents(x, first) })
		p.Diagnostics = append(p.Diagnostics, diags...)
		if x == nil {
			p.Skipped = append(p.Skipped, c)
			continue
		}
		p.Extensions[c.ID] = x
		p.Order = append(p.Order, c.ID)
		p.AddSkills(&c, before)
	}
	return nil
}

// extensionEvents returns the callbacks of x. first holds the hooks that decide about the start of x while x is in no
// snapshot yet.
func (h *Host) extensionEvents(x *unit.Extension, first *hooks.Set) unit.Events {
	return unit.Events{
		Admit:     func(ctx context.Context) error { return h.hooks.events.Admit(ctx, x, first) },
		Described: func(i *unit.Instance, announced bool) { h.extensionDescribed(x, i, announced) },
		Ready:     h.gateway.Resume,
		Incoming:  h.gateway.Incoming,
		Session:   h.gateway.Sessions.ByKey,
		Relayed:   h.gateway.Clients.Relayed,
		State: func(e supervisor.Event) {
			h.stats.feed.State(x.ID(), e)
			h.reloads.started(x.ID(), e)
			h.hooks.events.StateChanged(x.ID(), e)
			h.life.restate.Add()
		},
	}
}

// destinationEvents returns the callbacks of d.
func (h *Host) destinationEvents(d *bridge.Destination) unit.Events {
	return unit.Events{
		Described: func(i *unit.Instance, announced bool) { h.destinationDescribed(d, i, announced) },
		Ready:     h.gateway.Resume,
		Incoming:  h.gateway.Incoming,
		Session:   h.gateway.Sessions.ByKey,
		Relayed:   h.gateway.Clients.Relayed,
		State: func(e supervisor.Event) {
			h.stats.feed.State(d.ID(), e)
			h.reloads.started(d.ID(), e)
		},
	}
}

// adopt puts a plan in force.
func (h *Host) adopt(p *snapshot.Plan) {
	h.policies.Install(p.Policies)
	if !h.opts.Mode.Inspect {
		h.env.PruneDescriptors(p.Extensions)
		record := p.Config.Record
		h.recording.Follow(recorder.Config{
			File:       record.File,
			Within:     record.Within,
			Extensions: record.Extensions,
			MaxBytes:   int64(record.MaxBytes),
			Keep:       record.Keep,
		})
	}
	var known []protocol.Diagnostic
	if now := h.snapshots.Load(); now != nil {
		known = now.Diagnostics
	}
	h.diagnostics.WriteNew(p.Diagnostics, known)
	h.followPlaces(p)
	h.units.Add(p.Units())
	h.swap(p)
	h.destinations.Replace(p.Destinations)
}

// followPlaces gives p the extensions that other nodes share now.
func (h *Host) followPlaces(p *snapshot.Plan) {
	shared := h.remote.Follow(p.Extensions, func(id string) bool { return p.Destinations[id] != nil })
	p.Remote, p.Replicas, p.Reserved = shared.Alone, shared.Replicas, shared.Reserved
	p.LeftOut = diagnostics.Capped(shared.Diagnostics, maxLeftOut)
}

// maxLeftOut bounds the diagnostics about shared extensions that are left out.
const maxLeftOut = 100

// swap makes the next snapshot from the current descriptors of the extensions of p, or of the current plan if p
// is nil. If the list of tools changed, clients are notified.
func (h *Host) swap(p *snapshot.Plan) {
	defer h.life.starting.BeforeSnapshot()()
	var otherSkills []string
	otherTools := h.snapshots.Replace(p,
		func(next *snapshot.Snapshot, number uint64, before *snapshot.Snapshot) (published func()) {
			var last *tools.Catalog
			if before != nil {
				last, otherSkills = before.Catalog, next.OtherSkills(before.Plan)
			}
			catalog, diags := next.Plan.Catalog(number, last, h.clients.Names())
			if !h.opts.Mode.Inspect {
				diags = append(diags, next.Policies.SavePins()...)
			}
			declared, found := next.Plan.DeclaredNow(nil)
			next.Catalog, next.Hooks, next.Declared = catalog, h.hooks.of(next), declared
			diags = slices.Concat(diags, found, next.SetToolsets(before))
			next.SetIndexes(before)
			return func() {
				h.diagnostics.SetDescriptors(diags)
				h.remote.Offer(next)
				h.stats.feed.Send(status.Event{
					Kind:  status.EventTools,
					Tools: &status.ToolsEvent{Generation: number, Count: len(catalog.Entries())},
				})
			}
		})
	if otherTools {
		h.life.announce.Add()
	}
	for _, id := range otherSkills {
		if target := h.snapshots.Load().Target(id); target != nil {
			h.gateway.NotifyListed(target.Base(), nil, protocol.MethodResourcesListChanged)
		}
	}
}

// Pauses that let changes share one snapshot or one notification. Clients answer a notification by requesting all
// tools.
const (
	rebuildPause  = 5 * time.Millisecond
	placesPause   = 250 * time.Millisecond // before extensions of other nodes are taken over
	restatePause  = 100 * time.Millisecond // before other nodes are told of changed states
	announcePause = 100 * time.Millisecond
)

// extensionDescribed handles the handshake of an instance or, if announced is set, a later change of the instance's
// tools. It stores the descriptors for the next start, and requests a new snapshot.
func (h *Host) extensionDescribed(x *unit.Extension, i *unit.Instance, announced bool) {
	h.snapshots.Load().Policies.Pin(i)
	if i.InLegacyGroup() { // the descriptors of such instances are not stored
		h.life.rebuild.Add()
		return
	}
	x.Remember(i, announced)
	h.life.rebuild.Add()
}

// destinationDescribed handles the handshake of an instance of d or, if announced is set, a later change of the
// instance's tools. After a handshake it starts the standby for the next connection. It sends a change to the
// instance's session.
func (h *Host) destinationDescribed(d *bridge.Destination, i *unit.Instance, announced bool) {
	h.snapshots.Load().Policies.Pin(i)
	h.life.rebuild.Add()
	if announced {
		h.gateway.NotifyListed(i.Unit, i, protocol.MethodToolsListChanged)
		return
	}
	h.life.beside.Go(func() { d.Refill(h.life.closing) })
}

// hookSets builds the hooks of each snapshot and runs them for agent loops.
type hookSets struct {
	own       []hooks.Handler // of the embedding program
	env       *unit.Env
	counters  *stats.Counters
	approvals governance.Approver
	commands  *hooks.Runner
	events    *dispatch.HookEvents // outside of calls
}

// of returns the hooks of s: the embedding program's, then the configuration's, then the extensions' in the order
// of discovery.
func (k *hookSets) of(s *snapshot.Snapshot) *hooks.Set {
	all := slices.Concat(k.own, s.Plan.Hooks)
	owner := func(x *unit.Extension) string { return cmp.Or(x.Candidate.Owner, x.ID()) }
	members := map[string][]string{} // ids by the id of the manifest that states them
	for x := range s.Ordered {
		members[owner(x)] = append(members[owner(x)], x.ID())
	}
	for x := range s.Ordered {
		sees := s.Config.Extensions.Entries[x.ID()].Hooks
		if sees == config.HooksNone {
			continue
		}
		for _, handler := range slices.Concat(x.Commands, dispatch.ExtensionHooks(s, x)) {
			handler.Own, handler.Servers = sees != config.HooksAll, members[owner(x)]
			all = append(all, handler)
		}
	}
	return k.set(all)
}

func (k *hookSets) set(all []hooks.Handler) *hooks.Set {
	return hooks.NewSet(hooks.Options{Observe: k.ran, Approver: dispatch.Approver{To: k.approvals}}, all...)
}

// ran counts one run of a handler and logs its failure.
func (k *hookSets) ran(e *hooks.Event, s hooks.Step) {
	k.counters.Hook(e, s)
	if s.Err == nil {
		return
	}
	log := k.env.Log
	if s.Extension != "" {
		log = log.With("extension", s.Extension)
	}
	log.Warn("hook failed", "hook", s.Handler, "event", string(e.Point), "tool", e.Tool, "took", s.Took, "error", s.Err)
}

// operator resolves the hook commands of cfg.
func (k *hookSets) operator(cfg *config.Config) ([]hooks.Handler, error) {
	dir, err := os.Getwd()
	if err != nil || len(cfg.Hooks) == 0 {
		return nil, err
	}
	set := map[string]string{"PWD": dir, "CLAUDE_PROJECT_DIR": dir, "EXTHOST_VERSION": k.env.Version}
	k.env.KeepCaches(set, filepath.Join(k.env.StateDir, ".hooks"))
	env, _ := process.Environ(k.env.Environ,
		process.EnvPolicy{Mode: cfg.Extensions.Env.Mode, Pass: cfg.Extensions.Env.Pass, Set: set})
	all := make([]hooks.Handler, len(cfg.Hooks))
	for i := range cfg.Hooks {
		spec := &cfg.Hooks[i]
		all[i], err = k.commands.Handler(hooks.Command{
			Handler: unit.HookHandler(spec, i),
			Argv:    spec.Command,
			Dir:     dir,
			Env:     env,
			Permit:  k.env.Permits.Configured(cfg, &manifest.Transport{Cmd: spec.Command}),
		})
		if err != nil {
			return nil, protocol.Errorf(protocol.ConfigInvalid, "hooks[%d], of %s: %w", i, spec.Event, err)
		}
	}
	return all, nil
}
