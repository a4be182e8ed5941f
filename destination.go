package exthost

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
)

// maxConnections is how many instances a destination has at most, unless
// extensions.defaults.max_instances says otherwise.
const maxConnections = 64

// bridge is what a destination has that other extensions have not.
type bridge struct {
	name    string
	config  config.Destination
	spec    runtime.Spec
	standby *runtime.Standby // nil: none is kept
	fuses   fuses
	unfit   error                 // why its configuration cannot be used
	broken  atomic.Pointer[error] // why it cannot run at all; nil or holding nil when it can
	names   atomic.Pointer[naming]

	mu     sync.Mutex
	env    map[string]map[string]string // what sessions bring for their instances, by key
	listen string                       // where a front serves it besides /{name}; "" nowhere
}

// newDestination prepares a destination to be connected to. What keeps it from
// running is the error of its start.
func (h *Host) newDestination(cfg *config.Config, name string, d config.Destination) *extension {
	spec, report, secrets, err := h.destinationSpec(cfg, name, d)
	c := discovery.Candidate{ID: name, Dir: spec.Dir, Manifest: spec.Manifest}
	b := &bridge{name: name, config: d, spec: spec, env: make(map[string]map[string]string)}
	if err != nil {
		b.unfit = protocol.Errorf(protocol.ConfigInvalid, "%w", err)
	}
	if err == nil && d.Type == config.DestinationStdio && len(d.EnvFromHeaders) == 0 {
		b.standby = runtime.NewStandby(spec)
	}
	x := h.newWorker(c, spec, report, runtime.New, b)
	x.secrets = append(x.secrets, secrets...)
	x.serveBoth(spec)
	return x
}

// start sees whether the destination can run, and has a process wait for the first
// connection.
func (b *bridge) start(ctx context.Context) error {
	err := b.check(ctx)
	b.broken.Store(&err)
	return err
}

func (b *bridge) check(ctx context.Context) error {
	if b.unfit != nil || b.config.Type != config.DestinationStdio {
		return b.unfit
	}
	if _, err := runtime.CommandLine(&b.spec); err != nil {
		return protocol.Errorf(protocol.SpawnFailed, "%w", err)
	}
	return b.standby.Fill(ctx)
}

// failure is why the destination cannot run at all; nil when it can.
func (b *bridge) failure() error {
	if err := b.broken.Load(); err != nil {
		return *err
	}
	return nil
}

// refuses returns why there is no connection for key now; nil when there may be.
func (b *bridge) refuses(key string, ask func(now time.Time, key string, lives bool) error, lives bool) error {
	if err := b.failure(); err != nil {
		refusal := protocol.Errorf(protocol.Failed, "it cannot run: %s; mend that, then exthost restart %s", message(err), b.name)
		refusal.RetryAfter = fuseRetry
		return refusal
	}
	return ask(time.Now(), key, lives)
}

// acquireBridged is acquire for a destination: the fuses are asked first, and told
// what came of it.
func (x *extension) acquireBridged(ctx context.Context, s *protocol.Session, key string) (*instance, func(error), error) {
	b := x.bridge
	if err := b.refuses(key, b.fuses.admit, x.lives(key)); err != nil {
		return nil, nil, err
	}
	if b.note(key, s) {
		x.host.keepSecrets()
	}
	i, release, err := x.acquireEra(ctx, s, key)
	if err != nil {
		return nil, nil, err
	}
	return i, func(err error) {
		switch kind := protocol.KindOf(err); {
		case kind == "", kind == protocol.ExtensionError: // it answered
			b.fuses.mended(i.key, starts)
		case processEnded(err):
			x.struck(i, true, err)
		}
		release(err)
	}, nil
}

// lives reports whether an instance of that key can be called.
func (x *extension) lives(key string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	for i := range x.instances {
		if i.key == key && i.Handshake() != nil {
			return true
		}
	}
	return false
}

// note keeps what s brings for its instance, which may be started again later. It
// reports whether that is news.
func (b *bridge) note(key string, s *protocol.Session) bool {
	if s == nil || len(s.Env) == 0 {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.env[key] != nil {
		return false
	}
	b.env[key] = s.Env
	return true
}

// forget drops what is known of a session that has ended.
func (b *bridge) forget(key string) {
	b.fuses.mended(key)
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.env, key)
}

// equip adds to s what the instance of that key has for itself.
func (b *bridge) equip(s *runtime.Spec, key string, session *protocol.Session) {
	s.Standby = b.standby
	if session != nil && len(session.ClientInfo) > 0 {
		s.ClientInfo = session.ClientInfo
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if set := b.env[key]; len(set) > 0 {
		s.Env = slices.DeleteFunc(slices.Clone(s.Env), func(kv string) bool {
			name, _, _ := strings.Cut(kv, "=")
			_, replaced := set[name]
			return replaced
		})
		for name, value := range set {
			s.Env = append(s.Env, name+"="+value)
		}
	}
}

// secrets are the values that sessions have brought.
func (b *bridge) secrets() (values []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, env := range b.env {
		values = slices.AppendSeq(values, maps.Values(env))
	}
	return values
}

// digest tells one session's variables from another's, without saying them.
func digest(env map[string]string) string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(env)) {
		fmt.Fprintf(h, "%q=%q\n", name, env[name])
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
