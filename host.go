package exthost

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/governance/quota"
	"github.com/exthost/exthost/hooks"
	"github.com/exthost/exthost/internal/concurrent"
	"github.com/exthost/exthost/internal/host/bridge"
	"github.com/exthost/exthost/internal/host/clients"
	"github.com/exthost/exthost/internal/host/dispatch"
	"github.com/exthost/exthost/internal/host/gateway"
	"github.com/exthost/exthost/internal/host/operations"
	"github.com/exthost/exthost/internal/host/permit"
	"github.com/exthost/exthost/internal/host/policies"
	"github.com/exthost/exthost/internal/host/remote"
	"github.com/exthost/exthost/internal/host/snapshot"
	"github.com/exthost/exthost/internal/host/starts"
	"github.com/exthost/exthost/internal/host/stats"
	"github.com/exthost/exthost/internal/host/unit"
	"github.com/exthost/exthost/internal/host/watch"
	"github.com/exthost/exthost/internal/listing/skills"
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
	env     *unit.Env      // shared by all units
	units   *unit.Registry // every unit that may have processes
	journal *journal.Journal
	life    life

	atOpen       *config.Config       // the sections of it that need a restart are in force
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

	rebuild  concurrent.Requests // build the next snapshot
	places   concurrent.Requests // take over the extensions that other nodes share
	announce concurrent.Requests // notify clients of changed tools
	restate  concurrent.Requests // tell other nodes of changed states

	running context.Context    // ends when every unit has stopped
	stop    context.CancelFunc // ends running
	closing context.Context    // ends when the host begins to close
	close   context.CancelFunc // ends closing
	beside  concurrent.Gate    // counts every goroutine of the host
	closed  sync.Once
}

// Open discovers the extensions of cfg, starts the eager ones in parallel and returns the host. It waits for the
// slowest: until each is ready or its first start has failed, which start_timeout of its manifest bounds (by default
// 10 s, 60 s for MCP servers, 120 s for those that npx and the like download first) and the handshake timeout of a
// policy's process (30 s). More than 16 for each processor start in turns. The end of ctx ends the wait and the host.
// With Mode.Background, Open does not wait.
//
// An extension that is broken, gated or fails to start never fails Open: [Host.Status] has the reason. Open fails
// without a configuration, on one that this version cannot carry out, on a policy or hook of o that cannot run, on a
// state directory that is unusable or of a newer version, and on the end of ctx. Its errors name all policies and hooks
// of o at fault.
func Open(ctx context.Context, cfg *config.Config, o Options) (*Host, error) {
	if cfg == nil {
		return nil, protocol.Errorf(protocol.ConfigInvalid,
			"a host needs a configuration, and got none: config.Load reads one, config.Default is one")
	}
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := o.claimState(); err != nil {
		return nil, err
	}
	h := newHost(context.WithoutCancel(ctx), o, cfg)
	counters, _ := o.Cluster.(quota.Source)
	h.policies, err = policies.Open(h.env, cfg, policies.Options{
		Kinds:   policies.Kinds(o.PolicyKinds),
		Members: o.Policies,
		Inspect: o.Mode.Inspect,
		Observe: o.Observe,
		Dashboard: func() string {
			if report := h.server.Load(); report != nil {
				return (*report)().Dashboard
			}
			return ""
		},
		Quota: counters,
		Events: func(id string) unit.Events {
			return unit.Events{State: func(e supervisor.Event) {
				h.stats.feed.State(id, e)
				h.reloads.started(id, e)
				if e.Kind == supervisor.StateChanged && e.State == supervisor.Ready {
					h.forgetDenials(strings.TrimPrefix(id, status.PolicyPrefix), e.Time)
				}
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
	l.beside.Go(func() { h.startAll(l.running, starting) })
	l.beside.Go(func() { l.rebuild.Serve(l.running, rebuildPause, func() { h.swap(nil) }) })
	l.beside.Go(func() {
		l.announce.Serve(l.running, announcePause, func() { h.gateway.NotifyToolsChanged(l.running) })
	})
	l.beside.Go(func() { h.hooks.events.Run(l.running) })
	l.beside.Go(func() {
		h.stats.history.Sample(l.closing, h.load, h.snapshots.Unused())
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
		Version: h.env.Version,
		Diagnostics: h.diagnostics.All(slices.Concat(now.Diagnostics, h.gateway.Diagnostics(),
			now.Policies.Diagnostics(), h.policies.Diagnostics())),
	}
	if trust := now.Config.Extensions.Trust; h.env.Permits.Consent != nil || trust == config.TrustOff {
		s.Trust = trust
	}
	s.Restart = snapshot.NeedRestart(h.atOpen, now.Config)
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
	s.Policies = h.policies.Status(now.Policies, s.Diagnostics)
	s.Audit = h.policies.AuditStatus()
	s.ApprovalRequests = len(h.policies.Approvals.List())
	s.Questions, s.Denials = h.stats.history.Questions(), h.stats.history.Denials(time.Now())
	for i := range s.Extensions {
		s.Extensions[i].Command = h.env.Redactor.Strings(s.Extensions[i].Command)
	}
	for i := range s.Destinations {
		s.Destinations[i].Command = h.env.Redactor.Strings(s.Destinations[i].Command)
	}
	s.Verdict = s.Judge(time.Now())
	return s
}

// forgetDenials ends what the status says about denials of a policy before the time at which it was changed, removed or
// started again. Later denials count anew.
func (h *Host) forgetDenials(policy string, at time.Time) {
	for _, u := range h.units.All() {
		u.Base().Calls.ForgetDenials(policy, at)
	}
	h.stats.history.ForgetDenials(policy, at)
}

// load returns the memory of the host and its processes in bytes, and the calls in flight and queued, as
// [status.Status.Load] does.
func (h *Host) load() (memory, busy int64) {
	now := h.snapshots.Load()
	s := status.Status{Host: &status.Host{RSS: process.Memory()}, Policies: h.policies.Status(now.Policies, nil)}
	now.Describe(&s)
	s.SetMemory(process.SessionMemory())
	return s.Load()
}

// newHost wires the parts of a host that the policies, extensions and fronts of cfg need.
func newHost(ctx context.Context, o Options, cfg *config.Config) *Host {
	h := &Host{opts: o, atOpen: cfg, journal: journal.New(), snapshots: new(snapshot.Store)}
	l := &h.life
	l.opened, l.starting = time.Now(), starts.NewStarting()
	l.rebuild, l.announce = concurrent.NewRequests(), concurrent.NewRequests()
	l.places, l.restate = concurrent.NewRequests(), concurrent.NewRequests()
	l.running, l.stop = context.WithCancel(ctx)
	l.closing, l.close = context.WithCancel(l.running)

	secrets := new(redact.Redactor)
	log := slog.New(secrets.Handler(slog.NewMultiHandler(o.Logger.Handler(), h.journal.Handler())))
	h.units, h.stats.history.Mask = unit.NewRegistry(secrets), secrets.Known // the history detects the other secrets
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
	h.remote = remote.New(h.env, o.Cluster,
		remote.Events(h.snapshots, func() *gateway.Gateway { return h.gateway }, h.stats.feed.State))
	h.gateway = gateway.New(gateway.Options{
		Snapshots: h.snapshots,
		Units:     h.units,
		Hooks:     h.hooks.events,
		Beside:    &l.beside,
		Closing:   l.closing,
		Ended: func(s *protocol.Session) {
			h.remote.EndSession(s)
			h.policies.Approvals.EndSession(s.ID)
		},
		Changed: l.rebuild.Add,
		Log:     log,
	})
	h.dispatcher = dispatch.New(dispatch.Options{
		Snapshots:  h.snapshots,
		Aggregator: h.gateway,
		History:    &h.stats.history,
		Feed:       &h.stats.feed,
		Tracer:     o.Tracer,
		Approves:   h.clients.Approves,
		Log:        log,
		Waits: &starts.Waits{
			Starting: l.starting,
			Until:    l.opened.Add(cfg.Server.ListWait.Std()),
			Lists:    gateway.Lists,
			Rebuild:  func() { h.swap(nil) },
			View:     func(s *protocol.Session) (*toolset.View, error) { return h.snapshots.Load().View(s) },
		},
	}, h.stages()...)
	h.gateway.Calls = h.dispatcher
	return h
}

// startAll starts the eager extensions, and adds each to the catalog as it becomes ready.
func (h *Host) startAll(ctx context.Context, list []unit.Runner) {
	for u, err := range unit.StartEach(ctx, list) {
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

// SkillFolder is the valid skills in the folder of one extension. It is immutable, and reads files on demand.
type SkillFolder = skills.Served

// Skills returns the skills in the folders of extensions, by the id of the extension, held ones too. The status says
// which are held.
func (h *Host) Skills() map[string]*SkillFolder { return maps.Clone(h.snapshots.Load().Skills) }

// Offered returns the tools that policies show to a caller, and the tools that policies hide from that caller. "" is
// an anonymous caller.
func (h *Host) Offered(caller string) (shown, hidden []*tools.Entry) {
	shown, hidden, _ = h.Toolsets().Offered("", caller)
	return shown, hidden
}

// Variables returns the names of the environment variables that the extensions and the configuration in force
// depend on, sorted.
func (h *Host) Variables() []string { return h.snapshots.Load().Variables() }

const (
	shutdownDeadline = 5 * time.Second // bounds Close, whatever the extensions do
	closeDrain       = time.Second     // for calls in flight
	killAfter        = 4 * time.Second // after the begin of Close: slow children are killed
)

// Close stops every extension and waits for them, at most 5 s; processes that still live by then have been
// killed. It is idempotent. Calls in flight end with shutting_down or with their own outcome. The error names
// what did not end in time. If the process ends without Close, its extensions on Linux are killed at once: they
// cannot save their state. What they have started is killed too, if [Options.Self] is the program exthost.
func (h *Host) Close() (err error) {
	h.life.closed.Do(func() { err = h.shutdown() })
	return err
}

func (h *Host) shutdown() error {
	h.life.close()
	ctx, cancel := context.WithTimeout(context.Background(), shutdownDeadline)
	defer cancel()
	lastResort := time.AfterFunc(killAfter, h.units.KillAll)
	defer lastResort.Stop()
	left := h.remote.Close(ctx, closeDrain)
	h.reloads.mu.Lock() // waits for a reload in progress, which life.close has canceled
	stopped := h.units.StopAll(ctx, closeDrain)
	h.policies.ClosePipeline(ctx, h.snapshots.Load().Policies.Pipeline)
	h.life.stop()
	idle := h.life.beside.Close()
	h.gateway.Sessions.Close()
	h.reloads.mu.Unlock() // the watch may wait for the lock; its context has ended
	h.hooks.commands.Close()
	var busy error
	select { // a notification runs the client's code, which may ignore its ctx
	case <-idle:
	case <-ctx.Done():
		busy = fmt.Errorf("the host is still at work; a client may not have returned from what it was told: %w",
			ctx.Err())
	}
	if !h.opts.Mode.Inspect { // saves pins of lists that are in no snapshot yet
		for _, d := range h.snapshots.Load().Policies.SavePins() {
			h.diagnostics.Write(d)
		}
	}
	err := errors.Join(left, stopped, busy, h.policies.Close(ctx))
	h.recording.Follow(recorder.Config{})
	h.env.Recorder.Close()
	h.env.Containment.Close()
	h.stats.feed.Close()
	h.journal.Close()
	h.env.Tap.Close()
	return err
}
