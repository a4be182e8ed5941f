package governance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/exthost/exthost/protocol"
)

// opinion is what asking a member gave.
type opinion struct {
	Decision
	took  time.Duration
	err   error
	again bool
}

// consult asks m, for as long as its own timeout and what is left of the chain's
// allow.
func (m *member) consult(ctx context.Context, flow Flow, x *Exchange, left time.Duration) opinion {
	if left <= 0 {
		return opinion{err: errors.New("the policies before it used up the time there is for all")}
	}
	limit := min(m.spec.Timeout, left)
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	began := time.Now()
	d, err := m.decide(limited, flow, x)
	o := opinion{Decision: d, took: time.Since(began), err: err}
	if err != nil && ctx.Err() == nil && limited.Err() != nil {
		o.err = fmt.Errorf("no decision within %s", limit)
	}
	return o
}

func (m *member) decide(ctx context.Context, flow Flow, x *Exchange) (d Decision, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &panicked{v, debug.Stack()}
		}
	}()
	return m.policy.Decide(ctx, flow, x)
}

// panicked is the error of a policy that panicked. The stack is for the log.
type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string { return fmt.Sprintf("it panicked: %v", p.value) }

// apply does what m decided, and returns the error that this ends the exchange with.
func (g *passage) apply(ctx context.Context, flow Flow, m *member, o opinion) error {
	s := Step{Policy: m.spec.Name, Category: m.spec.Category, Flow: flow, Again: o.again, Outcome: Continue, Latency: o.took}
	inert := m.inert || m.spec.Category == Audit && g.x.Failure != nil // what has failed cannot be refused
	err := o.err
	if err == nil {
		err = g.permit(flow, m, &o.Decision, &s)
	}
	if err != nil {
		return g.unable(ctx, m, s, err, inert)
	}
	s.Action, s.Code, s.Reason = o.Action, o.Code, o.Reason
	if inert && o.Action != Allow {
		s.Ignored = true
	}
	if s.Ignored {
		g.note(m, s)
		return nil
	}
	switch o.Action {
	case Deny:
		return g.deny(m, s, o.Decision)
	case Ask:
		return g.question(ctx, m, s, o.Decision)
	case Modify:
		g.change(flow, o.JSON)
	case Respond:
		g.x.Response, g.x.Verdict = o.JSON, Verdict{Action: Respond, Policy: m.spec.Name, Code: o.Code}
	}
	g.note(m, s)
	return nil
}

// permit refuses decisions that are not m's to make, as errors of m; a change that
// is not is only ignored, and one that changes nothing is none.
func (g *passage) permit(flow Flow, m *member, d *Decision, s *Step) error {
	category := m.spec.Category
	watches := category == Observability || category == Audit
	switch d.Action {
	case Allow, Deny:
		return nil
	case Ask:
		if watches {
			return fmt.Errorf("it asks a question, which %s policies may not", category)
		}
		return nil
	case Modify:
		if bytes.Equal(d.JSON, g.payload(flow)) {
			d.Action = Allow
			return nil
		}
		if category != Content {
			s.Ignored = true
			m.warn(g.p.o.Log, "a policy changes what passes, which only category content may: its change is dropped", "category", category)
			return nil
		}
	case Respond:
		if watches || category != Content && m.spec.Kind != KindBuiltin {
			return fmt.Errorf("it answers itself, which %s policies of kind %s may not", category, m.spec.Kind)
		}
		if flow != Request {
			return errors.New("it answers itself what has been answered")
		}
	default:
		return fmt.Errorf("its decision %q is none of allow, deny, modify, respond and ask", d.Action)
	}
	var err error
	d.JSON, err = g.check(flow, d.Action, d.JSON)
	return err
}

// unable deals with a policy that could not decide.
func (g *passage) unable(ctx context.Context, m *member, s Step, err error, inert bool) error {
	if ctx.Err() != nil {
		s.Reason = ctx.Err().Error()
		g.note(m, s)
		return protocol.Errorf(protocol.KindOf(ctx.Err()), "the caller gave up while policy %s decided: %w", m.spec.Name, ctx.Err())
	}
	s.Outcome, s.Reason = PluginError, err.Error()
	g.note(m, s)
	m.warnError(g.p.o.Log, err, s.Flow)
	if inert || !m.spec.Required {
		return nil
	}
	e := protocol.Errorf(protocol.GovernanceUnavailable, "policy %s could not decide: %w", m.spec.Name, err)
	return g.refusal(e, m, Decision{Code: CodeUnavailable}, "")
}

func (g *passage) deny(m *member, s Step, d Decision) error {
	if d.Code == "" {
		d.Code = m.spec.Category.code()
	}
	if d.Reason == "" {
		d.Reason = "the request is not allowed"
		if s.Flow == Response {
			d.Reason = "the response is not allowed"
		}
	}
	s.Outcome, s.Code, s.Reason = Rejected, d.Code, d.Reason
	g.note(m, s)
	return g.refusal(protocol.Errorf(protocol.Rejected, "policy %s: %s", m.spec.Name, d.Reason), m, d, s.By)
}

// refusal completes e for the caller: who said so, and whether the tool has run.
func (g *passage) refusal(e *protocol.Error, m *member, d Decision, by string) error {
	x := g.x
	executed := g.sent
	if x.Failure != nil {
		executed, e.Outcome = executed && x.Failure.Kind == protocol.ExtensionError, x.Failure.Outcome
	}
	if !json.Valid(d.Data) {
		d.Data = nil
	}
	e.Extension, e.Tool, e.RetryAfter = x.Extension, x.Tool, d.RetryAfter
	e.Data, _ = json.Marshal(Refusal{d.Code, m.spec.Name, x.ID, d.RetryAfter.Seconds(), executed, d.Data}) // always encodes
	x.Verdict = Verdict{Action: Deny, Policy: m.spec.Name, Code: d.Code, By: by}
	return e
}

// Refusal is the data of the error that a refused exchange ends with.
type Refusal struct {
	Code       string          `json:"code"`
	Policy     string          `json:"policy"`
	DecisionID string          `json:"decision_id"`
	RetryAfter float64         `json:"retry_after,omitempty"` // seconds
	Executed   bool            `json:"executed,omitempty"`    // the extension has done what was asked
	Data       json.RawMessage `json:"data,omitempty"`        // of the policy
}

// note records a step and has it counted.
func (g *passage) note(m *member, s Step) {
	g.record.add(s)
	if g.p.o.Observe == nil || g.trial {
		return
	}
	o := Observation{Policy: s.Policy, Category: s.Category, Flow: s.Flow, Outcome: s.Outcome, Shadow: m.shadow, Action: s.Action, Latency: s.Latency}
	if s.Action == Deny || s.Outcome == Rejected {
		o.Code = BoundedCode(s.Code)
	}
	g.p.o.Observe(o)
}
