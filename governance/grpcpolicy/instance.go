package grpcpolicy

import (
	"context"
	"encoding/json"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
)

// instance makes a [Service] a [runtime.Instance].
type instance struct{ *Service }

// NewInstance returns a run of the policy s that has not been started, for the PolicyKinds.GRPC of
// exthost.Options. It uses Env, Resolve, Logger and Containment of p.
func NewInstance(s governance.Spec, p runtime.Spec) interface {
	runtime.Instance
	governance.Policy
} {
	resolve := func(ctx context.Context) ([]string, error) {
		given, err := p.Resolved(ctx)
		if err != nil {
			return nil, err
		}
		return given.Env, nil
	}
	return instance{New(Options{Spec: s, Env: p.Env, Resolve: resolve, Logger: p.Logger, Containment: p.Containment})}
}

// Call implements [runtime.Instance]. It refuses every method: a host asks such a
// policy for decisions alone.
func (i instance) Call(_ context.Context, r *runtime.Request) (json.RawMessage, error) {
	return nil, protocol.Errorf(protocol.ToolNotFound, "a grpc policy does not serve %s", r.Method)
}

// Notify implements [runtime.Instance].
func (instance) Notify(context.Context, string, json.RawMessage) error { return nil }

// Handshake implements [runtime.Instance].
func (i instance) Handshake() *runtime.Handshake {
	hs := &runtime.Handshake{Protocol: string(governance.KindGRPC)}
	if m := i.Service.Info().Metadata; m != nil {
		hs.ServerVersion = m.GetCommitHash()
	}
	return hs
}

// Info implements [runtime.Instance].
func (i instance) Info() runtime.Info {
	info := i.Service.Info()
	return runtime.Info{
		PID:       info.PID,
		StartedAt: info.StartedAt,
		Protocol:  string(governance.KindGRPC),
		Stderr:    info.Stderr,
	}
}
