package exthost

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/internal/process"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
	"github.com/exthost/exthost/supervisor"
)

// extension is one candidate that may run here, and the group that keeps it alive.
type extension struct {
	candidate discovery.Candidate
	options   manifest.Options
	group     *supervisor.Group[*instance]
	stateDir  string
	env       process.EnvReport // what its children are not given, and which secrets they are
	handshake atomic.Pointer[runtime.Handshake]
	calls     callStats
}

// instance is one running child of an extension. It notes what its handshake
// offered before anybody can call it.
type instance struct {
	runtime.Instance
	extension *extension
	offer     func() // told when the extension's tools may have changed
}

// Serve implements [supervisor.Service].
func (i *instance) Serve(ctx context.Context, ready func()) error {
	return i.Instance.Serve(ctx, func() {
		i.extension.handshake.Store(i.Handshake())
		ready()
		i.offer()
	})
}

var _ supervisor.Service = (*instance)(nil)

// newExtension prepares a candidate to run; nil when it may not run here, with
// the diagnostics that say why.
func (h *Host) newExtension(c discovery.Candidate) (*extension, []protocol.Diagnostic) {
	if missing := discovery.Gate(&c, h.gate()); len(missing) > 0 {
		return nil, missing
	}
	spec, report, err := h.spec(c)
	if err != nil {
		return nil, []protocol.Diagnostic{{Level: protocol.LevelError, Code: string(protocol.KindOf(err)), Extension: c.ID, Path: c.Path, Message: err.Error()}}
	}
	x := &extension{candidate: c, options: spec.Options, stateDir: spec.StateDir, env: report}
	x.group = supervisor.NewGroup(func(string) (*instance, error) {
		i := &instance{extension: x, offer: h.offersChanged}
		s := spec
		s.ToolsChanged = func() { x.handshake.Store(i.Handshake()); h.offersChanged() }
		child, err := runtime.New(s)
		i.Instance = child
		return i, err
	}, groupOptions(c, spec.Options, h.log))
	if len(report.Withheld) > 0 {
		h.log.Debug("environment withheld", "extension", c.ID, "names", report.Withheld)
	}
	return x, nil
}

// gate is what the requirements of extensions are held against.
func (h *Host) gate() discovery.Host {
	vars := make(map[string]string, len(h.opts.Environ))
	for _, entry := range h.opts.Environ {
		name, value, _ := strings.Cut(entry, "=")
		vars[name] = value
	}
	return discovery.Host{
		LookupEnv: func(name string) (string, bool) { v, ok := vars[name]; return v, ok },
		Path:      vars["PATH"], Version: h.opts.Version,
	}
}

// spec is everything the runtime needs to run one instance of c.
func (h *Host) spec(c discovery.Candidate) (runtime.Spec, process.EnvReport, error) {
	entry := h.cfg.Extensions.Entries[c.ID]
	options := entry.Runtime.Over(c.Manifest.Runtime.Over(h.cfg.Extensions.Defaults)).Resolve(c.Manifest.Transport)
	state := filepath.Join(h.opts.StateDir, c.ID)
	if err := os.MkdirAll(state, 0o700); err != nil {
		return runtime.Spec{}, process.EnvReport{}, protocol.Errorf(protocol.SpawnFailed, "no state directory: %w", err)
	}
	env, report := h.childEnv(c, entry.Env, entry.EnvDeny, state)
	cfg, err := c.Manifest.MergeConfig(entry.Config)
	if err != nil {
		return runtime.Spec{}, report, protocol.Errorf(protocol.ConfigInvalid, "%w; mend extensions.entries.%s.config", err, c.ID)
	}
	return runtime.Spec{
		ID: c.ID, Dir: c.Dir, Manifest: c.Manifest, Options: options,
		Config: cfg, StateDir: state, HostVersion: h.opts.Version,
		Env: env, Logger: h.log.With("extension", c.ID),
	}, report, nil
}

// childEnv is the environment of c's processes: the host's less what looks
// secret, what the manifest and the operator state, and the host's own names.
func (h *Host) childEnv(c discovery.Candidate, set map[string]string, deny []string, state string) ([]string, process.EnvReport) {
	stated := map[string]string{}
	maps.Copy(stated, c.Manifest.Transport.Env)
	maps.Copy(stated, set)
	maps.Copy(stated, map[string]string{
		"EXTHOST_EXTENSION_ID":     c.ID,
		"EXTHOST_VERSION":          h.opts.Version,
		"EXTHOST_PROTOCOL_VERSION": strconv.Itoa(protocol.Version),
		"EXTHOST_STATE_DIR":        state,
	})
	return process.Environ(h.opts.Environ, process.EnvPolicy{
		Mode: h.cfg.Extensions.Env.Mode, Pass: h.cfg.Extensions.Env.Pass,
		Declared: c.Manifest.Requires.Env, Deny: deny, Set: stated,
	})
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
	const key = "first handshake"
	_, release, err := x.group.Acquire(ctx, key)
	if err != nil {
		return err
	}
	release(nil)
	x.group.Release(key)
	return nil
}

// offered are the tools of the last handshake, or the declared ones of an
// extension that has none, with what the handshake found wrong.
func (x *extension) offered() ([]protocol.Tool, []protocol.Diagnostic) {
	if hs := x.handshake.Load(); hs != nil {
		return hs.Tools, hs.Diagnostics
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
		AgentID   string `json:"agent_id"`
		SessionID string `json:"session_id,omitempty"`
	}
	if c.Session != nil {
		meta.AgentID, meta.SessionID = c.Session.Caller, c.Session.ID
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
		Message: "did not start: " + message(err),
	}
}
