package governance

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/exthost/exthost/governance/internal/strictjson"
	"github.com/exthost/exthost/protocol"
)

// exchangeRun is the state of one exchange in a pipeline.
type exchangeRun struct {
	p          *Pipeline
	x          *Exchange
	record     *record
	sent       bool      // send has been called
	unseen     []*member // members that have not decided about the current request
	auditsTold int       // how many audit policies have seen the request
	dryRun     bool      // nothing is sent and no person is asked
	changed    bool      // a content policy has changed the payload of the flow
	asks       pendingAsks
}

type runKey struct{}

func (p *Pipeline) begin(x *Exchange) *exchangeRun {
	now := time.Now()
	x.ID, x.Began = newID(now), now
	return &exchangeRun{p: p, x: x, record: newRecord(x, now, 2*len(p.members)), unseen: p.flows[Request].deciding}
}

// execute runs the whole exchange except the audit that ends it.
func (r *exchangeRun) execute(ctx context.Context, send Stage, after []Stage) error {
	x := r.x
	if err := r.decide(ctx, Request); err != nil {
		return err
	}
	if x.Verdict.Action != Respond {
		r.sent = true
		err := send(ctx, x)
		switch {
		case err != nil && (x.Notify || x.Verdict.Action == Deny): // a policy refused the change of a hook
			return err
		case err != nil:
			r.fail(err)
		}
	}
	if x.Notify {
		return nil
	}
	if err := r.decide(ctx, Response); err != nil {
		return err
	}
	for _, stage := range after {
		if err := stage(ctx, x); err != nil {
			return err
		}
	}
	return nil
}

// decide asks the policies of the flow. In the request flow, audit policies are asked too, unless
// the exchange is a notification or was answered by a policy.
func (r *exchangeRun) decide(ctx context.Context, flow Flow) error {
	chain := r.p.flows[flow]
	remaining := chain.limit
	if flow == Response && r.x.Failure != nil {
		return r.decideFailure(ctx, chain, &remaining)
	}
	if err := r.observe(ctx, flow, chain, &remaining); err != nil {
		return err
	}
	if err := r.round(ctx, flow, chain.deciding, &remaining, false); err != nil {
		return err
	}
	if flow == Response || r.x.Notify || r.dryRun || r.x.Verdict.Action == Respond {
		return nil
	}
	return r.tellAudits(ctx, &remaining, false)
}

// tellAudits shows the request, which is about to be sent, to the audit policies.
func (r *exchangeRun) tellAudits(ctx context.Context, remaining *time.Duration, again bool) error {
	r.auditsTold = 0
	for _, m := range r.p.audit {
		r.auditsTold++
		if m.handles(Request) && m.spec.Match.matches(r.x) {
			if err := r.step(ctx, Request, m, remaining, again); err != nil {
				return err
			}
		}
	}
	return nil
}

// round asks members in order. When a content policy has changed the payload, authorization and
// validation policies decide again about the changed payload, so that no content policy undoes what
// they decided. Approval requests are sent last, so that a person sees what will be sent, and never
// an exchange that a policy denies.
func (r *exchangeRun) round(ctx context.Context, flow Flow, members []*member, remaining *time.Duration, again bool,
) error {
	r.changed, r.asks = false, nil
	defer r.dropAsks()
	if flow == Request && len(members) > 0 {
		if err := strictjson.NoTwins(r.x.Request); err != nil {
			return protocol.Errorf(protocol.InvalidArguments, "the params of %s are ambiguous: %w", r.x.Method, err)
		}
	}
	unseen, err := r.each(ctx, flow, members, remaining, again)
	if err != nil {
		return err
	}
	if flow == Request {
		r.unseen = unseen
	}
	if r.changed && (flow == Response || r.x.Verdict.Action != Respond) {
		rest := r.p.flows[flow].limit // a new limit, so that no optional policy is skipped for lack of time
		if _, err := r.each(ctx, flow, guarding(members, Authorization, Validation), &rest, true); err != nil {
			return err
		}
	}
	return r.askAll(ctx)
}

func guarding(members []*member, categories ...Category) []*member {
	return slices.DeleteFunc(slices.Clone(members),
		func(m *member) bool { return !slices.Contains(categories, m.spec.Category) })
}

// each asks members in order until one denies the exchange or answers it. After an answer, each
// returns the members that were not asked.
func (r *exchangeRun) each(ctx context.Context, flow Flow, members []*member, remaining *time.Duration, again bool,
) ([]*member, error) {
	for i, m := range members {
		if !m.spec.Match.matches(r.x) {
			continue
		}
		if err := r.step(ctx, flow, m, remaining, again); err != nil {
			return nil, err
		}
		if flow == Request && r.x.Verdict.Action == Respond {
			return members[i+1:], nil
		}
	}
	return nil, nil
}

func (r *exchangeRun) step(ctx context.Context, flow Flow, m *member, remaining *time.Duration, again bool) error {
	e := m.evaluate(ctx, flow, r.x, *remaining)
	*remaining -= e.took
	e.again = again
	return r.apply(ctx, flow, m, e)
}

// again asks the policies that must see a change that a hook has made.
func (r *exchangeRun) again(ctx context.Context, flow Flow) error {
	if flow == Response && r.x.Failure != nil {
		return nil
	}
	sent := r.sent
	if flow == Request { // the changed request has not been sent
		r.sent, r.unseen = false, r.p.flows[Request].deciding
	}
	remaining := r.p.flows[flow].limit
	guards := guarding(r.p.flows[flow].deciding, Authorization, Validation, Content)
	if err := r.round(ctx, flow, guards, &remaining, true); err != nil {
		return err
	}
	if flow == Request && r.auditsTold > 0 && r.x.Verdict.Action != Respond { // audit has seen the old request
		if err := r.tellAudits(ctx, &remaining, true); err != nil {
			return err
		}
	}
	if flow == Response || r.x.Verdict.Action != Respond {
		r.sent = sent
	}
	return nil
}

// observe asks all observers in parallel.
func (r *exchangeRun) observe(ctx context.Context, flow Flow, c chain, remaining *time.Duration) error {
	for _, m := range c.detached {
		switch {
		case !m.spec.Match.matches(r.x):
		case r.dryRun:
			_ = r.step(ctx, flow, m, remaining, false)
		default:
			r.detach(flow, m)
		}
	}
	var asked []*member
	for _, m := range c.awaited {
		if m.spec.Match.matches(r.x) {
			asked = append(asked, m)
		}
	}
	if len(asked) == 0 {
		return nil
	}
	began, limit := time.Now(), *remaining // a copy: what a closure captures is allocated
	evaluations := make([]evaluation, len(asked))
	var wg sync.WaitGroup
	for i, m := range asked[1:] {
		wg.Go(func() { evaluations[i+1] = m.evaluate(ctx, flow, r.x, limit) })
	}
	evaluations[0] = asked[0].evaluate(ctx, flow, r.x, limit)
	wg.Wait()
	*remaining -= time.Since(began)
	var first error
	for i, m := range asked {
		if err := r.apply(ctx, flow, m, evaluations[i]); err != nil && first == nil {
			first = err
		}
	}
	return first
}

func (r *exchangeRun) fail(err error) {
	r.x.Failure, r.x.Response = asError(err), nil
}

func asError(err error) *protocol.Error {
	if e, ok := errors.AsType[*protocol.Error](err); ok {
		return e
	}
	kind := cmp.Or(protocol.KindOf(err), protocol.ExtensionError)
	return protocol.Errorf(kind, "%w", err)
}
