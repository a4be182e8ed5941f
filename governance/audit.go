package governance

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// finish ends the exchange: it runs the audit policies and stores the trace.
func (r *exchangeRun) finish(ctx context.Context) error {
	x := r.x
	if len(r.p.audit) > 0 {
		r.runAudit(context.WithoutCancel(ctx))
	}
	r.record.end(x, r.sent)
	if r.p.o.Traces != nil {
		r.p.o.Traces.add(r.record)
	}
	if x.Failure != nil {
		return x.Failure
	}
	return nil
}

// runAudit asks each audit policy about the response. A policy without the response flow, and every
// policy of a notification, is asked about the request instead, unless it has been already.
func (r *exchangeRun) runAudit(ctx context.Context) {
	x, remaining := r.x, r.p.flows[Response].limit
	shown := x
	if len(r.unseen) > 0 {
		shown = r.auditCopy(ctx)
	}
	for i, m := range r.p.audit {
		flow := Response
		if x.Notify || !m.handles(Response) {
			flow = Request
		}
		if !m.handles(flow) || flow == Request && i < r.auditsTold || !m.spec.Match.matches(x) {
			continue
		}
		if shown != x {
			shown.Verdict, shown.Failure = x.Verdict, x.Failure
		}
		e := m.evaluate(ctx, flow, shown, remaining)
		remaining -= e.took
		if err := r.apply(ctx, flow, m, e); err != nil {
			r.fail(err)
		}
	}
}

// auditCopy returns the copy of x that audit policies see when some content policies have not seen
// the request. The copy's request has the changes that those policies would make; it is nil if one
// of them denies the request, cannot decide or runs outside of this process.
func (r *exchangeRun) auditCopy(ctx context.Context) *Exchange {
	shown := *r.x
	watch := &exchangeRun{p: r.p, x: &shown}
	shown.Failure = nil
	remaining := r.p.flows[Request].limit
	for _, m := range r.unseen {
		if m.spec.Category != Content || m.shadowed || !m.spec.Match.matches(&shown) {
			continue
		}
		if m.spec.Kind != KindBuiltin { // a program must not get a request that has ended before it
			shown.Request = nil
			break
		}
		to, ok := watch.previewContent(ctx, m, &remaining)
		if shown.Request = to; !ok {
			break
		}
	}
	shown.Failure = r.x.Failure
	return &shown
}

// previewContent returns the request with the changes of m. ok is false when m denies the request
// or cannot decide.
func (r *exchangeRun) previewContent(ctx context.Context, m *member, remaining *time.Duration,
) (request json.RawMessage, ok bool) {
	e := m.evaluate(ctx, Request, r.x, *remaining)
	*remaining -= e.took
	err := e.err
	if err == nil {
		err = m.decided(r.checkAction(Request, m, &e.Decision, new(Step)))
	}
	switch {
	case err != nil && !m.required() && !errors.Is(err, ErrDecided):
		return r.x.Request, true
	case err == nil && (e.Action == Allow || e.Action == Respond):
		return r.x.Request, true
	case err == nil && e.Action == Modify:
		return e.JSON, true
	}
	return nil, false
}
