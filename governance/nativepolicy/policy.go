// Package nativepolicy asks a policy that answers governance/decide, as extensions
// of the native protocol do. Nothing is implied: what is not an explicit "allow"
// is not an approval, and an answer with anything that has no meaning is an error.
package nativepolicy

import (
	"cmp"
	"context"
	"encoding/json"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/rawjson"
	"github.com/exthost/exthost/protocol"
)

// Caller is the process behind a policy.
type Caller interface {
	Call(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error)
}

// Policy is a policy behind a [Caller].
type Policy struct {
	category governance.Category
	caller   Caller
}

var _ governance.Policy = (*Policy)(nil)

// New returns the policy that s, normalized and valid, describes and c answers for.
func New(s governance.Spec, c Caller) *Policy { return &Policy{s.Category, c} }

// Decide implements [governance.Policy]. Its error is the caller's, or InvalidResponse.
func (p *Policy) Decide(ctx context.Context, flow governance.Flow, x *governance.Exchange) (governance.Decision, error) {
	answer, err := p.caller.Call(ctx, protocol.MethodDecide, p.params(flow, x))
	if err != nil {
		return governance.Decision{}, err
	}
	d, err := read(flow, answer)
	if err != nil {
		return governance.Decision{}, protocol.Errorf(protocol.InvalidResponse, "its answer to %s is no decision: %w", protocol.MethodDecide, err)
	}
	return d, nil
}

// params are x as [protocol.DecideParams] says, with its JSON as the bytes it is.
func (p *Policy) params(flow governance.Flow, x *governance.Exchange) json.RawMessage {
	direction := "to_caller"
	if x.ToChild {
		direction = "to_extension"
	}
	b := append(make([]byte, 0, len(x.Request)+len(x.Response)+256), `{"flow":`...)
	b = rawjson.AppendText(b, flow)
	for _, m := range []struct{ key, text string }{
		{"direction", direction}, {"method", x.Method}, {"id", x.ID}, {"caller", x.Caller},
		{"session", x.Session}, {"extension", x.Extension}, {"tool", x.Tool},
	} {
		if m.text != "" {
			b = rawjson.AppendText(append(append(append(b, `,"`...), m.key...), `":`...), m.text)
		}
	}
	raw := func(key string, value json.RawMessage) {
		if len(value) > 0 {
			b = append(append(append(append(b, `,"`...), key...), `":`...), value...)
		}
	}
	raw("request", x.Request)
	if flow == governance.Response {
		raw("response", x.Response)
		if x.Failure != nil {
			failure, _ := json.Marshal(x.Failure.Wire()) // its Data is valid, or Wire left it out
			raw("error", failure)
		}
	}
	if p.category == governance.Audit {
		verdict, _ := json.Marshal(protocol.Verdict{ // strings always encode
			Decision: cmp.Or(string(x.Verdict.Action), protocol.DecisionAllow), Policy: x.Verdict.Policy, Code: x.Verdict.Code,
		})
		raw("verdict", verdict)
	}
	return append(b, '}')
}
