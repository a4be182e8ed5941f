package governance_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/exthost/exthost/governance"
)

// A decision that is only stated is recorded and has no effect, though its policy is required
// and enforced.
func TestStatedDecisions(t *testing.T) {
	for name, d := range map[string]governance.Decision{
		"deny": {Action: governance.Deny, Code: "c", Reason: "r"},
		"modify": {
			Action: governance.Modify,
			JSON:   json.RawMessage(`{"name":"t","arguments":{"changed":1}}`),
		},
		"modify to a list":  {Action: governance.Modify, JSON: json.RawMessage(`[]`)},
		"respond":           {Action: governance.Respond, JSON: json.RawMessage(`{"content":[]}`)},
		"ask":               {Action: governance.Ask},
		"what is no action": {Action: "maybe"},
	} {
		t.Run(name, func(t *testing.T) {
			d.Shadow = true
			policy := policyFunc(func(_ context.Context, flow governance.Flow,
				_ *governance.Exchange) (governance.Decision, error) {
				if flow == governance.Response {
					return governance.Decision{}, nil
				}
				return d, nil
			})
			traces, shadowed := governance.NewTraces(1), false
			observe := func(o governance.Observation) { shadowed = shadowed || o.Shadow }
			m := member("p", governance.Content, policy)
			x, sent := toolCall(), ""
			before := string(x.Request)
			if err := newPipeline(t, governance.Options{Traces: traces, Observe: observe}, m).Govern(t.Context(), x,
				func(_ context.Context, x *governance.Exchange) error {
					sent = string(x.Request)
					return answer(`{}`, nil)(t.Context(), x)
				}); err != nil || sent != before {
				t.Errorf("sent %s, %v", sent, err)
			}
			if s := traces.Latest(1)[0].Steps[0]; s.Ignored != (s.Outcome == governance.Continue) || !shadowed {
				t.Errorf("recorded: %+v, shadowed %t", s, shadowed)
			}
		})
	}
}

// An optional audit policy cannot change payloads, so a malformed change by it does not end the
// exchange.
func TestAuditDecidesNothingUnread(t *testing.T) {
	odd := policyFunc(func(context.Context, governance.Flow, *governance.Exchange) (governance.Decision, error) {
		return governance.Decision{}, fmt.Errorf("%w: junk", governance.ErrDecided)
	})
	m := member("audit", governance.Audit, odd)
	m.Spec.Required = false
	p := newPipeline(t, governance.Options{}, m)
	sent := false
	if err := p.Govern(t.Context(), toolCall(), func(_ context.Context, x *governance.Exchange) error {
		sent = true
		return answer(`{}`, nil)(t.Context(), x)
	}); err != nil || !sent {
		t.Errorf("sent %t, %v", sent, err)
	}
}
