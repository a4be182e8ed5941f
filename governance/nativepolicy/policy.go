// Package nativepolicy asks policies that answer governance/decide over the native protocol. Only
// an explicit "allow" allows. A denial is valid even if other members are invalid; any other answer
// with an unknown member is an error.
package nativepolicy

import (
	"cmp"
	"context"
	"encoding/json"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
)

// Caller sends requests to the policy's process.
type Caller interface {
	Call(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error)
}

// Policy is a [governance.Policy] that asks a process.
type Policy struct {
	category governance.Category
	caller   Caller
}

var _ governance.Policy = (*Policy)(nil)

// New returns the policy of s, which must be normalized and valid.
func New(s governance.Spec, c Caller) *Policy { return &Policy{s.Category, c} }

// Decide implements [governance.Policy]. Its errors are those of the Caller, and
// invalid_response.
func (p *Policy) Decide(ctx context.Context, flow governance.Flow, x *governance.Exchange,
) (governance.Decision, error) {
	answer, err := p.caller.Call(ctx, protocol.MethodDecide, p.params(ctx, flow, x))
	if err != nil {
		return governance.Decision{}, err
	}
	d, err := decode(flow, answer)
	if err != nil {
		return governance.Decision{}, protocol.Errorf(protocol.InvalidResponse, "its answer to %s is no decision: %w",
			protocol.MethodDecide, err)
	}
	return d, nil
}

// params encodes x as [protocol.DecideParams] and copies its JSON byte for byte.
func (p *Policy) params(ctx context.Context, flow governance.Flow, x *governance.Exchange) json.RawMessage {
	direction := "to_caller"
	if x.ToChild {
		direction = "to_extension"
	}
	b := append(make([]byte, 0, len(x.Request)+len(x.Response)+256), `{"flow":`...)
	b = rawjson.AppendText(b, flow)
	for _, m := range []struct{ key, text string }{
		{"direction", direction}, {"method", x.Method}, {"id", x.ID}, {"caller", x.Caller},
		{"session", x.Session}, {"node", x.Node}, {"extension", x.Extension}, {"tool", x.Tool},
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
	if headers := protocol.HeadersOf(ctx); headers != nil {
		text, _ := json.Marshal(headers) // strings always encode
		raw("headers", text)
	}
	raw("request", x.Request)
	if flow == governance.Response {
		raw("response", x.Response)
		if x.Failure != nil {
			failure, _ := json.Marshal(x.Failure.Wire()) // Wire returns valid Data only
			raw("error", failure)
		}
	}
	if p.category == governance.Audit {
		verdict, _ := json.Marshal(protocol.Verdict{ // strings always encode
			Decision: cmp.Or(string(x.Verdict.Action), protocol.DecisionAllow),
			Policy:   x.Verdict.Policy,
			Code:     x.Verdict.Code,
		})
		raw("verdict", verdict)
	}
	return append(b, '}')
}
