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

	"github.com/exthost/exthost/discovery"
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
	options    manifest.Options
	host       *Host
	group      *supervisor.Group[*instance]
	older      *supervisor.Group[*instance] // for clients of the older era of MCP, where the extension may speak both; else nil
	newerOnly  atomic.Bool                  // it turned out to speak the newer alone
	stateDir   string
	env        process.EnvReport // what its children are not given, and which secrets they are
	secrets    []string          // values in its environment that must not be shown
	redactor   *redact.Redactor
	log        *slog.Logger
	handshake  atomic.Pointer[runtime.Handshake]
	olderOffer atomic.Pointer[runtime.Handshake] // of the second group
	calls      callStats
	crash      atomic.Pointer[Crash] // the latest

	mu        sync.Mutex // guards instances
	instances map[*instance]struct{}
}

// instance is one running child of an extension. It notes what its handshake
// offered before anybody can call it.
type instance struct {
	runtime.Instance
	extension *extension
	key       string // of its slot
	older     bool   // it is of the extension's second group
	level     int    // the most talkative log level that was asked of it; guarded by Host.mu
	offer     func() // told when the extension's tools may have changed
	pid       int    // once it could be called
}

// Serve implements [supervisor.Service].
func (i *instance) Serve(ctx context.Context, ready func()) error {
	i.extension.running(i, true)
	defer i.extension.running(i, false)
	var tasks sync.WaitGroup
	err := i.Instance.Serve(ctx, func() {
		i.pid = i.Info().PID
		i.learn()
		ready()
		tasks.Go(func() { i.catchUp(ctx) })
	})
	tasks.Wait()
	err = i.extension.masked(err)
	if err != nil && protocol.KindOf(err) != protocol.ShuttingDown {
		i.extension.crash.Store(i.postMortem(err))
	}
	return err
}

// learn makes what the instance offers what its extension does.
func (i *instance) learn() {
	if i.older {
		i.extension.olderOffer.Store(i.Handshake())
	} else {
		i.extension.handshake.Store(i.Handshake())
	}
	i.offer()
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
	if !ok || len(x.secrets) == 0 {
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

var _ supervisor.Service = (*instance)(nil)

// running notes the instances that may have a process.
func (x *extension) running(i *instance, is bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if is {
		x.instances[i] = struct{}{}
	} else {
		delete(x.instances, i)
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
}

// newExtension prepares a candidate to run; nil when it may not run here, with
// the diagnostics that say why.
func (h *Host) newExtension(c discovery.Candidate) (*extension, []protocol.Diagnostic) {
	if missing := discovery.Gate(&c, h.gate()); len(missing) > 0 {
		return nil, missing
	}
	if diag := unsupported(&c); diag != nil {
		return nil, []protocol.Diagnostic{*diag}
	}
	spec, report, err := h.spec(c)
	if err != nil {
		return nil, []protocol.Diagnostic{{Level: protocol.LevelError, Code: string(protocol.KindOf(err)), Extension: c.ID, Path: c.Path, Message: err.Error()}}
	}
	x := &extension{host: h, candidate: c, options: spec.Options, stateDir: spec.StateDir, env: report, instances: make(map[*instance]struct{}), secrets: slices.Concat(process.Secrets(spec.Env), headerSecrets(spec.Manifest.Transport)), redactor: h.redactor, log: h.log.With("extension", c.ID)}
	x.group = supervisor.NewGroup(func(key string) (*instance, error) { return x.instance(spec, key, false) }, groupOptions(c, spec.Options, h.log))
	if speaksBoth(spec.Manifest.Transport) && !spec.Options.Instances.PerSession() {
		o := groupOptions(c, spec.Options, h.log)
		o.Mode, o.MaxInstances = supervisor.PerKey, 1
		x.older = supervisor.NewGroup(func(key string) (*instance, error) { return x.instance(spec, key, true) }, o)
	}
	if len(report.Withheld) > 0 {
		h.log.Debug("environment withheld", "extension", c.ID, "names", report.Withheld)
	}
	return x, ignored(&c, spec.Options)
}

// instance prepares one run of the extension, for the slot of that key.
func (x *extension) instance(s runtime.Spec, key string, older bool) (*instance, error) {
	i := &instance{extension: x, key: key, older: older, level: len(levels), offer: x.host.offersChanged}
	s.ToolsChanged, s.Incoming = i.learn, i.incoming
	s.Capabilities = x.relayed(s.Manifest.Transport, key)
	s.Older = older || x.options.Instances.PerSession() && strings.HasPrefix(key, sessionPrefix) && !strings.HasSuffix(key, statelessSuffix)
	child, err := runtime.New(s)
	i.Instance = child
	return i, err
}

// lazy reports whether the extension's tools are known without starting it.
func (x *extension) lazy() bool {
	return x.options.Activation == manifest.ActivationLazy && len(x.candidate.Manifest.Tools) > 0
}

// start starts the extension, or where instances come on demand, one of them, to
// learn what it offers.
func (x *extension) start(ctx context.Context) error {
	if x.options.Activation != manifest.ActivationLazy && !x.options.Instances.PerSession() {
		return x.group.Start(ctx)
	}
	_, release, err := x.group.Acquire(ctx, firstHandshake)
	if err != nil {
		return err
	}
	release(nil)
	x.group.Release(firstHandshake)
	return nil
}

// firstHandshake is the key of the instance that is started for what it offers.
const firstHandshake = "first handshake"

// offered are the tools of the last handshake, or the declared ones of an
// extension that has none, with what the handshake found wrong.
func (x *extension) offered() ([]protocol.Tool, []protocol.Diagnostic) {
	if hs := x.handshake.Load(); hs != nil {
		return x.withOlder(hs.Tools), hs.Diagnostics
	}
	if x.lazy() {
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
	return protocol.Diagnostic{
		Level: protocol.LevelError, Code: string(kind), Extension: x.candidate.ID, Path: x.candidate.Path,
		Message: didNotStart + message(err),
	}
}

const didNotStart = "did not start: "
