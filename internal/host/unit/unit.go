// Package unit supervises one thing with processes: an extension, or the process of a destination or a policy.
package unit

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/internal/host/stats"
	"github.com/exthost/exthost/internal/proc/process"
	"github.com/exthost/exthost/internal/secret/secrets"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
	"github.com/exthost/exthost/status"
	"github.com/exthost/exthost/supervisor"
)

// Runner is an extension, a destination or the process of a policy.
type Runner interface {
	Base() *Unit
	// Start starts the unit. If instances start on demand, it starts one to learn its handshake.
	Start(ctx context.Context) error
	// Restart replaces the instances and forgets their failures.
	Restart(ctx context.Context) error
	// NeedsStart reports whether the unit is started with the host rather than by a call.
	NeedsStart() bool
	// Stop ends all instances. Calls in flight have the time drain to end.
	Stop(ctx context.Context, drain time.Duration) error
	// Kill kills every process at once.
	Kill()
	// EndSession stops the instance of that session key, if it serves no other session.
	EndSession(key string)
	// Secrets returns the secret values that the unit was given.
	Secrets() []string
}

// Unit is one supervised thing: its spec, its instances and their history.
type Unit struct {
	Candidate discovery.Candidate
	Spec      *runtime.Spec // of its instances
	Log       *slog.Logger
	Calls     *stats.Calls

	Env    *Env
	Legacy *LegacyGroup
	Phase  *Phase

	report    process.EnvReport
	events    Events
	group     *supervisor.Group[*Instance]
	handshake atomic.Pointer[runtime.Handshake] // of the latest instance; before the first, the stored one
	crash     atomic.Pointer[status.Crash]      // the latest crash
	// string: the state and kind of the failure last logged; see saidAlready
	said    atomic.Value
	secrets ownSecrets
	trial   *trial
	trying  chan struct{} // holds a value while a call tries to start an instance
	tries   atomic.Int64  // number of starts begun by calls
	succession
	instances
}

// Options of a unit.
type Options struct {
	Candidate discovery.Candidate
	Spec      runtime.Spec
	Report    process.EnvReport
	Secrets   []string // secret values besides those in the environment and the headers
	// MasksAlways masks errors even if the unit was given no secret at the start.
	MasksAlways bool
	// Start makes an instance for the slot of a key. Default: [runtime.New].
	Start func(s runtime.Spec, key string) (runtime.Instance, error)
	// BothVersions gives legacy clients of MCP their own group, if the transport can speak legacy and modern
	// versions and instances are shared.
	BothVersions bool
	// PerKey gives each key of [Unit.AcquireKey] its own instance.
	PerKey bool
	// Prepare sets what is specific to the instance of a key. Nil: nothing.
	Prepare func(s *runtime.Spec, key string)
	// Fingerprint returns the fingerprint of the program of an instance. Nil: "".
	Fingerprint func() string
	// Keep is the Keep of [supervisor.Options].
	Keep func(key string) bool
	// Cooldown is the Cooldown of [supervisor.Restart].
	Cooldown time.Duration
	Events
}

// Events are the callbacks of a unit. Each may be nil.
type Events struct {
	// Admit decides whether an instance may start.
	Admit func(ctx context.Context) error
	// Described is called with the handshake of an instance before the instance accepts calls, and with announced set
	// after a later change of its tools.
	Described func(i *Instance, announced bool)
	// Ready runs concurrently after an instance has become ready, and ends with ctx.
	Ready func(ctx context.Context, i *Instance)
	// State receives every event of the unit's group.
	State func(supervisor.Event)
	// LogState logs a change of state. Default: above info level only if somebody must act.
	LogState func(*slog.Logger, supervisor.Event)
	// Incoming handles requests and notifications of an instance outside of calls. Nil refuses them, and tells
	// the instance that the host relays nothing.
	Incoming func(ctx context.Context, i *Instance, method string, params json.RawMessage,
		notify bool) (json.RawMessage, error)
	// Session returns the session of an instance's key, nil if there is none.
	Session func(key string) *protocol.Session
	// Relayed returns the client capabilities for an MCP server that several sessions share. Nil: none.
	Relayed func() json.RawMessage
}

// New prepares a unit. Nothing starts before Start or a call.
func New(env *Env, o Options) *Unit {
	if o.Start == nil {
		o.Start = func(s runtime.Spec, _ string) (runtime.Instance, error) { return runtime.New(s) }
	}
	u := &Unit{
		Candidate:  o.Candidate,
		Spec:       &o.Spec,
		Log:        env.Log.With("extension", o.Candidate.ID),
		Calls:      new(stats.Calls),
		Env:        env,
		report:     o.Report,
		events:     o.Events,
		trial:      newTrial(),
		trying:     make(chan struct{}, 1),
		succession: succession{stopped: make(chan struct{})},
	}
	t := o.Spec.Manifest.Transport
	u.secrets.values = slices.DeleteFunc(slices.Concat(process.Secrets(o.Spec.Env), transportSecrets(t), o.Secrets),
		secrets.Refers) // the secrets that these texts refer to are learned when they are resolved
	u.secrets.always = o.MasksAlways || t.TokenFile != "" || o.Spec.Resolve != nil || o.Spec.Login != nil
	o.Spec.Held = new(runtime.Held)
	o.Spec.Secret = u.Learn
	u.group = supervisor.NewGroup(func(key string) (*Instance, error) { return u.newInstance(&o, key) },
		u.groupOptions(&o, u.observe))
	u.Legacy = newLegacyGroup(u, &o)
	u.Phase = &Phase{
		id:        u.ID(),
		transport: t,
		onDemand:  onDemand(u.Spec),
		runs:      u.Instances,
		slots:     func() []supervisor.SlotStatus { return append(u.group.Status(), u.Legacy.slots()...) },
	}
	return u
}

// newInstance prepares an instance for the slot of a key.
func (u *Unit) newInstance(o *Options, key string) (*Instance, error) {
	i := &Instance{
		Unit:    u,
		Key:     key,
		ended:   make(chan struct{}),
		logTurn: make(chan struct{}, 1),
	}
	i.logLevel.Store(NoLogLevel)
	i.logAsked.Store(NoLogLevel)
	if o.Fingerprint != nil {
		i.Fingerprint = o.Fingerprint()
	}
	s := o.Spec
	if o.Prepare != nil {
		o.Prepare(&s, key)
	}
	s.ToolsChanged, s.Tap = func() { i.described(true) }, u.Env.Tap.Wire(u.ID())
	if !strings.HasPrefix(u.ID(), status.PolicyPrefix) { // a policy sees the credentials of callers
		s.Record = u.Env.Recorder.Wire(u.ID())
	}
	if o.Incoming != nil {
		s.Incoming = func(ctx context.Context, method string, params json.RawMessage,
			notify bool) (json.RawMessage, error) {
			return o.Incoming(ctx, i, method, params, notify)
		}
		s.Capabilities = u.relayed(key)
		s.Older = isLegacyKey(key)
	}
	if hs := u.handshake.Load(); hs != nil {
		s.InitializeFirst = hs.InitializeFirst
	}
	run, err := o.Start(s, key)
	i.Instance = run
	return i, err
}

// relayedNative are the capabilities that the host relays between a native extension and its callers.
var relayedNative = json.RawMessage(`{"message":{},"progress":{}}`)

// relayed returns the client capabilities that an instance is told: those of its session's client or, if it has no
// session of its own, those that the host relays.
func (u *Unit) relayed(key string) json.RawMessage {
	if u.Spec.Manifest.Transport.Protocol != manifest.ProtocolMCP {
		return relayedNative
	}
	if s := u.Session(key); s != nil && len(s.Capabilities) > 0 {
		return s.Capabilities
	}
	if u.events.Relayed == nil {
		return nil
	}
	return u.events.Relayed()
}

// Session returns the session of the instance with that key, nil if the instance has none of its own.
func (u *Unit) Session(key string) *protocol.Session {
	if u.events.Session == nil || !u.PerSession() || !IsSessionKey(key) {
		return nil
	}
	return u.events.Session(key)
}

// Base implements [Runner].
func (u *Unit) Base() *Unit { return u }

// ID returns the id of the extension, the name of the destination, or policy:NAME.
func (u *Unit) ID() string { return u.Candidate.ID }

// PerSession reports whether each session has an instance of its own.
func (u *Unit) PerSession() bool { return u.Spec.Options.Instances.PerSession() }

// Handshake returns the handshake of the latest instance. Before the first, it is the stored handshake of the same
// program, or nil.
func (u *Unit) Handshake() *runtime.Handshake { return u.handshake.Load() }

// Start implements [Runner].
func (u *Unit) Start(ctx context.Context) error {
	switch {
	case !onDemand(u.Spec):
		return u.group.Start(ctx)
	case u.trial.wanted:
		return u.startTrial(ctx)
	}
	return u.Try(ctx)
}

// firstHandshake is the key of an instance that is started to learn its handshake.
const firstHandshake = "first handshake"

// Try starts an instance as a call does, and waits for it.
func (u *Unit) Try(ctx context.Context) error {
	_, release, err := u.group.Acquire(ctx, firstHandshake)
	if err != nil {
		return err
	}
	release(nil)
	u.group.Release(firstHandshake)
	return nil
}

// tryPause is the shortest time between a failure and the next start by a call.
const tryPause = time.Second

// TryAgain starts an instance for a call that does not wait for the scheduled restart. It makes one attempt at a
// time, and the next one tryPause after the latest failure. Waiting calls share the failure of an attempt that began
// after them, so the server gets at most one connection per tryPause. A start that began before the call says nothing
// about the server now, so its failure is followed by one more attempt. TryAgain reports whether there is an
// instance.
func (u *Unit) TryAgain(ctx context.Context) bool {
	before := u.tries.Load()
	select {
	case u.trying <- struct{}{}:
		defer func() { <-u.trying }()
	case <-ctx.Done():
		return false
	}
	if u.tries.Load() != before {
		return false
	}
	for range 2 {
		select {
		case <-time.After(time.Until(u.Phase.failed().Add(tryPause))):
		case <-ctx.Done():
			return false
		}
		joins := u.Phase.is(supervisor.Spawning)
		if !joins {
			u.tries.Add(1)
		}
		if u.Try(ctx) == nil {
			return true
		}
		if !joins {
			break
		}
	}
	return false
}

// onDemand reports whether instances start with a call.
func onDemand(s *runtime.Spec) bool {
	return s.Options.Activation == manifest.ActivationLazy || s.Options.Instances.PerSession()
}

// declares reports whether the manifest lists the tools.
func declares(s *runtime.Spec) bool { return len(s.Manifest.Tools) > 0 }

// NeedsStart reports whether the unit is started with the host: unless it starts on demand and its tools are
// known, from the manifest or from an earlier handshake.
func (u *Unit) NeedsStart() bool {
	return u.trial.wanted || !onDemand(u.Spec) || !declares(u.Spec) && u.handshake.Load() == nil
}

// StartsOnCall reports whether a call starts an instance at once after a failed start: only for a unit that is
// reached over the network.
func (u *Unit) StartsOnCall() bool {
	return manifest.IsRemote(u.Candidate.Manifest.Transport.Kind) && !onDemand(u.Spec) && u.Phase.Failure() != "" &&
		!u.Phase.is(supervisor.Ready)
}

// Want is what a call requires of an instance.
type Want struct {
	Session *protocol.Session // nil: a Go caller
	Tool    string            // the extension's own tool name; "": a request for no tool
	Raw     json.RawMessage   // the tool's descriptor as shown to the caller
	Not     []*Instance       // instances that have refused the call
	Node    string            // cluster node that takes the call; "": any
}

// Acquire returns the instance that serves a call, and a function that gives the instance back with the call's error.
func (u *Unit) Acquire(ctx context.Context, w Want) (*Instance, func(error), error) {
	if w.Node != "" && w.Node != u.Env.Node {
		return nil, nil, protocol.Errorf(protocol.ToolNotFound, "node %s does not have %s; this host alone has it",
			w.Node, u.ID())
	}
	i, release, err := u.AcquireKey(ctx, u.keyFor(w.Session))
	if err == nil && i.InLegacyGroup() && modern(i.Handshake()) {
		release(nil)
		u.Legacy.giveUp()
		return u.AcquireKey(ctx, u.keyFor(w.Session))
	}
	return i, release, err
}

// AcquireKey returns the instance with a key, for a request of the host.
func (u *Unit) AcquireKey(ctx context.Context, key string) (*Instance, func(error), error) {
	return u.groupOf(key).Acquire(ctx, key)
}

// keyFor returns the key of the instance that serves s.
func (u *Unit) keyFor(s *protocol.Session) string {
	if u.Legacy.Serves(s) {
		return legacyKey
	}
	return SessionKey(s)
}

// groups returns the groups of the unit's instances.
func (u *Unit) groups() []*supervisor.Group[*Instance] {
	if u.Legacy.group == nil {
		return []*supervisor.Group[*Instance]{u.group}
	}
	return []*supervisor.Group[*Instance]{u.group, u.Legacy.group}
}

func (u *Unit) groupOf(key string) *supervisor.Group[*Instance] {
	if key == legacyKey {
		return u.Legacy.group
	}
	return u.group
}

// Refusal returns why a call of s would be refused now because instances keep failing, nil if it would be served.
func (u *Unit) Refusal(ctx context.Context, s *protocol.Session) error {
	key := u.keyFor(s)
	return u.groupOf(key).Refusal(ctx, key)
}

// EndSession implements [Runner].
func (u *Unit) EndSession(key string) { u.group.Release(key) }

// Stop implements [Runner].
func (u *Unit) Stop(ctx context.Context, drain time.Duration) error {
	groups := u.groups()
	errs := make([]error, len(groups))
	var beside sync.WaitGroup
	for n, g := range groups {
		beside.Go(func() { errs[n] = g.Stop(ctx, drain) })
	}
	beside.Wait()
	return errors.Join(errs...)
}

// Restart implements [Runner].
func (u *Unit) Restart(ctx context.Context) error {
	u.Calls.Forget() // what this restart runs into counts anew
	var err error
	for _, g := range u.groups() {
		err = errors.Join(err, g.Restart(ctx))
	}
	if err == nil {
		u.group.Release(firstHandshake) // it belongs to no session
	}
	return err
}

// Permitted returns why a new instance may not start, nil if it may: the user has not agreed to what is on disk, or
// the lock file states another package.
func (u *Unit) Permitted(ctx context.Context) error {
	if u.Spec.Permit == nil {
		return nil
	}
	_, err := u.Spec.Permit(ctx)
	return err
}

// Kill implements [Runner].
func (u *Unit) Kill() {
	for _, i := range u.Instances() {
		i.Kill()
	}
}
