package policies

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/mcppolicy"
	"github.com/exthost/exthost/governance/nativepolicy"
	"github.com/exthost/exthost/internal/host/given"
	"github.com/exthost/exthost/internal/host/unit"
	"github.com/exthost/exthost/internal/proc/process"
	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
	"github.com/exthost/exthost/status"
)

// Process is a policy whose decisions come from a supervised process.
type Process struct {
	*unit.Unit
	Name string // the policy's name
}

var _ governance.Policy = (*Process)(nil)

// Decide implements [governance.Policy]. If the instance ended before it got the question, Decide asks another,
// once.
func (p *Process) Decide(ctx context.Context, flow governance.Flow, x *governance.Exchange,
) (governance.Decision, error) {
	d, unsent, err := p.ask(ctx, flow, x)
	if unsent && ctx.Err() == nil {
		d, _, err = p.ask(ctx, flow, x)
	}
	return d, err
}

func (p *Process) ask(ctx context.Context, flow governance.Flow, x *governance.Exchange,
) (d governance.Decision, unsent bool, err error) {
	i, release, err := p.AcquireKey(ctx, "")
	if err != nil {
		return d, false, err
	}
	d, err = i.Instance.(governance.Policy).Decide(ctx, flow, x)
	err = p.Mask(err)
	release(err)
	if unsent = i.IsUnsent(err); !unsent {
		p.keep(ctx, err)
	}
	return d, unsent, err
}

// maxWhy is the length of the longest reason of a failed decision in the status, in bytes.
const maxWhy = 240

// keep counts a decision for the status, or why there was none.
func (p *Process) keep(ctx context.Context, err error) {
	kind := protocol.KindOf(err)
	switch {
	case err == nil:
		p.Calls.Succeeded()
		return
	case ctx.Err() == nil:
	case context.Cause(ctx) == governance.ErrTimeout:
		kind = protocol.CallTimeout
	default: // nobody waits for the decision any more
		return
	}
	why := display.Cut(display.Visible(p.Env.Redactor.String(protocol.Reason(err))), maxWhy)
	if kind == protocol.CallTimeout {
		why = fmt.Sprintf("no decision within %s", p.Spec.Options.CallTimeout)
	}
	p.Calls.Failed(&status.Failure{Time: time.Now(), Kind: kind, Reason: why})
}

func (s *State) newProcess(cfg *config.Config, spec governance.Spec) (governance.Policy, error) {
	if spec.Kind == governance.KindGRPC && s.options.Kinds.GRPC == nil {
		return nil, errors.New("kind: this program does not link grpc: set PolicyKinds.GRPC of its exthost.Options " +
			"to grpcpolicy.NewInstance")
	}
	run, report, err := newSpec(s.env, cfg, spec)
	if err != nil {
		return nil, err
	}
	events := s.options.Events(run.ID)
	run.Permit = s.env.Permits.Configured(cfg, &run.Manifest.Transport)
	return &Process{
		Name: spec.Name,
		Unit: unit.New(s.env, unit.Options{
			Candidate: discovery.Candidate{ID: run.ID, Dir: run.Dir, Manifest: run.Manifest},
			Spec:      run,
			Report:    report,
			Start:     func(run runtime.Spec, _ string) (runtime.Instance, error) { return s.newInstance(spec, run) },
			Events:    events,
		}),
	}, nil
}

func (s *State) newInstance(spec governance.Spec, run runtime.Spec) (runtime.Instance, error) {
	if spec.Kind == governance.KindGRPC {
		return s.options.Kinds.GRPC(spec, run), nil
	}
	i, err := runtime.New(run)
	if err != nil {
		return nil, err
	}
	c := &client{Instance: i}
	if spec.Kind == governance.KindMCP {
		c.open = func(ctx context.Context) (governance.Policy, error) { return mcppolicy.Open(ctx, spec, caller{i}) }
	} else {
		c.open = func(context.Context) (governance.Policy, error) { return nativepolicy.New(spec, caller{i}), nil }
	}
	return c, nil
}

// client is an instance that makes decisions.
type client struct {
	runtime.Instance
	open   func(ctx context.Context) (governance.Policy, error) // called after the handshake
	policy governance.Policy                                    // set once ready
}

// Serve implements [supervisor.Service].
func (c *client) Serve(ctx context.Context, ready func()) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var refused error
	err := c.Instance.Serve(ctx, func() {
		if c.policy, refused = c.open(ctx); refused != nil {
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
func (c *client) Decide(ctx context.Context, flow governance.Flow, x *governance.Exchange,
) (governance.Decision, error) {
	return c.policy.Decide(ctx, flow, x)
}

// caller adapts an instance to the one method that a policy's protocol needs.
type caller struct{ i runtime.Instance }

// Call sends a request to the process.
func (c caller) Call(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	return c.i.Call(ctx, &runtime.Request{Method: method, Params: params})
}

// newSpec returns the runtime spec of a policy's process, as for an extension whose manifest states the same.
func newSpec(env *unit.Env, cfg *config.Config, s governance.Spec) (runtime.Spec, process.EnvReport, error) {
	t := manifest.Transport{
		Kind:     manifest.KindStdio,
		Cmd:      s.Cmd,
		Env:      s.Env,
		Cwd:      s.Cwd,
		Protocol: manifest.ProtocolNative,
	}
	if m := s.MCP; m != nil {
		t = manifest.Transport{
			Kind:     manifest.KindStdio,
			Cmd:      m.Cmd,
			Script:   m.Script,
			Env:      m.Env,
			Cwd:      m.Cwd,
			URL:      m.URL,
			Protocol: manifest.ProtocolMCP,
		}
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
	limits := manifest.Runtime{
		StartTimeout:   &handshake,
		CallTimeout:    &call,
		MaxCallTimeout: &call,
		Restart:        cfg.Extensions.Defaults.Restart,
	}
	id := status.PolicyPrefix + s.Name
	spec := runtime.Spec{
		ID:          id,
		Dir:         t.Cwd,
		Manifest:    &manifest.Manifest{Plugin: manifest.Plugin{ID: id, Description: s.Description}, Transport: t},
		Options:     limits.Resolve(t),
		HostVersion: env.Version,
		Self:        env.Self,
		StateDir:    filepath.Join(env.StateDir, ".policies", "policy-"+url.PathEscape(s.Name)),
		Logger:      env.Log.With("extension", id),
		Containment: env.Containment,
	}
	if err := os.MkdirAll(spec.StateDir, 0o700); err != nil {
		return spec, process.EnvReport{}, fmt.Errorf("no state directory: %w", err)
	}
	var err error
	if spec.Config, err = json.Marshal(s.Config); err != nil {
		return spec, process.EnvReport{}, err
	}
	var report process.EnvReport
	spec.Env, report = env.Child(cfg, &spec, t.Env)
	return spec, report, given.Give(&spec, env.Secrets(cfg),
		given.OfTransport("", &manifest.Transport{Env: t.Env}, nil), slices.Collect(maps.Keys(t.Env))...)
}
