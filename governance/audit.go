package governance

import (
	"context"
	"encoding/json"
	"time"
)

// finish closes the exchange: audit is told how it ended, and the trace is kept.
func (g *passage) finish(ctx context.Context) error {
	x := g.x
	if len(g.p.audit) > 0 {
		g.close(context.WithoutCancel(ctx))
	}
	g.record.end(x, g.sent)
	if g.p.o.Traces != nil {
		g.p.o.Traces.add(g.record)
	}
	if x.Failure != nil {
		return x.Failure
	}
	return nil
}

// close asks all of audit about the response, and about the request those that
// have not been asked and see no other flow, or in a notification, all.
func (g *passage) close(ctx context.Context) {
	x, left := g.x, g.p.o.ChainTimeout
	shown := x
	if !g.clean {
		shown = g.cleaned(ctx)
	}
	for i, m := range g.p.audit {
		flow := Response
		if x.Notify || !m.handles(Response) {
			flow = Request
		}
		if !m.handles(flow) || flow == Request && i < g.warned || !m.spec.Match.fits(x) {
			continue
		}
		if shown != x {
			shown.Verdict, shown.Failure = x.Verdict, x.Failure
		}
		o := m.consult(ctx, flow, shown, left)
		left -= o.took
		if err := g.apply(ctx, flow, m, o); err != nil {
			g.fail(err)
		}
	}
}

// cleaned returns x for the record when content has not seen the request, because
// something before it ended the exchange: with what content would have made of it,
// and without the request when that cannot be said.
func (g *passage) cleaned(ctx context.Context) *Exchange {
	shown := *g.x
	watch := &passage{p: g.p, x: &shown}
	shown.Failure = nil
	left := g.p.o.ChainTimeout
	for _, m := range g.p.flows[Request].body {
		if m.spec.Category != Content || m.inert || !m.spec.Match.fits(&shown) {
			continue
		}
		to, ok := watch.preview(ctx, m, &left)
		if shown.Request = to; !ok {
			break
		}
	}
	shown.Failure = g.x.Failure
	return &shown
}

// preview returns what m makes of the request; ok is false when it does not let it
// pass.
func (g *passage) preview(ctx context.Context, m *member, left *time.Duration) (request json.RawMessage, ok bool) {
	o := m.consult(ctx, Request, g.x, *left)
	*left -= o.took
	err := o.err
	if err == nil {
		err = g.permit(Request, m, &o.Decision, new(Step))
	}
	switch {
	case err != nil && !m.spec.Required:
		return g.x.Request, true
	case err == nil && o.Action == Allow:
		return g.x.Request, true
	case err == nil && o.Action == Modify:
		return o.JSON, true
	}
	return nil, false
}
