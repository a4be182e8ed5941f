package builtin

import (
	"context"
	"time"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/internal/settings"
	"github.com/exthost/exthost/protocol"
)

// approvalConfig is the config of the built-in policy approval, which has a person
// decide about each tool call that its match selects, or about every request when
// that names methods:
//
//	reason: this touches production   # for the person who decides
//	expiry: 10m                       # how long the question waits; default 5m
//
// An approval is bound to caller, tool and arguments, and lets one call through: the
// one that waits, or when its caller has given up, the same call when it is made
// again in time. Nobody to ask, and no answer, are denials. Category authorization
// only.
type approvalConfig struct {
	Reason string            `json:"reason"`
	Expiry settings.Duration `json:"expiry"`
}

// approval has a person decide about each tool call that it is shown, or about
// every request whose method its match names.
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
		return nil, settings.Wrong("category", "the policy approval decides who may do what, so its category is %s, not %s", governance.Authorization, s.Category)
	}
	d := governance.Decision{Action: governance.Ask, Reason: c.Reason, Expiry: time.Duration(c.Expiry)}
	return &approval{d, len(s.Match.Methods) > 0}, nil
}

// Decide implements [governance.Policy].
func (p *approval) Decide(_ context.Context, flow governance.Flow, x *governance.Exchange) (governance.Decision, error) {
	if flow != governance.Request || !p.methods && x.Method != protocol.MethodToolsCall {
		return governance.Decision{}, nil
	}
	return p.decision, nil
}
