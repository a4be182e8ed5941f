package exthost

import (
	"context"
	"errors"
	"log/slog"
	"os"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/hooks"
	"github.com/exthost/exthost/internal/journal"
	"github.com/exthost/exthost/internal/process"
	"github.com/exthost/exthost/internal/redact"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/tools"
)

// shutdownDeadline bounds Close, whatever the extensions do.
const shutdownDeadline = 5 * time.Second

// Options is the code side of a host; everything that comes from files is in
// [config.Config]. The zero value is usable.
type Options struct {
	// Logger receives everything the host and its extensions say. Default:
	// slog.Default().
	Logger *slog.Logger
	// Version is the host version that min_agent_version is held against and that
	// extensions are told. Default: [Version].
	Version string
	// StateDir is where extensions keep their private state. Default: exthost
	// below $XDG_STATE_HOME or ~/.local/state, apart for each working directory.
	StateDir string
	// Self is the program that command = "exthost" names. Default: this executable
	// when it is the exthost program, else the exthost on PATH, never an embedding
	// program, which would only start itself.
	Self string
	// Environ is the environment extensions are started from. Default: os.Environ().
	Environ []string
	// Policies are the embedding program's own policies.
	Policies []governance.Member
	// Hooks are the embedding program's own hook handlers.
	Hooks []hooks.Handler
	// Start says which extensions are started; the others are only looked at.
	// Default: all.
	Start func(id string) bool
	// StartLazy starts the lazy extensions as well, to see whether they can.
	StartLazy bool
	// Background makes Open return once the extensions are starting; Ready waits
	// for them. Default: Open returns when each has started or failed to.
	Background bool
}

// Host runs the extensions of one configuration. Its methods may be called by
// many goroutines at once.
type Host struct {
	cfg      *config.Config
	opts     Options
	log      *slog.Logger     // to Options.Logger and the journal
	redactor *redact.Redactor // of what extensions are given and nobody else may see
	journal  *journal.Journal
	// containment holds the processes of all extensions.
	containment *process.Containment
	openedAt    time.Time

	extensions map[string]*extension
	order      []string              // the ids of extensions as discovered
	skipped    []discovery.Candidate // found, but may not run here

	gen        atomic.Pointer[generation]
	rebuilding sync.Mutex    // one new generation at a time; taken before mu
	changed    chan struct{} // holds one token when a new generation is due
	announce   chan struct{} // holds one token when clients are to be told of other tools
	settled    chan struct{} // closed when every eager extension has started or failed

	stop     context.CancelFunc
	running  sync.WaitGroup // startAll and rebuildLoop
	stopping sync.Once

	mu          sync.Mutex            // guards what follows
	diagnostics []protocol.Diagnostic // of files and of starts

	offerDiagnostics []protocol.Diagnostic // of what extensions offer now
	sessions         map[*protocol.Session]struct{}
	subscriptions    subscriptions
	levels           map[*protocol.Session]int // the log level that a session wants, as its place in levels

	owners owners // of what is listed for all extensions together
}

// Open discovers the extensions of cfg, starts the eager ones in parallel and
// returns the host. An extension that is broken, gated or fails to start is in
// [Host.Status] with its reason and never fails Open, whose own errors are a
// configuration that asks for what this version cannot do, an unusable state
// directory and the end of ctx.
func Open(ctx context.Context, cfg *config.Config, o Options) (*Host, error) {
	if err := refuseUnsupported(cfg); err != nil {
		return nil, err
	}
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	kept, secrets := journal.New(), new(redact.Redactor)
	h := &Host{
		cfg: cfg, opts: o, stop: stop,
		redactor: secrets,
		log:      slog.New(secrets.Handler(slog.NewMultiHandler(o.Logger.Handler(), kept.Handler()))),
		journal:  kept, openedAt: time.Now(),
		containment: process.Contain(guardianProgram(o.Self)),
		changed:     make(chan struct{}, 1),
		announce:    make(chan struct{}, 1),
		settled:     make(chan struct{}),
		extensions:  make(map[string]*extension),
		sessions:    make(map[*protocol.Session]struct{}),

		subscriptions: make(subscriptions), levels: make(map[*protocol.Session]int),
	}
	if err := h.discover(ctx); err != nil {
		stop()
		return nil, err
	}
	h.rebuild()
	h.running.Go(func() { h.startAll(running) })
	h.running.Go(func() { h.rebuildLoop(running) })
	h.running.Go(func() { h.announceLoop(running) })
	if o.Background {
		return h, nil
	}
	if err := h.Ready(ctx); err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return h, nil
}

func (o Options) withDefaults() (Options, error) {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Version == "" {
		o.Version = Version()
	}
	if o.Self == "" {
		o.Self = ownProgram()
	}
	if o.Environ == nil {
		o.Environ = os.Environ()
	}
	if o.StateDir == "" {
		dir, err := DefaultStateDir()
		if err != nil {
			return o, protocol.Errorf(protocol.ConfigInvalid, "no place for the state of extensions: %w; set XDG_STATE_HOME", err)
		}
		o.StateDir = dir
	}
	return o, nil
}

func (o Options) starts(id string) bool { return o.Start == nil || o.Start(id) }

// discover fills the host's extensions from the search paths. What cannot run
// here is kept aside with its diagnostics.
func (h *Host) discover(ctx context.Context) error {
	if !h.cfg.Extensions.Enabled {
		return nil
	}
	e := h.cfg.Extensions
	found, err := discovery.Discover(ctx, discovery.Options{
		SearchPaths: e.SearchPaths, IgnoreDirs: e.IgnoreDirs, Disabled: e.Disabled, Allowlist: e.Allowlist,
		MaxDepth: e.MaxDepth, FollowLinks: e.FollowLinks,
	})
	if err != nil {
		return err
	}
	h.diagnostics = found.Diagnostics
	if e.Watch.Enabled {
		h.diagnostics = append(h.diagnostics, protocol.Diagnostic{Level: protocol.LevelWarn, Code: codeUnsupported,
			Message: "extensions.watch has no effect in this version", Hint: "restart the host after a change"})
	}
	var secrets []string
	for _, c := range found.Candidates {
		x, diags := h.newExtension(c)
		h.diagnostics = append(h.diagnostics, diags...)
		if x == nil {
			h.skipped = append(h.skipped, c)
			continue
		}
		h.extensions[c.ID] = x
		h.order = append(h.order, c.ID)
		secrets = append(secrets, x.secrets...)
	}
	h.redactor.Know(secrets)
	for _, d := range h.diagnostics {
		h.logDiagnostic(d)
	}
	return nil
}

// startAll starts the eager extensions, a bounded number at a time, and puts each
// into the catalog as it becomes ready.
func (h *Host) startAll(ctx context.Context) {
	defer close(h.settled)
	var wg sync.WaitGroup
	slots := make(chan struct{}, startsAtOnce)
	for _, id := range h.order {
		x := h.extensions[id]
		if x.lazy() && !h.opts.StartLazy || !h.opts.starts(id) {
			continue
		}
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if err := x.start(ctx); err != nil && protocol.KindOf(err) != protocol.ShuttingDown {
				h.report(startDiagnostic(x, err))
			}
		})
	}
	wg.Wait()
	h.rebuild()
}

// startsAtOnce bounds how many extensions start in parallel. A start is mostly
// waiting for a child, and a hung one must not hold up the others for long.
var startsAtOnce = 16 * goruntime.GOMAXPROCS(0)

// Ready waits until every eager extension has started or failed to. It returns
// ctx's error if that ends first; an ended ctx asks without waiting.
func (h *Host) Ready(ctx context.Context) error {
	if h.isSettled() {
		return nil
	}
	select {
	case <-h.settled:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Tools returns the current catalog. It is a snapshot: a later change of an
// extension makes a new one with a higher generation.
func (h *Host) Tools() *tools.Catalog { return h.gen.Load().catalog }

// Attach registers s for what the host tells its clients, such as changed tool
// lists, until ctx ends. It does not block.
func (h *Host) Attach(ctx context.Context, s *protocol.Session) error {
	h.mu.Lock()
	h.sessions[s] = struct{}{}
	h.mu.Unlock()
	context.AfterFunc(ctx, func() {
		h.mu.Lock()
		delete(h.sessions, s)
		delete(h.levels, s)
		idle := h.subscriptions.drop(s)
		h.mu.Unlock()
		unsubscribe(idle)
		h.endSession(s)
	})
	return nil
}

// endSession stops the instances that belonged to s alone. Those of stateless
// callers belong to nobody's session.
func (h *Host) endSession(s *protocol.Session) {
	if s.ID == "" {
		return
	}
	for _, x := range h.gen.Load().extensions {
		x.group.Release(sessionKey(s))
	}
}

// report keeps a diagnostic for status and logs it.
func (h *Host) report(d protocol.Diagnostic) {
	h.mu.Lock()
	known := slices.Contains(h.diagnostics, d)
	if !known {
		h.diagnostics = append(h.diagnostics, d)
	}
	h.mu.Unlock()
	if !known {
		h.logDiagnostic(d)
	}
}

// forget drops what was reported of an earlier start of x.
func (h *Host) forget(x *extension) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.diagnostics = slices.DeleteFunc(h.diagnostics, func(d protocol.Diagnostic) bool {
		return d.Extension == x.candidate.ID && strings.HasPrefix(d.Message, didNotStart)
	})
}

func (h *Host) logDiagnostic(d protocol.Diagnostic) {
	level := map[protocol.Level]slog.Level{
		protocol.LevelInfo: slog.LevelDebug, protocol.LevelWarn: slog.LevelWarn, protocol.LevelError: slog.LevelError,
	}[d.Level]
	log := h.log
	if d.Extension != "" {
		log = log.With("extension", d.Extension)
	}
	log.Log(context.Background(), level, d.String(), "code", d.Code)
}

// Close stops every extension and waits for them, at most 5 s: what still lives
// then has been killed. It is idempotent; calls in flight end with shutting_down
// or their own outcome.
func (h *Host) Close() error {
	var failed error
	h.stopping.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), shutdownDeadline)
		defer cancel()
		lastResort := time.AfterFunc(killAfter, h.kill)
		defer lastResort.Stop()
		var wg sync.WaitGroup
		errs := make([]error, len(h.order))
		for i, id := range h.order {
			wg.Go(func() { errs[i] = h.extensions[id].stop(ctx, hostDrain) })
		}
		wg.Wait()
		h.stop()
		h.running.Wait()
		h.containment.Close()
		h.journal.Close()
		failed = errors.Join(errs...)
	})
	return failed
}

const (
	hostDrain = time.Second             // what Close leaves to calls in flight
	killAfter = 4500 * time.Millisecond // when Close loses its patience with slow children
)

// kill ends every process of every extension at once.
func (h *Host) kill() {
	for _, x := range h.extensions {
		x.kill()
	}
}
