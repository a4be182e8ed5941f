package exthost

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/governance/quota"
	"github.com/exthost/exthost/hooks"
	"github.com/exthost/exthost/internal/concurrent/coalesce"
	"github.com/exthost/exthost/internal/concurrent/inflight"
	"github.com/exthost/exthost/internal/host/bridge"
	"github.com/exthost/exthost/internal/host/clients"
	"github.com/exthost/exthost/internal/host/dispatch"
	"github.com/exthost/exthost/internal/host/elicit"
	"github.com/exthost/exthost/internal/host/gateway"
	"github.com/exthost/exthost/internal/host/operations"
	"github.com/exthost/exthost/internal/host/permit"
	"github.com/exthost/exthost/internal/host/policies"
	"github.com/exthost/exthost/internal/host/remote"
	"github.com/exthost/exthost/internal/host/snapshot"
	"github.com/exthost/exthost/internal/host/starts"
	"github.com/exthost/exthost/internal/host/stats"
	"github.com/exthost/exthost/internal/host/unit"
	"github.com/exthost/exthost/internal/host/units"
	"github.com/exthost/exthost/internal/host/watch"
	"github.com/exthost/exthost/internal/listing/toolset"
	"github.com/exthost/exthost/internal/observe/journal"
	"github.com/exthost/exthost/internal/observe/wiretap"
	"github.com/exthost/exthost/internal/proc/process"
	"github.com/exthost/exthost/internal/recording/recorder"
	"github.com/exthost/exthost/internal/text/diagnostics"
	"github.com/exthost/exthost/internal/text/redact"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
	"github.com/exthost/exthost/supervisor"
	"github.com/exthost/exthost/tools"
)

// Host runs the extensions of one configuration. It is safe for concurrent use.
type Host struct {
	opts    Options
	env     *unit.Env       // shared by all units
	units   *units.Registry // every unit that may have processes
	journal *journal.Journal
	life    life

	snapshots    *snapshot.Store      // what is in force
	dispatcher   *dispatch.Dispatcher // carries calls
	gateway      *gateway.Gateway     // serves MCP clients
	clients      *clients.Directory   // named clients
	policies     *policies.State
	destinations *bridge.Directory
	remote       *remote.Directory // extensions of other nodes
	nodes        *operations.Nodes // operations on all nodes of the cluster
	hooks        hookSets
	watch        *watch.Watch
	logins       elicit.Logins // asked of callers
	recording    recorder.Configured
	reloads      reloads

	server atomic.Pointer[func() status.Server] // the server in front of the host; nil: none

	diagnostics *diagnostics.Log
	stats       struct {
		history stats.History
		feed    stats.Feed
	}
}

// life holds the host's own goroutines, from Open to Close.
type life struct {
	opened   time.Time
	starting *starts.Starting // units that start with the host

	rebuild  coalesce.Requests // build the next snapshot
	places   coalesce.Requests // take over what other nodes share
	announce coalesce.Requests // notify clients of changed tools
	restate  coalesce.Requests // tell other nodes of changed states

	running context.Context    // ends when every unit has stopped
	stop    context.CancelFunc // ends running
	closing context.Context    // ends when the host begins to close
	close   context.CancelFunc // ends closing
	beside  inflight.Gate      // counts every goroutine of the host
	closed  sync.Once
}

// Open discovers the extensions of cfg, starts the eager ones in parallel and returns the host. An extension that
// is broken, gated or fails to start never fails Open: [Host.Status] has the reason. Open fails on a
// configuration that this version cannot carry out, on an unusable state directory and on the end of ctx.
func Open(ctx context.Context, cfg *config.Config, o Options) (*Host, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	h := newHost(context.WithoutCancel(ctx), o, cfg.Server.ListWait.Std())
	counters, _ := o.Cluster.(quota.Source)
	h.policies, err = policies.Open(h.env, cfg, policies.Options{
		Kinds:   policies.Kinds(o.PolicyKinds),
		Members: o.Policies,
		Inspect: o.Mode.Inspect,
		Observe: o.Observe,
		Quota:   counters,
		Events: func(id string) unit.Events {
			return unit.Events{State: func(e supervisor.Event) {
				h.stats.feed.State(id, e)
				h.reloads.started(id, e)
			}}
		},
	})
	if err != nil {
		h.life.stop()
		return nil, err
	}
	h.hooks.approvals = h.policies.Approvals
	h.nodes.Begin(operations.Options{
		Local: operations.Local{
			State:     h.policies,
			Snapshots: h.snapshots,
			Reloads:   &h.reloads,
			Status:    h.Status,
			Enables:   o.Disable,
			Log:       h.env.Log,
		},
		Self:     h.env.Node,
		Cluster:  o.Cluster,
		Calls:    h,
		Sessions: h.gateway.Sessions,
	})
	plan, err := h.discover(ctx, cfg, nil)
	if err != nil {
		h.life.stop()
		return nil, errors.Join(err, h.policies.Close(ctx))
	}
	h.reloads.setPlaces(plan, plan)
	h.reloads.seen = plan.Sum()
	l := &h.life
	h.clients.Set(cfg.Server.Clients)
	h.adopt(plan)
	starting := o.toStart(plan.Units())
	l.starting.Begin(starting)
	l.beside.Go(func() { h.watch.Run(l.closing) })
	if plan.Exhausted() != nil {
		h.watch.Retry()
	}
	l.beside.Go(func() { startAll(l.running, h, starting) })
	l.beside.Go(func() { l.rebuild.Serve(l.running, rebuildPause, func() { h.swap(nil) }) })
	l.beside.Go(func() {
		l.announce.Serve(l.running, announcePause, func() { h.gateway.NotifyToolsChanged(l.running) })
	})
	l.beside.Go(func() { h.hooks.events.Run(l.running) })
	l.beside.Go(func() {
		h.stats.history.Sample(l.closing, func() (memory, busy int64) { return load(h) }, h.snapshots.Unused())
	})
	l.beside.Go(func() { l.places.Serve(l.running, placesPause, h.reloads.followPlaces) })
	l.beside.Go(func() { h.nodes.Run(l.closing) })
	l.beside.Go(func() { l.restate.Serve(l.running, restatePause, func() { h.snapshots.Hold(h.remote.Restate) }) })
	if err := h.remote.Open(ctx, &remote.Host{
		Calls:     h,
		Snapshots: h.snapshots,
		Gateway:   h.gateway,
		Directory: h.remote,
		Nodes:     h.nodes,
		Changed:   l.places.Add,
	}); err != nil {
		return nil, errors.Join(err, h.Close())
	}
	if o.Mode.Background {
		return h, nil
	}
	if err := h.Ready(ctx); err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return h, nil
}

// Status returns the state of the host. It does not ask the operating system; see [Admin.Status].
func (h *Host) Status() status.Status {
	now := h.snapshots.Load()
	s := status.Status{
		Version:     h.env.Version,
		Diagnostics: h.diagnostics.All(slices.Concat(now.Diagnostics, h.gateway.Diagnostics())),
	}
	if trust := now.Config.Extensions.Trust; h.env.Permits.Consent != nil || trust == config.TrustOff {
		s.Trust = trust
	}
	s.Starting, s.Required = !h.life.starting.IsDone(), now.Config.Extensions.Required()
	s.Containment.Holds, s.Containment.Lacks = h.env.Containment.Report()
	now.Describe(&s)
	s.Cluster = h.remote.Status()
	if h.opts.Tracer != nil {
		s.Tracing = h.opts.Tracer.Report()
	}
	for _, r := range h.env.Recorder.Describe() {
		s.Recordings = append(s.Recordings, status.Recording(r))
	}
	if report := h.server.Load(); report != nil {
		server := (*report)()
		s.Server, s.Diagnostics = &server, append(s.Diagnostics, server.Diagnostics(time.Now())...)
	}
	s.Policies, s.Audit, s.ApprovalRequests = h.policies.Status(now.Policies,
		s.Diagnostics), h.policies.AuditStatus(), len(h.policies.Approvals.List())
	s.Questions = h.stats.history.Questions()
	return s
}

// load returns the memory and CPU time that the host's processes use now, see [status.Status.Load].
func load(h *Host) (memory, busy int64) {
	now := h.snapshots.Load()
	s := status.Status{Host: &status.Host{RSS: process.Memory()}, Policies: h.policies.Status(now.Policies, nil)}
	now.Describe(&s)
	s.SetMemory(process.SessionMemory())
	return s.Load()
}

// newHost wires the parts of a host that need no configuration.
func newHost(ctx context.Context, o Options, listWait time.Duration) *Host {
	h := &Host{opts: o, journal: journal.New(), snapshots: new(snapshot.Store)}
	l := &h.life
	l.opened, l.starting = time.Now(), starts.NewStarting()
	l.rebuild, l.announce, l.places, l.restate = coalesce.New(), coalesce.New(), coalesce.New(), coalesce.New()
	l.running, l.stop = context.WithCancel(ctx)
	l.closing, l.close = context.WithCancel(l.running)

	secrets := new(redact.Redactor)
	log := slog.New(secrets.Handler(slog.NewMultiHandler(o.Logger.Handler(), h.journal.Handler())))
	h.units, h.stats.history.Mask = units.NewRegistry(secrets), secrets.Known // finds detectable secrets itself
	h.env = &unit.Env{
		Log:            log,
		Containment:    process.Contain(guardianProgram(o.Self)),
		StateDir:       o.StateDir,
		Self:           o.Self,
		Version:        o.Version,
		Environ:        o.Environ,
		Permits:        permit.Rules{Consent: o.Consent, Packages: o.Packages},
		Redactor:       secrets,
		Tap:            wiretap.New(secrets.String),
		Recorder:       recorder.New(o.Version, secrets),
		SecretsChanged: h.units.RefreshSecrets,
		Command:        o.Mode.Command,
		StartLazy:      o.Mode.StartLazy,
		Stored:         o.Secrets,
		Logins:         o.Logins,
		Services:       o.Services,
	}
	h.env.Containment.Log = log
	if o.Cluster != nil {
		h.env.Node = o.Cluster.Status().Node
	}
	h.clients = clients.New(l.running, o.Reread, l.rebuild.Add, log)
	h.diagnostics, h.reloads.h, h.nodes = diagnostics.New(log), h, operations.New()
	h.recording.Hub, h.recording.Log, h.recording.Report = h.env.Recorder, log, h.diagnostics.Add
	h.destinations = bridge.NewDirectory(l.closing)
	h.hooks = hookSets{
		own:      o.Hooks,
		env:      h.env,
		counters: &h.stats.history.Counters,
		commands: hooks.NewRunner(hooks.RunnerOptions{
			Containment: h.env.Containment,
			Logger:      log,
			Redact:      secrets.String,
		}),
		events: dispatch.NewHookEvents(l.closing, h.snapshots, &l.beside, h.env),
	}
	h.watch = watch.New(&h.reloads, log)
	h.logins.Log, h.logins.Closing = log, l.closing
	h.remote = remote.New(h.env, o.Cluster,
		remote.Events(h.snapshots, func() *gateway.Gateway { return h.gateway }, h.stats.feed.State))
	h.gateway = gateway.New(gateway.Options{
		Snapshots: h.snapshots,
		Units:     h.units,
		Hooks:     h.hooks.events,
		Beside:    &l.beside,
		Closing:   l.closing,
		Asks:      h.logins.Asks,
		Ended:     h.remote.EndSession,
		Changed:   l.rebuild.Add,
		Log:       log,
	})
	h.dispatcher = dispatch.New(dispatch.Options{
		Snapshots:  h.snapshots,
		Aggregator: h.gateway,
		History:    &h.stats.history,
		Feed:       &h.stats.feed,
		Tracer:     o.Tracer,
		Log:        log,
		Waits: &starts.Waits{
			Starting: l.starting,
			Until:    l.opened.Add(listWait),
			Lists:    gateway.Lists,
			Rebuild:  func() { h.swap(nil) },
			View:     func(s *protocol.Session) (*toolset.View, error) { return h.snapshots.Load().View(s) },
		},
	}, h.stages()...)
	h.gateway.Calls = h.dispatcher
	return h
}

// discover makes a plan of cfg and its search paths. before is the previous plan, nil for the first.
func (h *Host) discover(ctx context.Context, cfg *config.Config, before *snapshot.Plan) (*snapshot.Plan, error) {
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
		if err := h.discoverExtensions(ctx, p); err != nil {
			return nil, err
		}
	}
	p.InjectFaults(before)
	p.AddDestinations(func(name string, d config.Destination) *bridge.Destination {
		return bridge.New(h.env, cfg, name, d, h.destinationEvents)
	})
	return p, nil
}

// discoverExtensions adds the extensions in the search paths to p.
func (h *Host) discoverExtensions(ctx context.Context, p *snapshot.Plan) error {
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
	}
	return nil
}

// extensionEvents returns the callbacks of x. first holds the hooks that decide about its start before x is in a
// snapshot.
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

// startAll starts the eager extensions, and adds each to the catalog as it becomes ready.
func startAll(ctx context.Context, h *Host, list []unit.Runner) {
	for u, err := range units.StartEach(ctx, list) {
		if err != nil && protocol.KindOf(err) != protocol.ShuttingDown {
			h.reloads.notStartedYet(u, err)
		}
		h.life.starting.Decided(u)
		h.life.rebuild.Add()
	}
	h.swap(nil)
}

// Ready waits until every eager extension has started or failed, or returns ctx's error if that ends first. With
// an ended ctx it does not wait.
func (h *Host) Ready(ctx context.Context) error {
	select {
	case <-h.life.starting.Done():
		return nil
	default:
	}
	select {
	case <-h.life.starting.Done():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Tools returns the current catalog. When extensions change, a new catalog with a higher generation replaces it.
func (h *Host) Tools() *tools.Catalog { return h.snapshots.Load().Catalog }

// Offered returns the tools that policies show to a caller and those that they hide from it. "" is an anonymous
// caller.
func (h *Host) Offered(caller string) (shown, hidden []*tools.Entry) {
	shown, hidden, _ = h.Toolsets().Offered("", caller)
	return shown, hidden
}
