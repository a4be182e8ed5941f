package unit

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/hooks"
	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/internal/host/descriptors"
	"github.com/exthost/exthost/internal/host/permit"
	"github.com/exthost/exthost/internal/proc/containment/limited"
	"github.com/exthost/exthost/internal/proc/process"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
	"github.com/exthost/exthost/status"
	"github.com/exthost/exthost/supervisor"
	"github.com/exthost/exthost/tools"
)

// Extension is a unit found on disk, whose tools are in the catalog.
type Extension struct {
	*Unit
	Source   descriptors.Source     // the files of the extension
	Commands []hooks.Handler        // hooks that run commands
	known    *descriptors.Known     // descriptors of the last handshake
	declared func() []protocol.Tool // tools of the manifest, read once

	remote    atomic.Pointer[Remote] // nil: at no other node
	withdrawn atomic.Bool            // the first start with the host failed
	late      sync.Once              // logs once that a request did not wait for the extension
}

// Remote is the part of an extension that other nodes run.
type Remote struct {
	Nodes  []string                 // nodes that run it
	Reason string                   // why the extension takes no calls there; "": it takes calls
	Tools  []protocol.Tool          // its tools there
	Risks  map[string]protocol.Risk // of these tools, by the word of the nodes
	Pages  bool                     // a node holds long results of the extension, to be read in pages
	// Differs reports the tools of other nodes that are never called, because callers are shown this host's
	// descriptors.
	Differs func(own []protocol.Tool) []protocol.Diagnostic
	// Acquire returns the instance for a call: one of local, or one that stands for another node.
	Acquire func(ctx context.Context, local *Unit, w Want) (*Instance, func(error), error)
}

// NewRemote makes an extension that only other nodes run. o.Start makes the instance that stands for a node.
func NewRemote(env *Env, o Options, events func(*Extension) Events) *Extension {
	x := &Extension{known: new(descriptors.Known), declared: func() []protocol.Tool { return nil }}
	o.PerKey, o.Events = true, events(x)
	x.Unit = New(env, o)
	return x
}

// SetRemote sets the part that other nodes run; nil: none. hs holds the descriptors of an extension that only
// other nodes run, else nil.
func (x *Extension) SetRemote(e *Remote, hs *runtime.Handshake) {
	x.remote.Store(e)
	if hs != nil {
		x.handshake.Store(hs)
	}
}

// HasRemotePages reports whether another node holds long results of the extension, to be read in pages.
func (x *Extension) HasRemotePages() bool {
	e := x.remote.Load()
	return e != nil && e.Pages
}

// Acquire is [Unit.Acquire], including other nodes.
func (x *Extension) Acquire(ctx context.Context, w Want) (*Instance, func(error), error) {
	if e := x.remote.Load(); e != nil {
		return e.Acquire(ctx, x.Unit, w)
	}
	return x.Unit.Acquire(ctx, w)
}

// LoginOf returns the login of the extension, which serves all callers; nil if none.
func (x *Extension) LoginOf(string) runtime.Login { return x.Spec.Login }

// NewExtension prepares c to run. If c cannot run here, it returns nil and the diagnostics that say why.
func NewExtension(env *Env, cfg *config.Config, c discovery.Candidate, runner *hooks.Runner,
	events func(*Extension) Events) (*Extension, []protocol.Diagnostic) {
	if d := env.Permits.Untrusted(cfg, &c, env.Environ); d != nil {
		return nil, []protocol.Diagnostic{*d}
	}
	unpacked := env.Permits.Unpacked(&c)
	if unpacked != nil && unpacked.Level != protocol.LevelInfo {
		return nil, []protocol.Diagnostic{*unpacked}
	}
	missing := append(unusable(cfg, &c), discovery.Gate(&c, env.gate(cfg.Extensions.Environ(c.ID)))...)
	if len(missing) > 0 {
		return nil, missing
	}
	if c.Manifest.Transport.Kind == "" { // it has only hooks or skills
		m := *c.Manifest
		m.Transport.Kind = manifest.KindExec
		c.OwnedBy, c.Manifest = cmp.Or(c.OwnedBy, c.Manifest), &m // the lock file is about the manifest as it is stated
	}
	if d := env.unsupportedTransport(&c); d != nil {
		return nil, []protocol.Diagnostic{*d}
	}
	spec, report, err := env.Spec(cfg, c)
	if err != nil {
		d := protocol.Diagnostic{
			Level:     protocol.LevelError,
			Code:      string(protocol.KindOf(err)),
			Extension: c.ID,
			Path:      c.Path,
			Message:   err.Error(),
		}
		if d.Code == discovery.CodeRequirement { // a missing secret is like a missing variable
			d.Level, d.Message = protocol.LevelWarn, protocol.Reason(err)
		}
		return nil, []protocol.Diagnostic{d}
	}
	if spec.Replay != nil {
		c.Manifest = spec.Manifest // has the recorded protocol
	}
	x := &Extension{
		Source:   descriptors.SourceOf(&spec),
		declared: sync.OnceValue(func() []protocol.Tool { return runtime.Declared(c.Manifest) }),
	}
	of := events(x)
	dir, _ := process.Lookup(spec.Env)(permit.Variable) // empty without a package
	spec.Permit = env.Permits.Extension(cfg, &c, dir)
	x.Unit = New(env, Options{
		Candidate:    c,
		Spec:         spec,
		Report:       report,
		BothVersions: true,
		Events:       of,
		Secrets:      slices.Collect(maps.Values(cfg.Extensions.Entries[c.ID].FileEnv)),
		Fingerprint:  func() string { return x.fingerprint(cfg) },
	})
	if err := x.recall(env, cfg); file.Exhausted(err) || x.Source.Exhausted {
		return nil, []protocol.Diagnostic{{
			Level:     protocol.LevelWarn,
			Code:      manifest.CodeExhausted,
			Extension: c.ID,
			Path:      c.Path,
			Message:   "its files cannot be read: the host has no file descriptor left",
		}}
	}
	found, err := x.addCommands(runner, spec.Env)
	if err != nil {
		return nil, []protocol.Diagnostic{{
			Level:     protocol.LevelError,
			Code:      string(protocol.KindOf(err)),
			Extension: c.ID,
			Path:      c.Path,
			Message:   protocol.Reason(err),
		}}
	}
	if len(report.Withheld) > 0 {
		env.Log.Debug("environment withheld", "extension", c.ID, "names", report.Withheld)
	}
	if unpacked != nil {
		found = append(found, *unpacked)
	}
	return x, append(found, withoutEffect(&c, spec.Options)...)
}

// unusable reports the operator's values for c that cannot be used.
func unusable(cfg *config.Config, c *discovery.Candidate) (diags []protocol.Diagnostic) {
	for _, problem := range cfg.Extensions.Problems(c.ID) {
		diags = append(diags, protocol.Diagnostic{
			Level:     protocol.LevelWarn,
			Code:      discovery.CodeRequirement,
			Extension: c.ID,
			Path:      c.Path,
			Message:   problem,
		})
	}
	return diags
}

// gate returns what the requirements of an extension are checked against. stated are the variables that the
// operator states for it.
func (e *Env) gate(stated map[string]string) discovery.Host {
	host := process.Lookup(e.Environ)
	lookup := func(name string) (string, bool) {
		if value, ok := stated[name]; ok || process.LoadsCode(name) { // the child does not get the host's
			return value, ok
		}
		return host(name)
	}
	path, _ := lookup("PATH")
	return discovery.Host{LookupEnv: lookup, Withheld: process.LoadsCode, Path: path, Version: e.Version}
}

// codeUnsupported is the code of diagnostics about keys that this version or this system cannot carry out.
const codeUnsupported = "unsupported"

// unsupportedTransport reports a transport that this program cannot run, nil if it can.
func (e *Env) unsupportedTransport(c *discovery.Candidate) *protocol.Diagnostic {
	if c.Manifest.Transport.Kind != manifest.KindNATS || e.Services != nil {
		return nil
	}
	return &protocol.Diagnostic{
		Level:     protocol.LevelWarn,
		Code:      codeUnsupported,
		Extension: c.ID,
		Path:      c.Path,
		Message: "this program connects to no services on NATS: set Services of its exthost.Options to " +
			"services.New of package cluster/services",
	}
}

// withoutEffect reports the parts of the manifest that have no effect on this system.
func withoutEffect(c *discovery.Candidate, o manifest.Options) (diags []protocol.Diagnostic) {
	for _, part := range []struct {
		key     string
		applies bool
	}{
		{"[runtime.limits]", c.Manifest.Runtime.Limits != manifest.Limits{} && !limited.Enforced},
		{"runtime.isolate", o.Isolate != manifest.IsolateNone && !process.CanIsolate},
	} {
		if part.applies {
			diags = append(diags, protocol.Diagnostic{
				Level:     protocol.LevelWarn,
				Code:      codeUnsupported,
				Extension: c.ID,
				Path:      c.Path,
				Message:   part.key + " has no effect in this version",
			})
		}
	}
	return diags
}

// fingerprint returns the key under which the extension's descriptors are stored; "" if the manifest declares the
// tools, or no key can be made.
func (x *Extension) fingerprint(cfg *config.Config) string {
	if declares(x.Spec) {
		return ""
	}
	key, err := descriptors.Fingerprint(x.Spec, slices.Collect(maps.Keys(cfg.Extensions.Environ(x.ID())))...)
	if err != nil {
		x.Log.Debug("the tools of the extension are not stored for the next start", "reason", err)
	}
	return key
}

// recall loads the stored descriptors. If the program is unchanged, the stored handshake is that of the extension
// until it runs. The error says why the file cannot be read.
func (x *Extension) recall(env *Env, cfg *config.Config) (err error) {
	if x.known = new(descriptors.Known); declares(x.Spec) {
		return nil
	}
	if x.known, err = descriptors.NewCache(env.StateDir).Open(x.ID()); err != nil {
		x.Log.Debug("what it last offered cannot be read, and it starts without", "error", err)
	}
	last := x.known.Last()
	if last == nil {
		return err
	}
	if key := x.fingerprint(cfg); key != "" && key == last.Key {
		x.handshake.Store(&last.Handshake)
	}
	return err
}

// PruneDescriptors bounds the stored descriptors of extensions that are not among known, see
// [descriptors.Cache.Prune].
func (e *Env) PruneDescriptors(known map[string]*Extension) {
	descriptors.NewCache(e.StateDir).Prune(func(id string) bool { return known[id] != nil })
}

// Start implements [Runner]. If an extension that starts with the host fails, and no other attempt follows soon, the
// tools known from before are withdrawn.
func (x *Extension) Start(ctx context.Context) error {
	recalled := x.Handshake()
	err := x.Unit.Start(ctx)
	if err != nil && ctx.Err() == nil && !onDemand(x.Spec) && x.HasFailed() &&
		protocol.KindOf(err) != protocol.ShuttingDown {
		x.withdrawn.Store(true)
		x.handshake.CompareAndSwap(recalled, nil)
	}
	return err
}

// Tools returns the tools of the last handshake, or those of the manifest if the extension has not run, and problems
// with the handshake. Until the first handshake, a stored handshake of the same program takes its place.
func (x *Extension) Tools() ([]protocol.Tool, []protocol.Diagnostic) {
	own, diags := x.localTools()
	if e := x.remote.Load(); e != nil {
		return withMissing(own, e.Tools), slices.Concat(diags, e.Differs(own))
	}
	return own, diags
}

// RiskOf returns the risk of a tool of the extension, without the operator's word: as its manifest says, or the node
// that has the tool, else as its annotations say. A manifest does not lower the risk of a tool that is annotated as
// destructive.
func (x *Extension) RiskOf(tool string, annotations json.RawMessage) protocol.Risk {
	risk := tools.RiskOf(annotations)
	alone := x.Candidate.Manifest.Transport.Kind == status.TransportCluster // only other nodes run it
	if e := x.remote.Load(); e != nil && (alone || x.LocalTool(tool) == nil) {
		return e.Risks[tool].Known()
	}
	if stated, ok := x.Candidate.Manifest.Risk[tool]; ok && risk != protocol.RiskDestroy {
		return stated.Known()
	}
	return risk
}

// LocalTool returns a tool that the extension has at this host, nil if there is no such tool.
func (x *Extension) LocalTool(name string) *protocol.Tool {
	own, _ := x.localTools()
	for i := range own {
		if own[i].Name == name {
			return &own[i]
		}
	}
	return nil
}

func (x *Extension) localTools() ([]protocol.Tool, []protocol.Diagnostic) {
	if hs := x.Handshake(); hs != nil {
		return x.Legacy.addTools(hs.Tools), hs.Diagnostics
	}
	if declares(x.Spec) && !x.withdrawn.Load() {
		return x.declared(), nil
	}
	return nil, nil
}

// TellsTools reports whether the tools of the extension are known, even if it does not run.
func (x *Extension) TellsTools() bool { return x.Handshake() != nil || declares(x.Spec) }

// LogLate logs once that a request did not wait for the start of the extension.
func (x *Extension) LogLate(message string, attrs ...slog.Attr) {
	x.late.Do(func() { x.Log.LogAttrs(context.Background(), slog.LevelWarn, message, attrs...) })
}

// HookPoints returns the hook points that the extension serves in its own protocol: those of its handshake;
// before it, those of its manifest or of its stored handshake, so that the first event waits until the extension
// is ready.
func (x *Extension) HookPoints() []string {
	m := x.Candidate.Manifest
	switch hs := x.Handshake(); {
	case m.Transport.Protocol != manifest.ProtocolNative:
		return nil
	case hs != nil:
		return hs.Hooks
	case x.HasFailed() || x.withdrawn.Load(): // no event may wait for it
		return nil
	case m.Capabilities != nil:
		return m.Capabilities.Hooks
	}
	if last := x.known.Last(); last != nil {
		return last.Handshake.Hooks
	}
	return nil
}

// Undeclared returns the names of the tools that the extension offers, as far as that is known, and [capabilities] does
// not list.
func (x *Extension) Undeclared() []string {
	if hs := x.Handshake(); hs != nil {
		return hs.Undeclared
	}
	return runtime.Undeclared(x.Candidate.Manifest)
}

// Status returns the status of the extension, without its tools.
func (x *Extension) Status() status.Extension {
	s := x.Unit.Status()
	if e := x.remote.Load(); e != nil {
		s.Nodes = e.Nodes
		switch local := s.Transport != status.TransportCluster; {
		case local:
		case e.Reason != "":
			s.State, s.Reason = status.StateNotReady, e.Reason
		case s.State == string(supervisor.Idle):
			s.State = string(supervisor.Ready)
		}
	}
	points := make(map[string]bool)
	if hs := x.Handshake(); hs != nil {
		s.Protocol = hs.Spoken()
		for _, name := range hs.Hooks {
			points[name] = true
		}
	}
	for _, h := range x.Commands {
		points[string(h.Point)] = true
	}
	s.Hooks = slices.Sorted(maps.Keys(points))
	return s
}

// Remember stores the descriptors of an instance for the next start; announced says that the instance sent them after
// its handshake. Tools that the manifest lists are not stored.
func (x *Extension) Remember(i *Instance, announced bool) {
	if declares(x.Spec) {
		return
	}
	if err := x.known.Update(&descriptors.Entry{Key: i.Fingerprint, Handshake: *i.Handshake()}, announced); err != nil {
		x.Log.Debug("the tools of the extension could not be stored", "error", err)
	}
}

// Changed reports how the tools differ from those that the operator accepted last. pinned leaves out altered and new
// tools, which a policy reports already.
func (x *Extension) Changed(pinned bool) []protocol.Diagnostic {
	changes := x.known.Changes()
	if pinned {
		changes = slices.DeleteFunc(changes, func(c tools.Change) bool { return c.Altered() || c.Added() })
	}
	if len(changes) == 0 {
		return nil
	}
	return []protocol.Diagnostic{{
		Level:     protocol.LevelWarn,
		Code:      string(protocol.DescriptorChanged),
		Extension: x.ID(),
		Path:      x.Candidate.Path,
		Message:   "tools changed: " + descriptors.Describe(changes),
		Hint: "exthost tools accept " + x.ID() + " if that is right; else exthost disable " + x.ID() +
			", and ask its author",
	}}
}

// Pending returns the differences of each tool from the accepted one.
func (x *Extension) Pending() []descriptors.Pending { return x.known.Pending() }

// AcceptTools accepts the selected tools as they are now, and reports whether that changed anything.
func (x *Extension) AcceptTools(selected func(descriptors.Pending) bool) (changed bool, err error) {
	return x.known.Accept(selected)
}
