package governance

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/exthost/exthost/protocol"
)

type evaluation struct {
	Decision
	took  time.Duration
	err   error
	again bool
}

// evaluate asks m, bounded by its own timeout and by the time that remains for the chain.
func (m *member) evaluate(ctx context.Context, flow Flow, x *Exchange, remaining time.Duration) evaluation {
	if remaining <= 0 {
		return evaluation{err: errors.New("the policies before it used up the time there is for all")}
	}
	if m.spec.Category != Authentication {
		ctx = protocol.WithHeaders(ctx, nil)
	}
	limit, began := min(m.spec.Timeout, remaining), time.Now()
	limited := &limited{Context: ctx, deadline: began.Add(limit)}
	defer limited.end()
	d, err := m.decide(limited, flow, x)
	e := evaluation{Decision: d, took: time.Since(began), err: err}
	// the process of a policy has the same limit, which may pass first
	fault, ok := errors.AsType[*protocol.Error](err)
	late := limited.Err() != nil || ok && fault.Kind == protocol.CallTimeout
	switch {
	case err == nil || ctx.Err() != nil || !late:
	case limit < m.spec.Timeout:
		e.err = fmt.Errorf("no decision within %s, which the policies before it left of the time for all", limit)
	default:
		e.err = fmt.Errorf("no decision within %s, its timeoutMs", limit)
	}
	return e
}

func (m *member) decide(ctx context.Context, flow Flow, x *Exchange) (d Decision, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &panicked{v, debug.Stack()}
		}
	}()
	return m.policy.Decide(ctx, flow, x)
}

// panicked is the error of a policy that panicked. The stack goes to the log only.
type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string { return fmt.Sprintf("it panicked: %v", p.value) }

// apply checks, records and enforces the decision of m. It returns the error that ends the exchange, if any.
func (r *exchangeRun) apply(ctx context.Context, flow Flow, m *member, e evaluation) error {
	s := Step{
		Policy:   m.spec.Name,
		Category: m.spec.Category,
		Flow:     flow,
		Again:    e.again,
		Outcome:  Continue,
		Latency:  protocol.Duration(e.took),
	}
	// a failed exchange cannot be denied again
	shadowed := m.shadowed || m.spec.Category == Audit && r.x.Failure != nil
	err := e.err
	if err == nil {
		err = m.decided(r.checkAction(flow, m, &e.Decision, &s))
	}
	if err != nil {
		decided := errors.Is(err, ErrDecided) && m.spec.Category != Audit // audit policies change and answer nothing
		return r.policyFailed(ctx, m, s, err, shadowed || !m.required() && !decided)
	}
	e.Code = prefix(e.Code, maxCode)
	s.Action, s.Code, s.Reason = e.Action, e.Code, e.Reason
	if shadowed && e.Action != Allow {
		s.Ignored = true
	}
	if s.Ignored {
		r.recordStep(m, s)
		return nil
	}
	return r.enforce(m, s, e.Decision)
}

// enforce carries out d, a valid decision of m.
func (r *exchangeRun) enforce(m *member, s Step, d Decision) error {
	switch d.Action {
	case Deny:
		return r.deny(m, s, d)
	case Ask:
		r.asks.put(pendingAsk{m, s, d})
		return nil
	case Modify:
		*r.x.payload(s.Flow) = d.JSON
		// built-in policies only mask and shorten results, so no policy need decide about those
		// again
		r.changed = r.changed || s.Flow == Request || m.spec.Builtin == ""
	case Respond:
		r.x.Response, r.x.Verdict = d.JSON, Verdict{Action: Respond, Policy: m.spec.Name, Code: d.Code}
	}
	r.recordStep(m, s)
	return nil
}

// decided wraps err, which is about a decision of m, in [ErrDecided], unless m is of a category
// that only watches.
func (m *member) decided(err error) error {
	if err == nil || m.spec.Category == Observability || m.spec.Category == Audit {
		return err
	}
	return fmt.Errorf("%w: %w", ErrDecided, err)
}

// checkAction returns an error for an action that m may not take. It ignores changes by
// categories other than content, and converts a change to the same payload to Allow.
func (r *exchangeRun) checkAction(flow Flow, m *member, d *Decision, s *Step) error {
	category := m.spec.Category
	watches := category == Observability || category == Audit
	switch d.Action {
	case Allow, Deny:
		return nil
	case Ask:
		if watches {
			return fmt.Errorf("it asks for an approval, which %s policies may not", category)
		}
		return nil
	case Modify:
		if bytes.Equal(d.JSON, *r.x.payload(flow)) {
			d.Action = Allow
			return nil
		}
		if category != Content {
			s.Ignored = true
			m.warn(r.p.o.Log, "a policy changes what passes, which only category content may: its change is dropped",
				"category", category)
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
	d.JSON, err = r.check(flow, d.Action, d.JSON)
	return err
}

// policyFailed ends the exchange because m could not decide, unless m is ignored.
func (r *exchangeRun) policyFailed(ctx context.Context, m *member, s Step, err error, ignored bool) error {
	if ctx.Err() != nil {
		s.Reason = ctx.Err().Error()
		r.recordStep(m, s)
		return protocol.Errorf(protocol.KindOf(ctx.Err()), "the caller gave up while policy %s decided: %w",
			m.spec.Name, ctx.Err())
	}
	s.Outcome, s.Reason = PluginError, err.Error()
	r.recordStep(m, s)
	m.warnError(r.p.o.Log, err, s.Flow)
	if ignored {
		return nil
	}
	about := ""
	if !r.sent {
		about = ", so the request was not carried out"
	}
	if f := r.x.Failure; f != nil && f.Kind == protocol.ExtensionError {
		about = fmt.Sprintf(" about the extension's error %d, whose text is withheld", f.Wire().Code)
	}
	e := protocol.Errorf(protocol.GovernanceUnavailable, "policy %s could not decide%s: %w", m.spec.Name, about, err)
	if m.spec.hasProcess() && !errors.Is(err, ErrDecided) {
		e.Next = "exthost restart policy:" + m.spec.Name
		e.Message += "; the operator brings it back with " + e.Next
	}
	return r.refusal(e, m, Decision{Code: CodeUnavailable}, s)
}

func (r *exchangeRun) deny(m *member, s Step, d Decision) error {
	d.Code = cmp.Or(d.Code, m.spec.Category.code())
	if d.Reason == "" {
		d.Reason = "the request is not allowed"
		if s.Flow == Response {
			d.Reason = "the response is not allowed"
		}
	}
	s.Outcome, s.Code, s.Reason = Rejected, d.Code, d.Reason
	r.recordStep(m, s)
	return r.refusal(protocol.Errorf(protocol.Rejected, "policy %s: %s", m.spec.Name, d.Reason), m, d, s)
}

// refusal fills in e, the error for the caller of the exchange: the policy, its code, and whether
// the tool has run. It sets x.Verdict, but not x.Failure.
func (r *exchangeRun) refusal(e *protocol.Error, m *member, d Decision, s Step) error {
	x := r.x
	executed := r.sent
	if x.Failure != nil {
		executed = executed && x.Failure.Kind == protocol.ExtensionError
	}
	if !json.Valid(d.Data) {
		d.Data = nil
	}
	e.Extension, e.Tool, e.RetryAfter = x.Extension, x.Tool, d.RetryAfter
	e.Data, _ = json.Marshal(Refusal{
		Code:       d.Code,
		Policy:     m.spec.Name,
		DecisionID: x.ID,
		RetryAfter: protocol.Duration(d.RetryAfter),
		Executed:   executed,
		Data:       d.Data,
	}) // these types always encode
	x.Verdict = Verdict{Action: Deny, Policy: m.spec.Name, Code: d.Code, By: s.By, Where: s.Where, After: s.After}
	return e
}

// Refusal is the data of the error that a denied exchange ends with.
type Refusal struct {
	Code       string            `json:"code"`
	Policy     string            `json:"policy"`
	DecisionID string            `json:"decision_id"`
	Node       string            `json:"node,omitempty"` // the cluster node whose policy denied; "" for this host
	RetryAfter protocol.Duration `json:"retry_after_ms,omitempty"`
	Executed   bool              `json:"executed,omitempty"` // the extension has executed the request
	Data       json.RawMessage   `json:"data,omitempty"`     // details of the policy; nil is none
}

func (r *exchangeRun) recordStep(m *member, s Step) {
	r.record.add(s, m.usual)
	if r.p.o.Observe == nil || r.dryRun {
		return
	}
	o := Observation{
		Policy:   s.Policy,
		Category: s.Category,
		Flow:     s.Flow,
		Outcome:  s.Outcome,
		Shadow:   m.spec.Mode == ModeShadow,
		Action:   s.Action,
		Latency:  time.Duration(s.Latency),
	}
	if s.Action == Deny || s.Outcome == Rejected {
		o.Code = BoundedCode(s.Code)
	}
	r.p.o.Observe(o)
}
