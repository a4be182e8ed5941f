package exthost

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/hooks"
	"github.com/exthost/exthost/internal/process"
	"github.com/exthost/exthost/internal/redact"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
	"github.com/exthost/exthost/supervisor"
)

// extension is one candidate that may run here, and the group that keeps it alive.
type extension struct {
	candidate  discovery.Candidate
	source     source
	spec       *runtime.Spec // that its instances are made of
	options    manifest.Options
	host       *Host
	group      *supervisor.Group[*instance]
	older      *supervisor.Group[*instance] // for clients of the older era of MCP, where the extension may speak both; else nil
	newerOnly  atomic.Bool                  // it turned out to speak the newer alone
	stateDir   string
	execHooks  []hooks.Handler             // those that are commands
	admit      func(context.Context) error // whether it may start; nil for a policy
	env        process.EnvReport           // what its children are not given, and which secrets they are
	secrets    []string                    // values in its environment that must not be shown
	redactor   *redact.Redactor
	log        *slog.Logger
	handshake  atomic.Pointer[runtime.Handshake]
	olderShook atomic.Pointer[runtime.Handshake] // of the second group
	calls      *callStats                        // goes on in the next build
	crash      atomic.Pointer[Crash]             // the latest

	proves  bool            // it takes another's place only once it has started, lazy or not
	proving atomic.Bool     // it has not done so yet, and what becomes of it is for the reload to say
	fallen  context.Context // ends when an instance has ended that nobody asked to
	fall    context.CancelFunc
	after   <-chan struct{} // closed when a process may start; nil: at once
	stopped chan struct{}   // closed when no process will be left
	retired bool            // guarded by Host.reloading

	policy   *governance.Spec // that it decides for; nil for an extension
	bridge   *bridge          // of a destination; nil for an extension
	print    func() string    // the fingerprint of what would run; nil for a policy
	memory   memory
	learning sync.Mutex // guards last and its file
	last     *offer     // of the last handshake, in this host's life or before; nil before the first

	mu        sync.Mutex // guards what follows
	instances map[*instance]struct{}
	tokens    []string // read from transport.token_file: the latest, the last one last
}

// instance is one running child of an extension. It notes what its handshake
// offered before anybody can call it.
type instance struct {
	runtime.Instance
	extension *extension
	key       string               // of its slot
	older     bool                 // it is of the extension's second group
	level     int                  // the most talkative log level that was asked of it; guarded by Host.mu
	print     string               // the fingerprint of what it runs; "" when that does not count
	learn     func(announced bool) // told of its handshake, and of later ones
	pid       int                  // once it could be called
	strike    sync.Once            // see [extension.struck]
}

// Serve implements [supervisor.Service].
func (i *instance) Serve(ctx context.Context, ready func()) error {
	if !i.extension.awaitTurn(ctx) {
		return ctx.Err()
	}
	i.extension.running(i, true)
	defer i.extension.running(i, false)
	if admit := i.extension.admit; admit != nil {
		if err := admit(ctx); err != nil {
			return err
		}
	}
	var tasks sync.WaitGroup
	began, spawned := false, time.Now()
	err := i.Instance.Serve(ctx, func() {
		began = true
		i.extension.calls.started.record(time.Since(spawned))
		i.pid = i.Info().PID
		i.learn(false)
		ready()
		tasks.Go(func() { i.catchUp(ctx) })
	})
	tasks.Wait()
	err = i.extension.masked(err)
	if err != nil && protocol.KindOf(err) != protocol.ShuttingDown {
		i.extension.crash.Store(i.postMortem(err))
		i.extension.struck(i, began, err)
		i.extension.fall()
	}
	return err
}

// Call implements [runtime.Instance].
func (i *instance) Call(ctx context.Context, r *runtime.Request) (json.RawMessage, error) {
	result, err := i.Instance.Call(ctx, r)
	return result, i.extension.masked(err)
}

// masked returns err without the secrets that the extension was given: what it
// left on stderr and stdout goes to the log, to status and to callers.
func (x *extension) masked(err error) error {
	e, ok := errors.AsType[*protocol.Error](err)
	if !ok || !x.mayTell() {
		return err
	}
	masked := *e
	masked.Message = x.redactor.String(e.Message)
	if e.Evidence != nil {
		evidence := *e.Evidence
		evidence.Stderr, evidence.Line = x.redactor.Strings(evidence.Stderr), x.redactor.String(evidence.Line)
		masked.Evidence = &evidence
	}
	return &masked
}

// mayTell reports whether there is anything that the extension must not tell.
func (x *extension) mayTell() bool {
	return len(x.secrets) > 0 || x.bridge != nil || x.candidate.Manifest.Transport.TokenFile != ""
}

// keptTokens is how many tokens of an extension are masked: the one it shows, and
// those before, which a server may still quote.
const keptTokens = 4

// shows notes that the extension shows this token from now on.
func (x *extension) shows(token string) {
	x.mu.Lock()
	if len(x.tokens) == keptTokens {
		x.tokens = slices.Delete(x.tokens, 0, 1)
	}
	x.tokens = append(x.tokens, token)
	x.mu.Unlock()
	x.host.keepSecrets()
}

// shown are the tokens that it has shown.
func (x *extension) shown() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.tokens)
}

var _ supervisor.Service = (*instance)(nil)

// awaitTurn waits until the build before has stopped, if x is to; false when ctx
// ended first.
func (x *extension) awaitTurn(ctx context.Context) bool {
	if x.after == nil {
		return true
	}
	select {
	case <-x.after:
		return true
	case <-ctx.Done():
		return false
	}
}

// running notes the instances that may have a process.
func (x *extension) running(i *instance, is bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if is {
		x.instances[i] = struct{}{}
	} else {
		delete(x.instances, i)
		x.calls.ended(i.Info())
	}
}

// kill ends every process of the extension at once.
func (x *extension) kill() {
	x.mu.Lock()
	instances := slices.Collect(maps.Keys(x.instances))
	x.mu.Unlock()
	for _, i := range instances {
		i.Kill()
	}
	if x.bridge != nil {
		x.bridge.standby.Kill()
	}
}

// newExtension prepares a candidate to run; nil when it may not run here, with
// the diagnostics that say why.
func (h *Host) newExtension(cfg *config.Config, c discovery.Candidate) (*extension, []protocol.Diagnostic) {
	if missing := discovery.Gate(&c, h.gate()); len(missing) > 0 {
		return nil, missing
	}
	if c.Manifest.Transport.Kind == "" { // it has hooks and nothing else to run
		m := *c.Manifest
		m.Transport.Kind = manifest.KindExec
		c.Manifest = &m
	}
	if diag := unsupported(&c); diag != nil {
		return nil, []protocol.Diagnostic{*diag}
	}
	spec, report, err := h.spec(cfg, c)
	if err != nil {
		return nil, []protocol.Diagnostic{{Level: protocol.LevelError, Code: string(protocol.KindOf(err)), Extension: c.ID, Path: c.Path, Message: err.Error()}}
	}
	x := h.newWorker(c, spec, report, runtime.New, nil)
	x.serveBoth(spec)
	x.print = func() string { return x.fingerprint(&spec, cfg.Extensions.Entries[c.ID]) }
	x.remember()
	hookDiags, err := h.addHooks(x, spec.Env)
	if err != nil {
		return nil, []protocol.Diagnostic{{Level: protocol.LevelError, Code: string(protocol.KindOf(err)), Extension: c.ID, Path: c.Path, Message: message(err)}}
	}
	if len(report.Withheld) > 0 {
		h.log.Debug("environment withheld", "extension", c.ID, "names", report.Withheld)
	}
	return x, append(hookDiags, ignored(&c, spec.Options)...)
}

// newWorker prepares what runs spec; start makes one run of it. b is nil for what is
// no destination.
func (h *Host) newWorker(c discovery.Candidate, spec runtime.Spec, report process.EnvReport, start func(runtime.Spec) (runtime.Instance, error), b *bridge) *extension {
	x := &extension{
		host: h, candidate: c, source: sourceOf(&spec), spec: &spec, options: spec.Options, stateDir: spec.StateDir, env: report,
		secrets: slices.Concat(process.Secrets(spec.Env), headerSecrets(spec.Manifest.Transport)), redactor: h.redactor, log: h.log.With("extension", c.ID),
		calls: new(callStats), instances: make(map[*instance]struct{}), stopped: make(chan struct{}),
		memory: memoryOf(h.opts.StateDir), bridge: b,
	}
	x.fallen, x.fall = context.WithCancel(context.Background())
	x.group = supervisor.NewGroup(func(key string) (*instance, error) { return x.instance(spec, key, false, start) }, h.watched(x, spec.Options))
	return x
}

// instance prepares one run of the extension, for the slot of that key.
func (x *extension) instance(s runtime.Spec, key string, older bool, start func(runtime.Spec) (runtime.Instance, error)) (*instance, error) {
	i := &instance{extension: x, key: key, older: older, level: len(levels)}
	if x.print != nil {
		i.print = x.print()
	}
	i.learn = func(announced bool) { x.host.learn(i, announced) }
	if x.bridge != nil {
		x.bridge.equip(&s, key, x.host.sessionOf(x, key))
		i.learn = func(announced bool) { x.bridged(i, announced) }
	}
	s.Secret = x.shows
	s.ToolsChanged, s.Tap = func() { i.learn(true) }, x.host.tap.Wire(x.candidate.ID)
	if x.policy == nil {
		s.Incoming, s.Capabilities = i.incoming, x.relayed(s.Manifest.Transport, key)
		s.Older = older || x.options.Instances.PerSession() && strings.HasPrefix(key, sessionPrefix) && !strings.HasSuffix(key, statelessSuffix)
	}
	run, err := start(s)
	i.Instance = run
	return i, err
}

// onDemand reports whether the extension starts when somebody calls it.
func (x *extension) onDemand() bool {
	return x.options.Activation == manifest.ActivationLazy || x.options.Instances.PerSession()
}

// declares reports whether its tools stand in its manifest.
func (x *extension) declares() bool { return len(x.candidate.Manifest.Tools) > 0 }

// known reports whether the extension starts on demand and its tools are known
// without: from its manifest, or from an earlier handshake.
func (x *extension) known() bool {
	return x.onDemand() && (x.declares() || x.handshake.Load() != nil)
}

// hasFailed reports whether some instance will not be started again by itself.
func (x *extension) hasFailed() bool {
	return slices.ContainsFunc(x.slots(), func(s supervisor.SlotStatus) bool { return s.State == supervisor.Failed })
}

// start starts the extension, or where instances come on demand, one of them, to
// learn what it offers.
func (x *extension) start(ctx context.Context) error {
	if x.bridge != nil {
		return x.bridge.start(ctx)
	}
	if !x.onDemand() {
		return x.group.Start(ctx)
	}
	if x.proves {
		return x.prove(ctx)
	}
	return x.startOne(ctx)
}

func (x *extension) startOne(ctx context.Context) error {
	_, release, err := x.group.Acquire(ctx, firstHandshake)
	if err != nil {
		return err
	}
	release(nil)
	x.group.Release(firstHandshake)
	return nil
}

// footing is how long a script that has no handshake may take to fall over, as one
// with a syntax error does.
const footing = 50 * time.Millisecond

// prove is startOne for what has a place to take: to end is to fail, even where
// another start would be tried for a caller.
func (x *extension) prove(ctx context.Context) error {
	starting, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(x.fallen, cancel)()
	x.proving.Store(true)
	err := x.startOne(starting)
	if hs := x.handshake.Load(); err == nil && hs != nil && hs.Protocol == manifest.ProtocolLite {
		select {
		case <-starting.Done():
		case <-time.After(footing):
		}
	}
	if c := x.crash.Load(); c != nil {
		return &protocol.Error{Kind: c.Kind, Message: c.Reason, Evidence: c.Evidence}
	}
	x.proving.Store(err != nil)
	return err
}

// firstHandshake is the key of the instance that is started for what it offers.
const firstHandshake = "first handshake"

// offered are the tools of the last handshake, or the declared ones of an
// extension that has none, with what the handshake found wrong.
func (x *extension) offered() ([]protocol.Tool, []protocol.Diagnostic) {
	if hs := x.handshake.Load(); hs != nil {
		return x.withOlder(hs.Tools), hs.Diagnostics
	}
	if x.onDemand() && x.declares() {
		return runtime.Declared(x.candidate.Manifest), nil
	}
	return nil, nil
}

// context is what an extension with [context] passthrough learns about the caller.
func (x *extension) context(c *protocol.Call) json.RawMessage {
	if !x.candidate.Manifest.Context.Passthrough {
		return nil
	}
	var meta struct {
		AgentID   *string `json:"agent_id"` // null, and never left out: a caller must not supply either
		SessionID *string `json:"session_id"`
	}
	if s := c.Session; s != nil && s.Caller != "" {
		meta.AgentID = &s.Caller
	}
	if s := c.Session; s != nil && s.ID != "" {
		meta.SessionID = &s.ID
	}
	out, _ := json.Marshal(meta) // strings always encode
	return out
}

func startDiagnostic(x *extension, err error) protocol.Diagnostic {
	kind := protocol.KindOf(err)
	if kind == "" {
		kind = protocol.SpawnFailed
	}
	text := didNotStart + message(err)
	if words := lastWords(err); words != "" {
		text += "; its last words: " + words
	}
	return protocol.Diagnostic{
		Level: protocol.LevelError, Code: string(kind), Extension: x.candidate.ID, Path: x.candidate.Path, Message: text,
	}
}

const didNotStart = "did not start: "
