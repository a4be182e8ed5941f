package governance

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/exthost/exthost/protocol"
)

// passage is one exchange on its way through a pipeline.
type passage struct {
	p      *Pipeline
	x      *Exchange
	record *record
	sent   bool // send has been called
	clean  bool // content has let the request pass as it is now
	warned int  // how many of audit have been told of the request
	trial  bool // nothing is sent and nobody is asked
}

type passageKey struct{}

func (p *Pipeline) begin(x *Exchange) *passage {
	now := time.Now()
	x.ID, x.Began = newID(now), now
	return &passage{p: p, x: x, record: newRecord(x, now, 2*len(p.members))}
}

// carry is Govern without the audit that closes the exchange.
func (g *passage) carry(ctx context.Context, send Leg, after []Leg) error {
	x := g.x
	if err := g.decide(ctx, Request); err != nil {
		return err
	}
	if x.Verdict.Action != Respond {
		g.sent = true
		err := send(ctx, x)
		switch {
		case err != nil && (x.Notify || x.Verdict.Action == Deny): // what a hook changed was refused
			return err
		case err != nil:
			g.fail(err)
		}
	}
	if x.Notify {
		return nil
	}
	if err := g.decide(ctx, Response); err != nil {
		return err
	}
	for _, leg := range after {
		if err := leg(ctx, x); err != nil {
			return err
		}
	}
	return nil
}

// decide asks everybody about the flow, audit only about a request that is to be
// followed by a response.
func (g *passage) decide(ctx context.Context, flow Flow) error {
	chain, left := g.p.flows[flow], g.p.o.ChainTimeout
	if err := g.observe(ctx, flow, chain, &left); err != nil {
		return err
	}
	if flow == Response && g.x.Failure != nil {
		return g.decideFailure(ctx, chain, &left)
	}
	if err := g.each(ctx, flow, chain.body, &left, false); err != nil {
		return err
	}
	if flow == Response {
		return nil
	}
	g.clean = true
	if g.x.Notify || g.trial || g.x.Verdict.Action == Respond {
		return nil
	}
	for _, m := range g.p.audit {
		g.warned++
		if m.handles(Request) && m.spec.Match.fits(g.x) {
			if err := g.step(ctx, flow, m, &left, false); err != nil {
				return err
			}
		}
	}
	return nil
}

// each asks members one after the other, until one denies or answers.
func (g *passage) each(ctx context.Context, flow Flow, members []*member, left *time.Duration, again bool) error {
	for _, m := range members {
		if !m.spec.Match.fits(g.x) {
			continue
		}
		if err := g.step(ctx, flow, m, left, again); err != nil {
			return err
		}
		if flow == Request && g.x.Verdict.Action == Respond {
			return nil
		}
	}
	return nil
}

// step asks one member, and does what it decides.
func (g *passage) step(ctx context.Context, flow Flow, m *member, left *time.Duration, again bool) error {
	o := m.consult(ctx, flow, g.x, *left)
	*left -= o.took
	o.again = again
	return g.apply(ctx, flow, m, o)
}

// again asks those about the flow who have to see what a hook makes of it.
func (g *passage) again(ctx context.Context, flow Flow) error {
	if flow == Response && g.x.Failure != nil {
		return nil
	}
	var members []*member
	for _, m := range g.p.flows[flow].body {
		switch m.spec.Category {
		case Authorization, Validation, Content:
			members = append(members, m)
		}
	}
	sent, clean := g.sent, g.clean
	if flow == Request { // which is not out yet
		g.sent, g.clean = false, false
	}
	left := g.p.o.ChainTimeout
	if err := g.each(ctx, flow, members, &left, true); err != nil {
		return err
	}
	g.sent, g.clean = sent, clean
	return nil
}

// observe asks the observers, all at once.
func (g *passage) observe(ctx context.Context, flow Flow, c chain, left *time.Duration) error {
	for _, m := range c.detached {
		switch {
		case !m.spec.Match.fits(g.x):
		case g.trial:
			_ = g.step(ctx, flow, m, left, false)
		default:
			g.detach(flow, m)
		}
	}
	var asked []*member
	for _, m := range c.waited {
		if m.spec.Match.fits(g.x) {
			asked = append(asked, m)
		}
	}
	if len(asked) == 0 {
		return nil
	}
	began := time.Now()
	opinions := make([]opinion, len(asked))
	var wg sync.WaitGroup
	for i, m := range asked[1:] {
		wg.Go(func() { opinions[i+1] = m.consult(ctx, flow, g.x, *left) })
	}
	opinions[0] = asked[0].consult(ctx, flow, g.x, *left)
	wg.Wait()
	*left -= time.Since(began)
	var first error
	for i, m := range asked {
		if err := g.apply(ctx, flow, m, opinions[i]); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// fail ends the exchange with err.
func (g *passage) fail(err error) {
	g.x.Failure, g.x.Response = asError(err), nil
}

func asError(err error) *protocol.Error {
	if e, ok := errors.AsType[*protocol.Error](err); ok {
		return e
	}
	kind := protocol.KindOf(err)
	if kind == "" {
		kind = protocol.ExtensionError
	}
	return protocol.Errorf(kind, "%w", err)
}
