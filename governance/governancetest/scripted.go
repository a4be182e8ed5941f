// Package governancetest tests any kind of policy against the rules of the pipeline.
package governancetest

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/exthost/exthost/governance"
)

// Behaviour is the behaviour of a scripted policy. The policy finds it in the caller's name, which
// every kind of policy receives with an exchange.
type Behaviour string

// The behaviours of a scripted policy.
const (
	Allow     Behaviour = "allow"
	Deny      Behaviour = "deny"      // with code and reason DenyCode and DenyReason
	Modify    Behaviour = "modify"    // replaces the payload of the flow by Changed
	Malformed Behaviour = "malformed" // replaces the payload of the flow by Misshapen
	Fail      Behaviour = "error"     // returns the error that its kind of policy has
	Hang      Behaviour = "hang"      // does not answer
)

// Behaviours lists all behaviours.
var Behaviours = []Behaviour{Allow, Deny, Modify, Malformed, Fail, Hang}

// The texts of scripted policies. The payloads are those of a tools/call.
const (
	DenyCode   = "no_such_luck"
	DenyReason = "not on a Monday"
	Misshapen  = `["not an object"]`

	request         = `{"name":"work","arguments":{"original":12345678901234567890}}`
	response        = `{"content":[{"type":"text","text":"original"}]}`
	changedRequest  = `{"name":"work","arguments":{"changed":12345678901234567891}}`
	changedResponse = `{"content":[{"type":"text","text":"changed"}]}`
)

// Changed is the payload with which Modify replaces the payload of the flow.
func Changed(flow governance.Flow) json.RawMessage {
	if flow == governance.Request {
		return json.RawMessage(changedRequest)
	}
	return json.RawMessage(changedResponse)
}

// Scripted is a policy with the behaviour that x.Caller names.
type Scripted struct{}

// Decide implements [governance.Policy].
func (Scripted) Decide(ctx context.Context, flow governance.Flow, x *governance.Exchange) (governance.Decision, error) {
	switch Behaviour(x.Caller) {
	case Deny:
		return governance.Decision{Action: governance.Deny, Code: DenyCode, Reason: DenyReason}, nil
	case Modify:
		return governance.Decision{Action: governance.Modify, JSON: Changed(flow)}, nil
	case Malformed:
		return governance.Decision{Action: governance.Modify, JSON: json.RawMessage(Misshapen)}, nil
	case Fail:
		return governance.Decision{}, errors.New("its database is down")
	case Hang:
		<-ctx.Done()
		return governance.Decision{}, ctx.Err()
	}
	return governance.Decision{}, nil
}
