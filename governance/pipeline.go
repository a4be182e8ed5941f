// Package governance decides, changes and records what passes between callers
// and extensions. A [Pipeline] is immutable; [Pipeline.Govern] is the only way
// through it.
package governance

import (
	"context"
	"encoding/json"

	"github.com/exthost/exthost/protocol"
)

// Flow is the half of an exchange a policy looks at.
type Flow string

// The flows of an exchange.
const (
	Request  Flow = "request"
	Response Flow = "response"
)

// Exchange is one request, or one notification, and its answer.
type Exchange struct {
	Method    string
	Caller    string          // from the front, never from arguments; "" when anonymous
	Session   string          // "" for stateless callers
	Extension string          // whom it is for; "" for a method of the host
	Tool      string          // the canonical registered name; "" outside tools/call
	ToChild   bool            // false: an extension asks or tells its caller
	Notify    bool            // a notification: no response flow
	Request   json.RawMessage // the params, as they will be sent
	Response  json.RawMessage // the result; nil until there is one
}

// Decision is a policy's answer.
type Decision struct {
	Deny   bool
	Code   string // stable, for programs
	Reason string // for people and models
}

// Policy decides about one flow of an exchange. It is called by many goroutines
// at once and must not keep or change x.
type Policy interface {
	Name() string
	Decide(ctx context.Context, flow Flow, x *Exchange) (Decision, error)
}

// Pipeline is an ordered, immutable list of policies. Its zero value lets
// everything pass and costs nothing.
type Pipeline struct {
	policies []Policy
}

// NewPipeline returns a pipeline that asks the policies in the given order.
func NewPipeline(policies ...Policy) *Pipeline { return &Pipeline{policies: policies} }

// Govern asks every policy about the request, calls send, and asks again about
// the response. The first denial ends the exchange with kind rejected; a policy
// that cannot decide ends it with governance_unavailable. send runs at most once,
// and never after a denial.
func (p *Pipeline) Govern(ctx context.Context, x *Exchange, send func(context.Context, *Exchange) error) error {
	if len(p.policies) == 0 {
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
	for _, policy := range p.policies {
		d, err := policy.Decide(ctx, flow, x)
		switch {
		case err != nil:
			return refusal(protocol.Errorf(protocol.GovernanceUnavailable, "policy %s could not decide: %w", policy.Name(), err), policy, flow, "", x)
		case d.Deny:
			return refusal(protocol.Errorf(protocol.Rejected, "policy %s: %s", policy.Name(), d.Reason), policy, flow, d.Code, x)
		}
	}
	return nil
}

// refusal completes e for the caller: who said so, and whether the tool has run.
func refusal(e *protocol.Error, policy Policy, flow Flow, code string, x *Exchange) *protocol.Error {
	e.Extension, e.Tool = x.Extension, x.Tool
	e.Data, _ = json.Marshal(struct { // strings and a bool always encode
		Policy   string `json:"policy"`
		Code     string `json:"code,omitempty"`
		Executed bool   `json:"executed,omitempty"`
	}{policy.Name(), code, flow == Response})
	return e
}
