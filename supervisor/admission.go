package supervisor

import (
	"errors"
	"time"

	"github.com/exthost/exthost/protocol"
)

const (
	// maxRestartWait is how soon a restart must be due for calls to wait for it instead of being refused: the second in
	// a row is by default.
	maxRestartWait = 3 * time.Second
	// onCallWait is how soon a restart must be due for a call not to start the instance itself, with Restart.OnCall.
	onCallWait = time.Second
)

// probeRetryAfter is the RetryAfter of calls refused during a probe, whose end is unknown.
const probeRetryAfter = time.Second

// availability tells how a slot that cannot serve a call now may serve it later.
type availability int

const (
	startable   availability = iota // a new instance can be started
	starting                        // an instance starts and will be Ready
	busy                            // the instance has no room, is about to be replaced, or is due to restart soon
	unavailable                     // calls are refused; see refusal
)

func (g *Group[S]) availabilityOf(sl *slot[S]) availability {
	switch due := sl.next.Sub(g.now()); {
	case g.coolingDown(sl):
		return unavailable
	case sl.state == Idle, sl.state == Restarting && (due <= 0 || due > onCallWait && g.o.Restart.OnCall),
		sl.state == Failed && !sl.failedForGood():
		return startable
	case sl.state == Spawning:
		return starting
	case sl.state == Draining, sl.state == Restarting && (due <= maxRestartWait || g.o.Restart.Cooldown > 0),
		sl.state == Ready && g.permits(sl):
		return busy
	}
	return unavailable
}

// tryAcquire returns a lease on an instance of p, or the error for a call, or neither if the call has to wait. It
// starts an instance if those that are starting do not have room for all waiting calls.
func (g *Group[S]) tryAcquire(p *pool[S], waiting int) (*lease[S], error) {
	if g.st.stopping || p.released {
		return nil, errShuttingDown
	}
	if sl := g.pick(p); sl != nil {
		return g.admit(sl), nil
	}
	var slots [unavailable + 1]*slot[S]
	var count [unavailable + 1]int
	for _, sl := range p.slots {
		k := g.availabilityOf(sl)
		count[k]++
		if slots[k] == nil || slots[k].failedForGood() { // prefer a temporary refusal
			slots[k] = sl
		}
	}
	if count[startable] > 0 && count[starting]*g.o.MaxInFlight < waiting && g.hasRoom() {
		g.spawn(slots[startable], false)
	}
	if count[unavailable] < len(p.slots) {
		return nil, nil
	}
	return nil, g.refusal(slots[unavailable])
}

// permits reports whether sl's breaker lets a call through.
func (g *Group[S]) permits(sl *slot[S]) bool {
	return sl.breaker.state == BreakerClosed || sl.breaker.permits(g.now())
}

// pick returns the Ready slot with the fewest calls in flight that can take one more.
func (g *Group[S]) pick(p *pool[S]) *slot[S] {
	var best *slot[S]
	for i := range p.slots {
		sl := p.slots[(p.nextSlot+i)%len(p.slots)]
		if sl.state == Ready && !sl.inst.exiting && sl.inst.inFlight < g.o.MaxInFlight &&
			(best == nil || sl.inst.inFlight < best.inst.inFlight) && g.permits(sl) {
			best = sl
		}
	}
	return best
}

func (g *Group[S]) admit(sl *slot[S]) *lease[S] {
	sl.pool.nextSlot++
	sl.inst.inFlight++
	was := sl.breaker.state
	l := &lease[S]{g: g, slot: sl, inst: sl.inst, ticket: sl.breaker.admit()}
	if sl.breaker.state != was {
		g.emit(sl, BreakerChanged)
	}
	return l
}

// hasRoom reports whether one more instance may run.
func (g *Group[S]) hasRoom() bool {
	running := 0
	for _, sl := range g.st.slots {
		if sl.inst != nil {
			running++
		}
	}
	return g.o.Mode != PerKey || running < g.o.MaxInstances
}

// refusal returns the error for calls to an unavailable slot.
func (g *Group[S]) refusal(sl *slot[S]) error {
	switch {
	case sl.state == Ready:
		e := protocol.Errorf(protocol.BreakerOpen,
			"the last calls got no usable answer; the circuit breaker lets no more through for now")
		e.RetryAfter = probeRetryAfter
		if sl.breaker.state == BreakerOpen {
			e.RetryAfter = sl.breaker.until.Sub(g.now())
		}
		return e
	case sl.failedForGood():
		e := protocol.Errorf(protocol.Failed, "given up, restart it to try again: %w", sl.err)
		e.Evidence = g.evidence(sl, sl.err, 0)
		return e
	case g.coolingDown(sl), sl.state == Failed:
		until, cause := g.cooldown(sl)
		wait := until.Sub(g.now())
		if g.o.Restart.Cooldown == 0 {
			e := protocol.Errorf(protocol.Failed, "given up, the next try is in %s; restart it to try at once: %w",
				wait.Round(time.Second), cause)
			e.RetryAfter, e.Evidence = wait, g.evidence(sl, cause, wait)
			return e
		}
		e := protocol.Errorf(protocol.NotReady, "it keeps failing, the last time: %w; the next try is in %s", cause,
			wait.Round(time.Second))
		e.RetryAfter, e.Evidence = wait, g.evidence(sl, cause, wait)
		return e
	default:
		wait := sl.next.Sub(g.now())
		e := protocol.Errorf(protocol.NotReady, "restarting in %s after: %w", wait.Round(time.Millisecond), sl.err)
		e.RetryAfter, e.Evidence = wait, g.evidence(sl, sl.err, wait)
		return e
	}
}

// evidence returns the Evidence of cause, with sl's restart count and the time until the next start.
func (g *Group[S]) evidence(sl *slot[S], cause error, next time.Duration) *protocol.Evidence {
	var ev protocol.Evidence
	if e := (*protocol.Error)(nil); errors.As(cause, &e) && e.Evidence != nil {
		ev = *e.Evidence
	}
	ev.Attempt, ev.MaxAttempts, ev.NextRetry = sl.attempt, g.o.Restart.MaxAttempts, protocol.Duration(next)
	return &ev
}
