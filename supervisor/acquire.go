package supervisor

import (
	"context"
	"errors"
	"time"

	"github.com/exthost/exthost/protocol"
)

// lease is one call's hold on one instance.
type lease[S Service] struct {
	g      *Group[S]
	slot   *slot[S]
	inst   *instance[S] // nil once released
	ticket ticket
}

// Acquire returns a Ready instance for one call and the function that gives it
// back with the call's outcome, which must be called and does nothing the second
// time. The key chooses the slot of a PerKey group and is ignored otherwise.
//
// It starts an Idle slot, and waits in order of arrival while the instance starts,
// while a restart is due within 1 s, or for room. Else it fails with a
// *protocol.Error: Overloaded (the queue is full, QueueTimeout has passed, or all
// MaxInstances are busy), BreakerOpen and NotReady (both with RetryAfter),
// Failed, ShuttingDown; or with the error of an on-demand start that it waited
// for. When ctx ends while it waits, the error wraps ctx.Err(): Canceled, or for
// a deadline Overloaded or NotReady, by what it waited for.
func (g *Group[S]) Acquire(ctx context.Context, key string) (S, func(outcome error), error) {
	var (
		none S
		l    *lease[S]
		w    *waiter[S]
		p    *pool[S]
		err  = ctx.Err()
	)
	if err != nil {
		return none, nil, protocol.Errorf(protocol.Canceled, "given up before it began: %w", err)
	}
	g.update(nil, func() {
		if p, err = g.poolOf(key); err == nil {
			l, w, err = g.enter(p)
		}
	})
	if w != nil {
		l, err = g.await(ctx, p, w)
	}
	if err != nil {
		return none, nil, err
	}
	return l.inst.service, l.release, nil
}

// await returns what became of a waiter, at the latest when ctx ends or it has
// waited for QueueTimeout while p had a Ready slot.
func (g *Group[S]) await(ctx context.Context, p *pool[S], w *waiter[S]) (*lease[S], error) {
	timer := time.NewTimer(g.o.QueueTimeout)
	defer timer.Stop()
	for {
		select {
		case <-w.settled:
			return w.lease, w.err
		case <-ctx.Done():
			cause := ctx.Err()
			g.update(p, func() {
				if !w.isSettled() {
					p.settleOne(w, nil, p.abandoned(cause))
				}
			})
			return w.lease, w.err
		case <-timer.C:
			g.update(p, func() {
				left := g.patience(p, w)
				if left <= 0 && !w.isSettled() {
					p.settleOne(w, nil, protocol.Errorf(protocol.Overloaded, "no room within %s", g.o.QueueTimeout))
				}
				timer.Reset(left)
			})
		}
	}
}

func (w *waiter[S]) isSettled() bool { return w.lease != nil || w.err != nil }

// patience is how long w may yet wait. Its time runs only while p has a Ready slot.
func (g *Group[S]) patience(p *pool[S], w *waiter[S]) time.Duration {
	if !p.has(Ready) {
		return g.o.QueueTimeout
	}
	from := w.since
	if p.served.After(from) {
		from = p.served
	}
	return from.Add(g.o.QueueTimeout).Sub(g.now())
}

// abandoned is the error of a call whose context ended in the queue.
func (p *pool[S]) abandoned(cause error) error {
	switch {
	case !errors.Is(cause, context.DeadlineExceeded):
		return protocol.Errorf(protocol.Canceled, "given up while waiting: %w", cause)
	case p.has(Ready):
		return protocol.Errorf(protocol.Overloaded, "no room within the call's time: %w", cause)
	}
	return protocol.Errorf(protocol.NotReady, "not ready within the call's time: %w", cause)
}

// release gives the instance back. If it has died meanwhile, nothing of its
// slot's next instance changes.
func (l *lease[S]) release(err error) {
	g, sl := l.g, l.slot
	o, ended := g.o.outcomeOf(err), g.o.Ended(err)
	g.update(sl.pool, func() {
		inst := l.inst
		if inst == nil {
			return
		}
		l.inst = nil
		inst.inFlight--
		if sl.inst != inst {
			return
		}
		if g.o.IdleTimeout > 0 || g.o.Mode == PerKey { // somebody will ask
			sl.used = g.now()
		}
		if inst.gone = inst.gone || ended; !inst.gone { // the next one has a breaker of its own
			g.report(sl, l.ticket, o)
			if o == succeeded && g.o.Restart.Cooldown > 0 {
				sl.policy.reset()
			}
		}
		if sl.state == Draining && inst.inFlight == 0 {
			inst.cancel()
		}
	})
}

// report tells the breaker of sl what a call came to.
func (g *Group[S]) report(sl *slot[S], t ticket, o outcome) {
	was := sl.breaker.state
	if sl.breaker.report(t, o); sl.breaker.state != was {
		g.emit(sl, BreakerChanged)
	}
}

// enter gives a new call what offer has for it, or a place in the queue.
func (g *Group[S]) enter(p *pool[S]) (*lease[S], *waiter[S], error) {
	l, err := g.offer(p, len(p.queue)+1)
	if l != nil || err != nil {
		return l, nil, err
	}
	if len(p.queue) >= g.o.MaxQueue*len(p.slots) {
		return nil, nil, protocol.Errorf(protocol.Overloaded, "%d calls are waiting already", len(p.queue))
	}
	w := &waiter[S]{since: g.now(), settled: make(chan struct{})}
	p.queue = append(p.queue, w)
	return nil, w, nil
}
