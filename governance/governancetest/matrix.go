package governancetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/protocol"
)

// hangTimeout is the timeout of a policy that hangs. Other policies get a generous one, so
// that a slow machine does not fail the test.
const hangTimeout = 50 * time.Millisecond

// Matrix tests one kind of policy in every combination of category, flow, mode, required and
// behaviour. start is called once per category. It must return a running policy that does as
// [Behaviour] describes, and have t's cleanup stop that policy.
func Matrix(t *testing.T, start func(t *testing.T, s governance.Spec) governance.Policy) {
	for _, category := range governance.Category("").Values() {
		t.Run(category, func(t *testing.T) {
			s := governance.Spec{Name: "scripted", Category: governance.Category(category)}
			policy := start(t, s)
			for _, flow := range []governance.Flow{governance.Request, governance.Response} {
				for _, mode := range []governance.Mode{governance.ModeEnforce, governance.ModeShadow} {
					for _, required := range []bool{true, false} {
						for _, does := range Behaviours {
							s.Flows, s.Mode, s.Required = []governance.Flow{flow}, mode, new(required)
							c := cell{spec: s, flow: flow, does: does}
							t.Run(fmt.Sprintf("%s/%s/required=%t/%s", flow, mode, required, does),
								func(t *testing.T) { c.run(t, policy) })
						}
					}
				}
			}
		})
	}
}

type cell struct {
	spec governance.Spec
	flow governance.Flow
	does Behaviour
}

// effect is the outcome of an exchange.
type effect struct {
	Kind     protocol.Kind // "" when the caller gets the response
	Refusal  governance.Refusal
	Sent     string // the request the extension got, "" when none
	Received string // the response the caller got
	Verdict  governance.Verdict

	Later   string             // the payload that a later content policy saw, "" when it was not asked
	Outcome governance.Outcome // in the trace, as is Ignored
	Ignored bool
}

// want returns the effect that the rules of the pipeline require.
func (c cell) want() effect {
	e := effect{Sent: request, Received: response, Outcome: governance.Continue}
	e.Later = string(c.payload())
	acts := c.spec.Mode == governance.ModeEnforce && (*c.spec.Required || c.spec.Category != governance.Observability)
	content := c.spec.Category == governance.Content
	switch does := c.does; {
	case does == Fail, does == Hang, does == Malformed && content:
		e.Outcome = governance.PluginError
		if acts && (*c.spec.Required || does == Malformed) {
			c.refuse(&e, protocol.GovernanceUnavailable, governance.CodeUnavailable)
		}
	case does == Deny && acts:
		e.Outcome = governance.Rejected
		c.refuse(&e, protocol.Rejected, DenyCode)
	case does == Modify && content && acts:
		e.Later = string(Changed(c.flow))
		if c.flow == governance.Request {
			e.Sent = e.Later
		} else {
			e.Received = e.Later
		}
	case does != Allow:
		e.Ignored = true
	}
	return e
}

func (c cell) payload() json.RawMessage {
	if c.flow == governance.Request {
		return json.RawMessage(request)
	}
	return json.RawMessage(response)
}

func (c cell) refuse(e *effect, kind protocol.Kind, code string) {
	executed := c.flow == governance.Response
	e.Kind, e.Received = kind, ""
	e.Refusal = governance.Refusal{Code: code, Policy: c.spec.Name, Executed: executed}
	e.Verdict = governance.Verdict{Action: governance.Deny, Policy: c.spec.Name, Code: code}
	if !executed {
		e.Sent = ""
	}
	if c.spec.Category != governance.Audit { // audit runs after content
		e.Later = ""
	}
}

func (c cell) run(t *testing.T, policy governance.Policy) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	c.spec.Timeout = 10 * time.Second
	if c.does == Hang {
		c.spec.Timeout = hangTimeout
	}
	later, audit := &watcher{flow: c.flow}, &watcher{flow: governance.Response}
	traces := governance.NewTraces(1)
	p := governance.NewPipeline(governance.Options{Traces: traces},
		governance.Member{Spec: c.spec, Policy: policy},
		governance.Member{
			Spec:   governance.Spec{Name: "later", Category: governance.Content, Priority: 1},
			Policy: later,
		},
		governance.Member{
			Spec: governance.Spec{
				Name:     "the audit",
				Category: governance.Audit,
				Priority: -1,
				Flows:    []governance.Flow{governance.Response},
				Mode:     governance.ModeShadow,
			},
			Policy: audit,
		})
	x := &governance.Exchange{
		Method:    protocol.MethodToolsCall,
		Caller:    string(c.does),
		Extension: "x",
		Tool:      "ext_x_work",
		ToChild:   true,
		Request:   json.RawMessage(request),
	}
	var got effect
	err := p.Govern(ctx, x, func(_ context.Context, x *governance.Exchange) error {
		got.Sent = string(x.Request)
		x.Response = json.RawMessage(response)
		return nil
	})
	if err := p.Close(ctx); err != nil {
		t.Fatal(err)
	}
	got.observe(t, err, x)
	got.explain(traces.Latest(1)[0], c, later)
	c.compare(t, got, x.ID)
	if audit.asked != 1 {
		t.Errorf("audit was told %d times how it ended", audit.asked)
	}
}

func (c cell) compare(t *testing.T, got effect, id string) {
	want := c.want()
	if want.Kind != "" {
		want.Refusal.DecisionID = id
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// explain reads the step of the policy from the trace. Later is set only if the trace has a step of
// the later policy: preparing the record for audit asks that policy too, without a step.
func (e *effect) explain(trace governance.Trace, c cell, later *watcher) {
	for _, s := range trace.Steps {
		switch {
		case s.Policy == c.spec.Name:
			e.Outcome, e.Ignored = s.Outcome, s.Ignored
		case s.Policy == "later" && s.Flow == c.flow:
			e.Later = later.saw
		}
	}
}

func (e *effect) observe(t *testing.T, err error, x *governance.Exchange) {
	e.Kind, e.Received, e.Verdict = protocol.KindOf(err), string(x.Response), x.Verdict
	if refused, ok := errors.AsType[*protocol.Error](err); ok {
		if err := json.Unmarshal(refused.Data, &e.Refusal); err != nil {
			t.Error(err)
		}
	}
}

// watcher is a policy that records the payload of a flow.
type watcher struct {
	flow  governance.Flow
	asked int
	saw   string
}

// Decide implements [governance.Policy].
func (w *watcher) Decide(_ context.Context, flow governance.Flow, x *governance.Exchange) (governance.Decision, error) {
	if flow != w.flow {
		return governance.Decision{}, nil
	}
	w.asked++
	if w.saw = string(x.Request); flow == governance.Response {
		w.saw = string(x.Response)
	}
	return governance.Decision{}, nil
}
