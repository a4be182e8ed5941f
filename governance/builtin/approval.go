package builtin

import (
	"context"
	"time"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/internal/settings"
	"github.com/exthost/exthost/protocol"
)

// approvalConfig is the config of the built-in policy approval, which asks a person about
// each matching tool call, or about every request of the methods that its match names:
//
//	reason: this touches production   # shown to the person
//	expiry: 10m                       # how long the approval request waits; default 5m
//	where: client                     # operator (default), client or client_then_operator: who is asked
//	remember: session                 # how long a yes holds: call (default) or session
//
// match selects the calls: with match: {risk: [destroy]}, a person is asked before anything is deleted.
//
// An approval is valid for one call with the same caller, tool and arguments: the waiting one or,
// if its caller has canceled, an equal call before the expiry. Without an answer or an approver,
// the call is denied. With where: client, the person in front of the client that made the call is asked too, if
// server.clients.NAME.approves lets that client approve the tool's risk; see [the client that made the
// call](#in-the-client-that-made-the-call). Category authorization only.
type approvalConfig struct {
	Reason string            `json:"reason"`
	Expiry settings.Duration `json:"expiry"`
	protocol.Asking
}

type approval struct {
	decision governance.Decision
	methods  bool
}

func newApproval(s governance.Spec) (governance.Policy, error) {
	c := approvalConfig{Reason: "this needs a person's approval"}
	if err := settings.Decode(s.Config, &c); err != nil {
		return nil, err
	}
	if s.Category != governance.Authorization {
		return nil, settings.Wrong("category",
			"the policy approval decides who may do what, so its category is %s, not %s", governance.Authorization,
			s.Category)
	}
	d := governance.Decision{
		Action: governance.Ask,
		Reason: c.Reason,
		Expiry: time.Duration(c.Expiry),
		Asking: c.Asking,
	}
	return &approval{d, len(s.Match.Methods) > 0}, nil
}

// Decide implements [governance.Policy].
func (p *approval) Decide(_ context.Context, flow governance.Flow, x *governance.Exchange,
) (governance.Decision, error) {
	if flow != governance.Request || !p.methods && x.Method != protocol.MethodToolsCall {
		return governance.Decision{}, nil
	}
	return p.decision, nil
}
