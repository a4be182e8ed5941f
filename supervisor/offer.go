package supervisor

import (
	"errors"
	"time"

	"github.com/exthost/exthost/protocol"
)

// soon is how far off a restart may be for calls to wait for it.
const soon = time.Second

// probeRetry is what calls refused because of a probe are told to wait, as it is
// not known when the probe ends.
const probeRetry = time.Second

// prospect is what a slot that cannot serve a call at once has for it.
type prospect int

const (
	startable prospect = iota // to be started for it
	starting                  // an instance that will be ready
	later                     // an instance without room, a restart due soon, or a change of instances
	never                     // an error
)

func (g *Group[S]) prospectOf(sl *slot[S]) prospect {
	switch due := sl.next.Sub(g.now()); {
	case g.coolingDown(sl):
		return never
	case sl.state == Idle, sl.state == Restarting && due <= 0, sl.state == Failed && !sl.failedForGood():
		return startable
	case sl.state == Spawning:
		return starting
	case sl.state == Draining, sl.state == Restarting && due <= soon, sl.state == Ready && g.permits(sl):
		return later
	}
	return never
}

// offer says what p has for a call now: an instance, an error, or neither, which
// means to wait. It starts what waiting calls, that many in all, need.
func (g *Group[S]) offer(p *pool[S], waiting int) (*lease[S], error) {
	if g.st.stopping || p.leaving {
		return nil, errShuttingDown
	}
	if sl := g.pick(p); sl != nil {
		return g.admit(sl), nil
	}
	var slots [never + 1]*slot[S]
	var count [never + 1]int
	for _, sl := range p.slots {
		k := g.prospectOf(sl)
		count[k]++
		if slots[k] == nil || slots[k].failedForGood() { // among refusals a passing one says more
			slots[k] = sl
		}
	}
	if count[startable] > 0 && count[starting]*g.o.MaxInFlight < waiting && g.hasRoom() {
		g.spawn(slots[startable], false)
	}
	if count[never] < len(p.slots) {
		return nil, nil
	}
	return nil, g.refusal(slots[never])
}

// permits reports whether sl's breaker lets a call through.
func (g *Group[S]) permits(sl *slot[S]) bool {
	return sl.breaker.state == BreakerClosed || sl.breaker.permits(g.now())
}

// pick returns the Ready slot with the fewest calls that may take one more.
func (g *Group[S]) pick(p *pool[S]) *slot[S] {
	var best *slot[S]
	for i := range p.slots {
		sl := p.slots[(p.turn+i)%len(p.slots)]
		if sl.state == Ready && !sl.inst.gone && sl.inst.inFlight < g.o.MaxInFlight &&
			(best == nil || sl.inst.inFlight < best.inst.inFlight) && g.permits(sl) {
			best = sl
		}
	}
	return best
}

func (g *Group[S]) admit(sl *slot[S]) *lease[S] {
	sl.pool.turn++
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

// refusal is the error of a slot whose prospect is never.
func (g *Group[S]) refusal(sl *slot[S]) error {
	switch {
	case sl.state == Ready:
		e := protocol.Errorf(protocol.BreakerOpen, "the last calls got no usable answer; the circuit breaker lets no more through for now")
		e.RetryAfter = probeRetry
		if sl.breaker.state == BreakerOpen {
			e.RetryAfter = sl.breaker.until.Sub(g.now())
		}
		return e
	case sl.failedForGood():
		e := protocol.Errorf(protocol.Failed, "given up, restart it to try again: %w", sl.err)
		e.Evidence = g.evidence(sl, sl.err, 0)
		return e
	case g.coolingDown(sl):
		until, cause := g.cooldown(sl)
		wait := until.Sub(g.now())
		e := protocol.Errorf(protocol.NotReady, "it keeps failing, the last time: %w; the next try is in %s", cause, wait.Round(time.Second))
		e.RetryAfter, e.Evidence = wait, g.evidence(sl, cause, wait)
		return e
	default:
		wait := sl.next.Sub(g.now())
		e := protocol.Errorf(protocol.NotReady, "restarting in %s after: %w", wait.Round(time.Millisecond), sl.err)
		e.RetryAfter, e.Evidence = wait, g.evidence(sl, sl.err, wait)
		return e
	}
}

// evidence is what a failure left behind, and what comes next for the slot.
func (g *Group[S]) evidence(sl *slot[S], cause error, next time.Duration) *protocol.Evidence {
	var ev protocol.Evidence
	if e := (*protocol.Error)(nil); errors.As(cause, &e) && e.Evidence != nil {
		ev = *e.Evidence
	}
	ev.Attempt, ev.MaxAttempts, ev.NextRetry = sl.attempt, g.o.Restart.MaxAttempts, next
	return &ev
}
