package exthost

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/internal/process"
	"github.com/exthost/exthost/internal/rawjson"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
	"github.com/exthost/exthost/tools"
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

// destinationSpec is everything that an instance of a destination is run with, and
// the values among it that only its secrets_file knows.
func (h *Host) destinationSpec(cfg *config.Config, name string, d config.Destination) (s runtime.Spec, report process.EnvReport, secrets []string, err error) {
	t := manifest.Transport{Kind: d.Type, Cmd: d.Command, Env: d.Env, Cwd: d.Cwd, URL: d.URL, Headers: d.Headers,
		Protocol: manifest.ProtocolMCP, MCPVersion: manifest.MCPVersionAuto}
	s = runtime.Spec{
		ID: name, Dir: t.Cwd, Manifest: &manifest.Manifest{Plugin: manifest.Plugin{ID: name}, Transport: t},
		Options: destinationOptions(cfg, d).Resolve(t), HostVersion: h.opts.Version, Self: h.opts.Self,
		StateDir: filepath.Join(h.opts.StateDir, ".destinations", url.PathEscape(name)),
		Logger:   h.log.With("extension", name), Containment: h.containment,
	}
	secret, err := readSecrets(d.SecretsFile)
	if err != nil {
		return s, report, nil, err
	}
	if err := os.MkdirAll(s.StateDir, 0o700); err != nil {
		return s, report, nil, fmt.Errorf("no state directory: %w", err)
	}
	s.Env, _ = h.childEnv(cfg, &s, secret)
	if s.Manifest, err = expanded(s.Manifest, process.Lookup(s.Env)); err != nil {
		return s, report, nil, err
	}
	stated := make(map[string]string)
	maps.Copy(stated, secret)
	maps.Copy(stated, s.Manifest.Transport.Env)
	s.Env, report = h.childEnv(cfg, &s, stated)
	return s, report, slices.Collect(maps.Values(secret)), nil
}

// destinationOptions are the [runtime] options of a destination: each connection
// has its own instance, which starts with it and again when it ends, as often as
// its fuse allows.
func destinationOptions(cfg *config.Config, d config.Destination) manifest.Runtime {
	most, unlimited, atOnce := maxConnections, -1, manifest.Duration(1)
	r := manifest.Runtime{
		Activation: manifest.ActivationLazy, Instances: cmp.Or(d.Instances, manifest.InstancesPerSession), StartTimeout: &d.StartTimeout,
		Restart: manifest.Restart{MaxAttempts: &unlimited, HealthyAfter: &atOnce},
	}
	if cfg.Extensions.Defaults.MaxInstances == nil {
		r.MaxInstances = &most
	}
	return r.Over(cfg.Extensions.Defaults)
}

// maxSecrets is the size of the largest file that is read as a secrets_file.
const maxSecrets = 1 << 20

// readSecrets reads NAME=value lines; empty ones and those that begin with # are
// skipped, quotes around a value are taken off. It never says what a line holds.
func readSecrets(path string) (map[string]string, error) {
	if path == "" {
		return nil, nil
	}
	info, err := os.Stat(path)
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxSecrets) {
		err = fmt.Errorf("%s is no file of at most %d bytes", path, maxSecrets)
	}
	if err != nil {
		return nil, fmt.Errorf("secrets_file: %w", err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("secrets_file: %w", err)
	}
	vars := make(map[string]string)
	n := 0
	for line := range strings.Lines(string(data)) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, value, ok := strings.Cut(strings.TrimPrefix(line, "export "), "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !ok || name == "" || strings.ContainsAny(name, " \t\"'") || strings.ContainsRune(value, 0) {
			return nil, fmt.Errorf("secrets_file: %s:%d is not NAME=value", path, n)
		}
		if len(value) > 1 && (value[0] == '"' || value[0] == '\'') && value[len(value)-1] == value[0] {
			value = value[1 : len(value)-1]
		}
		vars[name] = value
	}
	return vars, nil
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

// naming is how policies know the tools of a destination.
type naming struct {
	byTool map[string]string
	taken  map[string]bool
}

// learn takes the names of what an instance offers.
func (b *bridge) learn(offered []protocol.Tool) {
	n := &naming{byTool: make(map[string]string, len(offered)), taken: make(map[string]bool, len(offered))}
	for _, t := range offered {
		if name, _, ok := tools.Register(b.name, t.Name, func(name string) bool { return n.taken[name] }); ok {
			n.byTool[t.Name], n.taken[name] = name, true
		}
	}
	b.names.Store(n)
}

// canonical is the registered name of one of the destination's tools. One that it
// has not listed gets none that another may have.
func (b *bridge) canonical(tool string) string {
	n := b.names.Load()
	if n == nil {
		n = new(naming)
	}
	if name := n.byTool[tool]; name != "" {
		return name
	}
	plain := "ext_" + b.name + "_" + tool
	name, _, _ := tools.Register(b.name, tool, func(name string) bool { return name != plain || n.taken[name] })
	return name
}

// visible takes what the caller may not see out of a list of tools.
func (r *routed) visible(result json.RawMessage) json.RawMessage {
	var list []json.RawMessage
	if err := json.Unmarshal(rawjson.Get(result, "tools"), &list); err != nil {
		return result
	}
	all := len(list)
	list = slices.DeleteFunc(list, func(tool json.RawMessage) bool {
		name, _ := rawjson.Text(rawjson.Get(tool, "name"))
		return !r.gen.policy.Visible(r.exchange.Caller, r.exchange.Extension, r.target.bridge.canonical(name)) || r.gen.unpinned(r.target, tool)
	})
	if len(list) == all {
		return result
	}
	seen, err := json.Marshal(list)
	if err != nil {
		return result
	}
	return rawjson.Set(result, "tools", seen)
}
