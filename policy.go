package exthost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/mcppolicy"
	"github.com/exthost/exthost/governance/nativepolicy"
	"github.com/exthost/exthost/internal/process"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
)

// PolicyPrefix begins the id of a policy's process, which no extension's id can:
// policy:NAME in [Options.Start], [Admin.Restart] and [LogFilter].
const PolicyPrefix = "policy:"

// PolicyKinds make the policies whose code the library does not link by itself,
// because each of the two adds two thirds to the size of a program. Where a field is
// nil, [Open] and a reload refuse a configuration that states such a policy, with an
// error of kind config_invalid that names the policy and the field. No other policy
// needs a field.
type PolicyKinds struct {
	// CEL makes a policy of `builtin: cel`: celpolicy.New. Set CheckCEL of
	// config.LoadOptions too, and an error in an expression names its file and line.
	CEL func(governance.Spec) (governance.Policy, error)
	// GRPC makes one run of the process of a policy of `kind: grpc`:
	// grpcpolicy.NewInstance.
	GRPC func(governance.Spec, runtime.Spec) PolicyInstance
}

// PolicyInstance is one run of a policy's process.
type PolicyInstance = interface {
	runtime.Instance
	governance.Policy
}

// members makes the pipeline's members: those of the configuration, which keep what
// they have counted when they are not new, the audit log, and the embedding program's.
func (h *Host) members(cfg *config.Config, before []governance.Member) ([]governance.Member, error) {
	list, err := governance.Members(cfg.Plugins, before, func(s governance.Spec) (governance.Policy, error) {
		if s.Kind == governance.KindBuiltin {
			return h.builtinPolicy(s)
		}
		return h.newOfficer(cfg, s)
	})
	if err != nil {
		return nil, protocol.Errorf(protocol.ConfigInvalid, "plugins: %w", err)
	}
	return slices.Concat(list, h.oversight.members(), h.opts.Policies), nil
}

// officer is a policy with a process: an instance decides, whichever runs.
type officer struct{ x *extension }

var _ governance.Policy = officer{}

// Decide implements [governance.Policy].
func (o officer) Decide(ctx context.Context, flow governance.Flow, x *governance.Exchange) (governance.Decision, error) {
	i, release, err := o.x.group.Acquire(ctx, "")
	if err != nil {
		return governance.Decision{}, err
	}
	d, err := i.Instance.(governance.Policy).Decide(ctx, flow, x)
	err = o.x.masked(err)
	release(err)
	return d, err
}

// newOfficer prepares the process of a policy.
func (h *Host) newOfficer(cfg *config.Config, s governance.Spec) (governance.Policy, error) {
	if s.Kind == governance.KindGRPC && h.opts.PolicyKinds.GRPC == nil {
		return nil, errors.New("kind: this program does not link grpc: set PolicyKinds.GRPC of its exthost.Options to grpcpolicy.NewInstance")
	}
	spec, report, err := h.policySpec(cfg, s)
	if err != nil {
		return nil, err
	}
	c := discovery.Candidate{ID: spec.ID, Dir: spec.Dir, Manifest: spec.Manifest}
	x := h.newWorker(c, spec, report, func(spec runtime.Spec) (runtime.Instance, error) { return h.newDecider(s, spec) }, nil)
	x.policy = &s
	return officer{x}, nil
}

// pipeline is the pipeline of members: the one of before, when it has the same.
func (h *Host) pipeline(members []governance.Member, before *roster) *governance.Pipeline {
	if before != nil && slices.EqualFunc(members, before.members, sameMember) {
		return before.policy
	}
	return governance.NewPipeline(governance.Options{Log: h.log, Traces: h.oversight.traces, Approver: h.oversight.desk, Observe: h.decided}, members...)
}

func sameMember(a, b governance.Member) bool {
	return a.Policy == b.Policy && reflect.DeepEqual(a.Spec, b.Spec)
}

// officers are the processes of members.
func officers(members []governance.Member) (list []*extension) {
	for _, m := range members {
		if o, ok := m.Policy.(officer); ok {
			list = append(list, o.x)
		}
	}
	return list
}

// newDecider returns one run of a policy's process.
func (h *Host) newDecider(s governance.Spec, spec runtime.Spec) (runtime.Instance, error) {
	if s.Kind == governance.KindGRPC {
		return h.opts.PolicyKinds.GRPC(s, spec), nil
	}
	i, err := runtime.New(spec)
	if err != nil {
		return nil, err
	}
	d := &decider{Instance: i, open: func(context.Context) (governance.Policy, error) { return nativepolicy.New(s, asking{i}), nil }}
	if s.Kind == governance.KindMCP {
		d.open = func(ctx context.Context) (governance.Policy, error) { return mcppolicy.Open(ctx, s, asking{i}) }
	}
	return d, nil
}

// decider is an instance that is asked for decisions.
type decider struct {
	runtime.Instance
	open   func(ctx context.Context) (governance.Policy, error) // after the handshake
	policy governance.Policy                                    // once ready
}

// Serve implements [supervisor.Service].
func (d *decider) Serve(ctx context.Context, ready func()) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var refused error
	err := d.Instance.Serve(ctx, func() {
		if d.policy, refused = d.open(ctx); refused != nil {
			stop()
			return
		}
		ready()
	})
	if refused != nil {
		return refused
	}
	return err
}

// Decide implements [governance.Policy].
func (d *decider) Decide(ctx context.Context, flow governance.Flow, x *governance.Exchange) (governance.Decision, error) {
	return d.policy.Decide(ctx, flow, x)
}

// asking is the one method that a policy's adapter needs of an instance.
type asking struct{ i runtime.Instance }

// Call asks the process.
func (a asking) Call(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	return a.i.Call(ctx, &runtime.Request{Method: method, Params: params})
}

// policySpec is everything that a policy's process is run with: what an extension
// would get that states the same.
func (h *Host) policySpec(cfg *config.Config, s governance.Spec) (runtime.Spec, process.EnvReport, error) {
	t := manifest.Transport{Kind: manifest.KindStdio, Cmd: s.Cmd, Env: s.Env, Cwd: s.Cwd, Protocol: manifest.ProtocolNative}
	if m := s.MCP; m != nil {
		t = manifest.Transport{Kind: manifest.KindStdio, Cmd: m.Cmd, Script: m.Script, Env: m.Env, Cwd: m.Cwd, URL: m.URL, Protocol: manifest.ProtocolMCP}
		switch m.Proto {
		case governance.ProtoStreamableHTTP:
			t.Kind = manifest.KindHTTP
		case governance.ProtoSSE:
			t.Kind = manifest.KindSSE
		}
	}
	if t.Cwd == "" {
		wd, err := os.Getwd()
		if err != nil {
			return runtime.Spec{}, process.EnvReport{}, err
		}
		t.Cwd = wd
	}
	handshake, call := manifest.Duration(s.HandshakeTimeout), manifest.Duration(s.Timeout)
	limits := manifest.Runtime{StartTimeout: &handshake, CallTimeout: &call, MaxCallTimeout: &call, Restart: cfg.Extensions.Defaults.Restart}
	id := PolicyPrefix + s.Name
	spec := runtime.Spec{
		ID: id, Dir: t.Cwd, Manifest: &manifest.Manifest{Plugin: manifest.Plugin{ID: id, Description: s.Description}, Transport: t},
		Options: limits.Resolve(t), HostVersion: h.opts.Version, Self: h.opts.Self,
		StateDir: filepath.Join(h.opts.StateDir, ".policies", "policy-"+url.PathEscape(s.Name)),
		Logger:   h.log.With("extension", id), Containment: h.containment,
	}
	if err := os.MkdirAll(spec.StateDir, 0o700); err != nil {
		return spec, process.EnvReport{}, fmt.Errorf("no state directory: %w", err)
	}
	var err error
	if spec.Config, err = json.Marshal(s.Config); err != nil {
		return spec, process.EnvReport{}, err
	}
	var report process.EnvReport
	spec.Env, report = h.childEnv(cfg, &spec, t.Env)
	return spec, report, nil
}
