package exthost

import (
	"context"
	"crypto/sha256"
	"errors"
	"iter"
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
	"github.com/exthost/exthost/internal/wiretap"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/tools"
)

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
	// PolicyKinds make the policies of the configuration whose code the library does
	// not link by itself: `builtin: cel` and `kind: grpc`. Default: neither.
	PolicyKinds PolicyKinds
	// Hooks are the embedding program's own hook handlers.
	Hooks []hooks.Handler
	// Start says which extensions are started; the others are only looked at.
	// Default: all.
	Start func(id string) bool
	// StartLazy starts those that start on demand as well, to see whether they can.
	StartLazy bool
	// Inspect opens the host to look at what there is: it makes no calls, and records
	// and pins nothing, so that it may be open beside the host that does.
	Inspect bool
	// Observe is told of each decision of a policy, by the goroutine that waits for
	// it: it must be quick.
	Observe func(governance.Observation)
	// Reread reads the configuration again for a reload; its error leaves everything
	// as it is. Default: the configuration stays the one that the host was opened with.
	Reread func() (*config.Config, error)
	// Disable writes into the configuration, for good, that an extension is disabled or
	// is not; Reread reads it. It may be called by many goroutines at once. Default: it
	// cannot be changed.
	Disable func(id string, disabled bool) error
	// Command says what is run in place of an extension's own command line, which it
	// is given, when its transport is stdio. Default: the command line itself.
	Command func(id string, argv []string) []string
	// OnReload is told of every reload, by the goroutine that has just ended it.
	// It must not take long, nor close the host. Default: nobody is told.
	OnReload func(Reloaded)
	// Background makes Open return once the extensions are starting; Ready waits
	// for them. Default: Open returns when each has started or failed to.
	Background bool
}

// Host runs the extensions of one configuration. Its methods may be called by
// many goroutines at once.
type Host struct {
	opts     Options
	log      *slog.Logger     // to Options.Logger and the journal
	redactor *redact.Redactor // of what extensions are given and nobody else may see
	journal  *journal.Journal
	// containment holds the processes of all extensions.
	containment *process.Containment
	openedAt    time.Time
	tap         *wiretap.Hub

	oversight oversight
	tally     tally
	feed      feed

	runner *hooks.Runner    // of the commands of hooks
	states chan hooks.Event // of extensions, for the hooks of extension_state

	gen        atomic.Pointer[generation]
	rebuilding sync.Mutex    // one new generation at a time; taken before mu
	past       []*generation // replaced, and maybe still in use; guarded by rebuilding
	changed    chan struct{} // holds one token when a new generation is due
	announce   chan struct{} // holds one token when clients are to be told of other tools
	settled    chan struct{} // closed when every eager extension has started or failed

	closing   context.Context    // ends when the host begins to close
	close     context.CancelFunc // makes it end
	reloading sync.Mutex         // one reload at a time; guards seen and misread
	seen      [sha256.Size]byte  // what was found on disk last
	misread   string             // why the configuration that was found last cannot be used
	places    atomic.Pointer[discovery.Places]
	watch     *watch
	stop      context.CancelFunc
	running   sync.WaitGroup // startAll, the loops, and what runs beside them: added to before sealed is set
	stopping  sync.Once

	mu          sync.Mutex              // guards what follows
	live        map[*extension]struct{} // every extension that may have a process
	diagnostics []protocol.Diagnostic   // of starts

	offerDiagnostics []protocol.Diagnostic // of what extensions offer now
	sessions         map[*protocol.Session]*attachment
	sealed           bool // nothing more may run beside the host
	subscriptions    subscriptions
	tasks            *tasks
	bridgedAnew      chan struct{}             // closed when there are other destinations than before
	levels           map[*protocol.Session]int // the log level that a session wants, as its place in levels

	owners owners // of what is listed for all extensions together
}

// Open discovers the extensions of cfg, starts the eager ones in parallel and
// returns the host. An extension that is broken, gated or fails to start is in
// [Host.Status] with its reason and never fails Open, whose own errors are a
// configuration that asks for what this version cannot do, an unusable state
// directory and the end of ctx.
func Open(ctx context.Context, cfg *config.Config, o Options) (*Host, error) {
	if err := o.checkHooks(); err != nil {
		return nil, err
	}
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	closing, closeNow := context.WithCancel(running)
	kept, secrets := journal.New(), new(redact.Redactor)
	h := &Host{
		opts: o, stop: stop, closing: closing, close: closeNow,
		redactor: secrets,
		log:      slog.New(secrets.Handler(slog.NewMultiHandler(o.Logger.Handler(), kept.Handler()))),
		journal:  kept, openedAt: time.Now(), tap: wiretap.New(secrets.String),
		containment: process.Contain(guardianProgram(o.Self)),
		changed:     make(chan struct{}, 1),
		announce:    make(chan struct{}, 1),
		settled:     make(chan struct{}),
		live:        make(map[*extension]struct{}),
		sessions:    make(map[*protocol.Session]*attachment),
		states:      make(chan hooks.Event, stateEvents),

		bridgedAnew: make(chan struct{}), subscriptions: make(subscriptions), tasks: newTasks(), levels: make(map[*protocol.Session]int),
	}
	h.runner = hooks.NewRunner(hooks.RunnerOptions{Containment: h.containment, Logger: h.log, Redact: h.redactor.String})
	if err := h.openOversight(cfg); err != nil {
		stop()
		return nil, err
	}
	first, err := h.discover(ctx, cfg, nil)
	if err != nil {
		stop()
		return nil, errors.Join(err, h.oversight.close(ctx))
	}
	first.policy = h.pipeline(first.members, nil)
	places := first.places(nil)
	h.places.Store(&places)
	h.seen = first.sum()
	h.adopt(first)
	h.watch = newWatch(h)
	h.running.Go(func() { h.watch.run(closing) })
	h.running.Go(func() { h.startAll(running) })
	h.running.Go(func() { h.rebuildLoop(running) })
	h.running.Go(func() { h.announceLoop(running) })
	h.running.Go(func() { h.stateLoop(running) })
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

// startAll starts the eager extensions, and puts each into the catalog as it
// becomes ready.
func (h *Host) startAll(ctx context.Context) {
	defer close(h.settled)
	for x, err := range h.startEach(ctx, h.gen.Load().everyone()) {
		if err != nil && protocol.KindOf(err) != protocol.ShuttingDown {
			h.report(startDiagnostic(x, err))
		}
	}
	h.rebuild()
}

// startEach starts those of list that are to be started, a bounded number at a
// time, and yields each with its outcome.
func (h *Host) startEach(ctx context.Context, list []*extension) iter.Seq2[*extension, error] {
	type outcome struct {
		x   *extension
		err error
	}
	return func(yield func(*extension, error) bool) {
		var wg sync.WaitGroup
		slots, outcomes := make(chan struct{}, startsAtOnce), make(chan outcome, len(list))
		for _, x := range list {
			if x.known() && !x.proves && !h.opts.StartLazy || !h.opts.starts(x.candidate.ID) {
				continue
			}
			wg.Go(func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				outcomes <- outcome{x, x.start(ctx)}
			})
		}
		go func() { wg.Wait(); close(outcomes) }()
		more := true
		for o := range outcomes {
			more = more && yield(o.x, o.err)
		}
	}
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
