// Package bridge runs destinations: MCP servers that are served over HTTP, with an instance per connection.
package bridge

import (
	"cmp"
	"context"
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
	"github.com/exthost/exthost/internal/host/descriptors"
	"github.com/exthost/exthost/internal/host/unit"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
	"github.com/exthost/exthost/status"
	"github.com/exthost/exthost/supervisor"
	"github.com/exthost/exthost/tools"
)

// Destination is a unit with a standby process for the next connection, variables that sessions bring for their
// instances, and an address set by a front, the server that clients connect to.
type Destination struct {
	*unit.Unit
	Config config.Destination
	Source descriptors.Source

	standby  *runtime.Standby          // nil: none
	unusable error                     // why the configuration cannot be used
	broken   atomic.Pointer[broken]    // nil: the destination can run
	names    atomic.Pointer[toolNames] // nil before the first handshake

	login func(caller string) runtime.Login // a caller's own login; nil: one for all callers

	mu       sync.Mutex         // guards the fields below
	sessions map[string]brought // by instance key
	listen   string             // address besides /{name}, or ""
}

// brought is what a session brings for its instance.
type brought struct {
	env    map[string]string // variables
	caller string            // whose login the instance uses; "": that of all callers
}

// broken is why a destination cannot run at all.
type broken struct {
	err   error
	until time.Time // when a connection checks again
}

// New prepares a destination. wire returns its callbacks. An unusable configuration is the error of its start.
func New(env *unit.Env, cfg *config.Config, name string, c config.Destination, wire func(*Destination) unit.Events,
) *Destination {
	spec, report, secrets, err := newSpec(env, cfg, name, c)
	d := &Destination{Config: c, Source: descriptors.SourceOf(&spec), sessions: make(map[string]brought)}
	if c.Credentials == config.CredentialsPerCaller {
		d.login = func(caller string) runtime.Login {
			at := place(cfg, name, &c)
			at.Caller = caller
			return env.Login(cfg, &spec.Manifest.Transport, at)
		}
	}
	events := wire(d)
	if err != nil {
		d.unusable = protocol.Errorf(protocol.ConfigInvalid, "%s", protocol.Reason(err))
	} else {
		spec.Permit = env.Permits.Configured(cfg, &spec.Manifest.Transport)
		if c.Type == config.DestinationStdio && len(c.EnvFromHeaders) == 0 {
			kept := spec
			kept.Secret = func(value string) { d.Learn(value) }
			d.standby = runtime.NewStandby(kept)
		}
	}
	described := events.Described
	events.Described = func(i *unit.Instance, announced bool) {
		d.names.Store(newToolNames(name, i.Handshake().Tools))
		described(i, announced)
	}
	events.LogState = logConnection
	d.Unit = unit.New(env, unit.Options{
		Candidate:    discovery.Candidate{ID: name, Dir: spec.Dir, Manifest: spec.Manifest},
		Spec:         spec,
		Report:       report,
		Secrets:      secrets,
		MasksAlways:  true,
		BothVersions: true,
		Prepare:      d.prepare,
		Keep:         unit.IsSessionKey,
		Cooldown:     cooldown,
		Events:       events,
	})
	return d
}

// prepare adds to s what the session of a key brings.
func (d *Destination) prepare(s *runtime.Spec, key string) {
	s.Standby = d.standby
	if session := d.Session(key); session != nil && len(session.ClientInfo) > 0 {
		s.ClientInfo = session.ClientInfo
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.login != nil {
		s.Login = d.LoginOf(d.sessions[key].caller)
	}
	set := d.sessions[key].env
	if len(set) == 0 {
		return
	}
	s.Env = slices.DeleteFunc(slices.Clone(s.Env), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		_, replaced := set[name]
		return replaced
	})
	for name, value := range set {
		s.Env = append(s.Env, name+"="+value)
	}
}

// LoginOf returns the login of a caller, nil if there is none. With a login per caller, the login of all callers
// is never used.
func (d *Destination) LoginOf(caller string) runtime.Login {
	switch {
	case d.login == nil:
		return d.Spec.Login
	case caller == "":
		return nil
	}
	return d.login(caller)
}

// Start checks whether the destination can run, and starts the standby process.
func (d *Destination) Start(ctx context.Context) error {
	if err := d.look(ctx); err != nil {
		return err
	}
	return d.try(ctx)
}

// look calls check and records the outcome.
func (d *Destination) look(ctx context.Context) error {
	err := d.check(ctx)
	if err == nil {
		d.broken.Store(nil)
	} else if ctx.Err() == nil {
		d.broken.Store(&broken{err, time.Now().Add(cooldown)})
	}
	return err
}

// NeedsStart returns true: [Destination.Start] starts the standby process.
func (d *Destination) NeedsStart() bool { return true }

func (d *Destination) check(ctx context.Context) error {
	if d.unusable != nil || d.Config.Type != config.DestinationStdio {
		return d.unusable
	}
	if _, err := d.Spec.CommandLine(); err != nil {
		return protocol.Errorf(protocol.SpawnFailed, "%w", err)
	}
	return d.standby.Fill(ctx)
}

// Unusable returns why the configuration of the destination cannot be used, nil if it can.
func (d *Destination) Unusable() error { return d.unusable }

// try starts an instance if the host checks whether destinations can start. It skips a destination that needs
// variables or logins of its clients.
func (d *Destination) try(ctx context.Context) error {
	if !d.Env.StartLazy || len(d.Config.EnvFromHeaders) > 0 || d.login != nil {
		return nil
	}
	return d.Unit.Start(ctx)
}

// Failure returns why the destination cannot run at all, nil if it can.
func (d *Destination) Failure() error {
	if b := d.broken.Load(); b != nil {
		return b.err
	}
	return nil
}

// Refill starts the standby process for the next connection.
func (d *Destination) Refill(ctx context.Context) {
	if err := d.standby.Fill(ctx); err != nil && ctx.Err() == nil {
		d.Log.Warn("no process could be kept ready for the next connection", "reason", protocol.Reason(err))
	}
}

// Restart implements [unit.Runner].
func (d *Destination) Restart(ctx context.Context) error {
	d.standby.Drop(ctx)
	if err := d.Start(ctx); err != nil {
		return err
	}
	return d.Unit.Restart(ctx)
}

// Stop implements [unit.Runner].
func (d *Destination) Stop(ctx context.Context, drain time.Duration) error {
	var beside sync.WaitGroup
	beside.Go(func() { d.standby.Stop(ctx) })
	err := d.Unit.Stop(ctx, drain)
	beside.Wait()
	return err
}

// Kill implements [unit.Runner].
func (d *Destination) Kill() {
	d.Unit.Kill()
	d.standby.Kill()
}

// EndSession implements [unit.Runner].
func (d *Destination) EndSession(key string) {
	d.Unit.EndSession(key)
	d.forget(key)
}

// Secrets implements [unit.Runner]. It includes the values that sessions brought.
func (d *Destination) Secrets() []string {
	values := d.Unit.Secrets()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.sessions {
		values = slices.AppendSeq(values, maps.Values(s.env))
	}
	return values
}

// cooldown is how long a destination whose instances keep failing refuses connections.
const cooldown = 30 * time.Second

// unable returns the refusal of a destination that cannot run at all, nil if it can. After each cooldown one
// connection checks again, because the cause may be gone.
func (d *Destination) unable(ctx context.Context) error {
	b := d.broken.Load()
	if b == nil {
		return nil
	}
	err := b.err
	if time.Now().After(b.until) && d.broken.CompareAndSwap(b, &broken{err, time.Now().Add(cooldown)}) {
		if err = d.look(ctx); err == nil {
			return nil
		}
	}
	refusal := protocol.Errorf(protocol.Failed, "it cannot run: %s; fix that, then exthost restart %s",
		protocol.Reason(err), d.ID())
	refusal.RetryAfter = cooldown
	return refusal
}

// stranger returns the refusal of a session without a login if each caller needs its own: the session has no caller,
// or its instance belongs to another caller. The result is nil for all other sessions.
func (d *Destination) stranger(s *protocol.Session, key string) error {
	if d.login == nil {
		return nil
	}
	if s != nil && s.Caller != "" {
		d.mu.Lock()
		defer d.mu.Unlock()
		if kept, ok := d.sessions[key]; ok && kept.caller != s.Caller {
			return protocol.Errorf(protocol.Rejected, "the session is another caller's")
		}
		return nil
	}
	return protocol.Errorf(protocol.RequirementMissing,
		"each caller of %s has a login of its own, and this one has no name: give its client a token of its own; "+
			"exthost client add NAME", d.ID())
}

// Acquire is [unit.Unit.Acquire], and records what the session brings.
func (d *Destination) Acquire(ctx context.Context, w unit.Want) (*unit.Instance, func(error), error) {
	s, key := w.Session, unit.SessionKey(w.Session)
	if err := d.unable(ctx); err != nil {
		return nil, nil, err
	}
	added := d.keep(key, s)
	if err := d.stranger(s, key); err != nil { // only now: keep records the first of concurrent callers
		return nil, nil, err
	}
	if added {
		d.Env.SecretsChanged()
	}
	i, release, err := d.Unit.Acquire(ctx, w)
	if e, ok := errors.AsType[*protocol.Error](err); ok && added && e.RetryAfter > 0 { // no instance was started
		d.forget(key)
		d.Env.SecretsChanged()
	}
	return i, release, err
}

// Refusal returns why a call of s would be refused now, nil if it would be served.
func (d *Destination) Refusal(ctx context.Context, s *protocol.Session) error {
	err := cmp.Or(d.unable(ctx), d.stranger(s, unit.SessionKey(s)))
	if err == nil {
		err = d.Unit.Refusal(ctx, s)
	}
	return d.Mask(err)
}

// keep records what s brings for its instance, because the instance may be started again later. It reports whether s
// brings new variables.
func (d *Destination) keep(key string, s *protocol.Session) bool {
	if s == nil || len(s.Env) == 0 && d.login == nil || d.login != nil && s.Caller == "" {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, kept := d.sessions[key]; kept {
		return false
	}
	d.sessions[key] = brought{s.Env, s.Caller}
	return len(s.Env) > 0
}

func (d *Destination) forget(key string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.sessions, key)
}

// Status returns the status of the destination. Its tools have the names that policies use.
func (d *Destination) Status() status.Destination {
	s := status.Destination{Extension: d.Unit.Status(), StandbyPID: d.standby.PID()}
	d.mu.Lock()
	s.Listens = d.listen
	d.mu.Unlock()
	if hs := cmp.Or(d.Handshake(), d.Legacy.Handshake()); hs != nil {
		s.Protocol, s.Hooks = hs.Spoken(), hs.Hooks
		for _, t := range hs.Tools {
			s.Tools = append(s.Tools, d.ToolName(t.Name))
		}
	}
	if err := d.Failure(); err != nil {
		s.State, s.Reason = string(supervisor.Failed), protocol.Reason(d.Mask(err))
	}
	now, cancel := context.WithCancel(context.Background())
	cancel() // the status waits for no instance
	if err := d.Unit.Refusal(now, nil); err != nil {
		s.Refuses = protocol.Reason(d.Mask(err))
		if e, ok := errors.AsType[*protocol.Error](err); ok {
			at := time.Now().Add(e.RetryAfter)
			s.RetryAt = &at
		}
	}
	return s
}

// logConnection logs one record for each start, stop, crash and restart of a connection's instance.
func logConnection(log *slog.Logger, e supervisor.Event) {
	ctx := context.Background()
	switch e.State {
	case supervisor.Ready:
		text := "started"
		if e.Attempt > 0 {
			text = "restarted"
		}
		log.LogAttrs(ctx, slog.LevelInfo, text, slog.Int("attempt", e.Attempt))
	case supervisor.Restarting:
		attrs := []slog.Attr{
			slog.String("reason", protocol.Reason(e.Err)),
			slog.Int("attempt", e.Attempt),
			slog.Time("due", e.Next),
		}
		if cause, ok := errors.AsType[*protocol.Error](e.Err); ok {
			attrs = append(attrs, slog.String("kind", string(cause.Kind)))
			if ev := cause.Evidence; ev != nil && ev.Signal != "" {
				attrs = append(attrs, slog.String("signal", ev.Signal))
			} else if ev != nil && ev.ExitCode != nil {
				attrs = append(attrs, slog.Int("exit_code", *ev.ExitCode))
			}
		}
		log.LogAttrs(ctx, slog.LevelWarn, "crashed", attrs...)
	case supervisor.Shutdown, supervisor.Idle:
		log.LogAttrs(ctx, slog.LevelInfo, "stopped")
	case supervisor.Failed:
		attrs := []slog.Attr{slog.String("reason", protocol.Reason(e.Err))}
		if words := protocol.LastWords(e.Err); words != "" {
			attrs = append(attrs, slog.String("last_words", words))
		}
		log.LogAttrs(ctx, slog.LevelError, "unavailable: it keeps failing, and refuses connections for a while",
			append(attrs, slog.Time("next_try", e.Next))...)
	default:
		log.LogAttrs(ctx, slog.LevelDebug, string(e.State))
	}
}

// toolNames are the registered names that policies use for the tools of a destination.
type toolNames struct {
	byTool map[string]string
	taken  map[string]bool
}

func newToolNames(destination string, offered []protocol.Tool) *toolNames {
	n := &toolNames{byTool: make(map[string]string, len(offered)), taken: make(map[string]bool, len(offered))}
	for _, t := range offered {
		if name, _, ok := tools.Register(destination, t.Name, func(name string) bool { return n.taken[name] }); ok {
			n.byTool[t.Name], n.taken[name] = name, true
		}
	}
	return n
}

// ToolName returns the registered name of a tool of the destination. An unlisted tool gets a name that no listed
// tool has.
func (d *Destination) ToolName(tool string) string {
	n := d.names.Load()
	if n == nil {
		n = new(toolNames)
	}
	if name := n.byTool[tool]; name != "" {
		return name
	}
	name, _, _ := tools.Register(d.ID(), tool,
		func(name string) bool { return n.taken[name] || !strings.HasSuffix(name, "_"+tool) })
	return name
}
