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
	inst   *instance[S] // nil after release
	ticket ticket
}

// Acquire returns a Ready instance for one call, and a release function that takes the call's outcome. The caller must
// call release; calling it again does nothing. key selects the slot of a PerKey group; other groups ignore it.
//
// Acquire starts an Idle slot. It waits, in order of arrival, while the instance starts, while a restart is due within
// 3 s, or until an instance has room. Otherwise it fails with a *protocol.Error: Overloaded (the queue is full,
// QueueTimeout has passed, or all MaxInstances are busy), BreakerOpen and NotReady (both with RetryAfter), Failed (with
// RetryAfter before a Trial), ShuttingDown; or with the error of the on-demand start that it waited for. If ctx ends
// during the wait, the error wraps ctx.Err(): its kind is Canceled, or after a deadline Overloaded if an instance was
// Ready, else NotReady.
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
	kept := g.o.Mode == PerKey && g.o.Keep(key)
	g.update(nil, func() {
		if p, err = g.poolOf(key, kept); err == nil {
			l, w, err = g.acquireOrEnqueue(p)
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

// await blocks until w has a lease or an error, ctx ends, or w has waited for QueueTimeout while p had a Ready slot.
func (g *Group[S]) await(ctx context.Context, p *pool[S], w *waiter[S]) (*lease[S], error) {
	timer := time.NewTimer(g.o.QueueTimeout)
	defer timer.Stop()
	for {
		select {
		case <-w.done:
			return w.lease, w.err
		case <-ctx.Done():
			cause := ctx.Err()
			g.update(p, func() {
				if !w.isDone() {
					p.resolve(w, nil, p.contextError(cause))
				}
			})
			return w.lease, w.err
		case <-timer.C:
			g.update(p, func() {
				left := g.remainingWait(p, w)
				if left <= 0 && !w.isDone() {
					p.resolve(w, nil, protocol.Errorf(protocol.Overloaded, "no room within %s", g.o.QueueTimeout))
				}
				timer.Reset(left)
			})
		}
	}
}

func (w *waiter[S]) isDone() bool { return w.lease != nil || w.err != nil }

// remainingWait returns how long w may still wait. Time without a Ready slot in p does not count.
func (g *Group[S]) remainingWait(p *pool[S], w *waiter[S]) time.Duration {
	if !p.has(Ready) {
		return g.o.QueueTimeout
	}
	from := w.since
	if p.readySince.After(from) {
		from = p.readySince
	}
	return from.Add(g.o.QueueTimeout).Sub(g.now())
}

// contextError returns the error of a call whose context ended in the queue.
func (p *pool[S]) contextError(cause error) error {
	switch {
	case !errors.Is(cause, context.DeadlineExceeded):
		return protocol.Errorf(protocol.Canceled, "given up while waiting: %w", cause)
	case p.has(Ready):
		return protocol.Errorf(protocol.Overloaded, "no room within the call's time: %w", cause)
	}
	return protocol.Errorf(protocol.NotReady, "not ready within the call's time: %w", cause)
}

// release gives the instance back and reports the outcome of the call. If the instance has ended, release changes
// nothing, as the slot may already run the next one.
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
		if g.o.IdleTimeout > 0 || g.o.Mode == PerKey { // nothing else reads lastUsed
			sl.lastUsed = g.now()
		}
		if inst.exiting = inst.exiting || ended; !inst.exiting { // the next instance gets a new breaker
			g.report(sl, l.ticket, o)
			if o == succeeded && g.o.Restart.Cooldown > 0 {
				sl.policy.reset()
			}
		}
		if sl.state == Draining && inst.inFlight == 0 {
			sl.cancel()
		}
	})
}

// report passes the outcome of a call to the breaker of sl.
func (g *Group[S]) report(sl *slot[S], t ticket, o outcome) {
	was := sl.breaker.state
	if sl.breaker.report(t, o); sl.breaker.state != was {
		g.emit(sl, BreakerChanged)
	}
}

// acquireOrEnqueue returns the lease or error of tryAcquire, or else queues the call.
func (g *Group[S]) acquireOrEnqueue(p *pool[S]) (*lease[S], *waiter[S], error) {
	l, err := g.tryAcquire(p, len(p.queue)+1)
	if l != nil || err != nil {
		return l, nil, err
	}
	if len(p.queue) >= g.o.MaxQueue*len(p.slots) {
		return nil, nil, protocol.Errorf(protocol.Overloaded, "%d calls are waiting already", len(p.queue))
	}
	w := &waiter[S]{since: g.now(), done: make(chan struct{})}
	p.queue = append(p.queue, w)
	return nil, w, nil
}
