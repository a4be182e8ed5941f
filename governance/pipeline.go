// Package governance decides, changes and records what passes between callers
// and extensions. A [Pipeline] is immutable; [Pipeline.Govern] is the only way
// through it.
package governance

import (
	"context"
	"encoding/json"

	"github.com/exthost/exthost/protocol"
)

// Pipeline is an ordered, immutable list of policies. Its zero value lets
// everything pass and costs nothing.
type Pipeline struct {
	members []Member
}

// NewPipeline returns a pipeline that asks the members in the given order.
func NewPipeline(members ...Member) *Pipeline { return &Pipeline{members: members} }

// Govern asks every policy about the request, calls send, and asks again about
// the response. The first denial ends the exchange with kind rejected; a policy
// that cannot decide ends it with governance_unavailable. send runs at most once,
// and never after a denial.
func (p *Pipeline) Govern(ctx context.Context, x *Exchange, send func(context.Context, *Exchange) error) error {
	if len(p.members) == 0 {
		return send(ctx, x)
	}
	if err := p.decide(ctx, Request, x); err != nil {
		return err
	}
	if err := send(ctx, x); err != nil || x.Notify {
		return err
	}
	return p.decide(ctx, Response, x)
}

func (p *Pipeline) decide(ctx context.Context, flow Flow, x *Exchange) error {
	for _, m := range p.members {
		d, err := m.Policy.Decide(ctx, flow, x)
		switch {
		case err != nil:
			return refusal(protocol.Errorf(protocol.GovernanceUnavailable, "policy %s could not decide: %w", m.Spec.Name, err), m.Spec.Name, flow, "", x)
		case d.Action == Deny:
			return refusal(protocol.Errorf(protocol.Rejected, "policy %s: %s", m.Spec.Name, d.Reason), m.Spec.Name, flow, d.Code, x)
		}
	}
	return nil
}

// refusal completes e for the caller: who said so, and whether the tool has run.
func refusal(e *protocol.Error, policy string, flow Flow, code string, x *Exchange) *protocol.Error {
	e.Extension, e.Tool = x.Extension, x.Tool
	e.Data, _ = json.Marshal(struct { // strings and a bool always encode
		Policy   string `json:"policy"`
		Code     string `json:"code,omitempty"`
		Executed bool   `json:"executed,omitempty"`
	}{policy, code, flow == Response})
	return e
}
