package supervisor

import (
	"context"
	"errors"
	"slices"
	"time"
)

// slot is the place of one instance and all that outlives it. Its methods and
// those of the group that take one run under the group's lock.
type slot[S Service] struct {
	pool  *pool[S]
	key   string
	state State
	since time.Time // of the state
	inst  *instance[S]
	used  time.Time // when the instance last had a call or became Ready

	policy   policy
	breaker  *breaker  // of the instance, or of the next one
	attempt  int       // the restart that is under way or led here; 0: none
	restarts int       // instances started again after a failure, in all
	next     time.Time // Restarting: when the next instance is due; Draining: when its calls' time is up; Failed: when a trial may start, zero for never
	err      error     // of the latest failure
	asked    bool      // Start or Restart waits for this instance: its failing to start is final
	then     State     // Draining: what follows, Idle, Spawning or Shutdown

	alarm   *time.Timer
	alarmed int // numbers the alarms, so that one that fires too late is known
}

// instance is one run of the service.
type instance[S Service] struct {
	service  S
	cancel   context.CancelFunc
	inFlight int
	gone     bool // a call saw it end; its Serve is about to say so
}

func (g *Group[S]) setState(sl *slot[S], s State) {
	sl.clearAlarm()
	sl.state, sl.since = s, g.now()
	g.emit(sl, StateChanged)
	g.broadcast()
}

// setAlarm has ring called after d unless the state changes before.
func (g *Group[S]) setAlarm(sl *slot[S], d time.Duration) {
	sl.clearAlarm()
	n := sl.alarmed
	sl.alarm = time.AfterFunc(d, func() {
		g.update(sl.pool, func() {
			if sl.alarmed == n {
				g.ring(sl)
			}
		})
	})
}

func (sl *slot[S]) clearAlarm() {
	sl.alarmed++
	if sl.alarm != nil {
		sl.alarm.Stop()
	}
}

// ring is what a slot's state waited for.
func (g *Group[S]) ring(sl *slot[S]) {
	switch sl.state {
	case Restarting, Failed:
		if !g.o.onDemand() {
			g.spawn(sl, false)
		} // else settle does if a call waits
	case Draining:
		sl.inst.cancel()
	case Ready:
		unused := g.now().Sub(sl.used)
		switch {
		case sl.inst.inFlight > 0:
			g.setAlarm(sl, g.o.IdleTimeout)
		case unused < g.o.IdleTimeout:
			g.setAlarm(sl, g.o.IdleTimeout-unused)
		case g.o.Mode == PerKey:
			g.dismiss(sl.pool, 0)
		default:
			g.stop(sl, 0, Idle)
		}
	}
}

// spawn starts an instance in a slot that has none. asked makes its failing to
// start final.
func (g *Group[S]) spawn(sl *slot[S], asked bool) {
	if sl.attempt > 0 {
		sl.restarts++
	}
	if !g.st.starts.until.IsZero() { // this is its trial: no other for another Cooldown
		g.st.starts.exhaust(g.now())
	}
	ctx, cancel := context.WithCancel(context.Background())
	inst := &instance[S]{cancel: cancel}
	sl.inst, sl.asked = inst, asked
	g.setState(sl, Spawning)
	g.st.busy++
	go g.serve(ctx, sl, inst)
}

// serve is the goroutine of one instance.
func (g *Group[S]) serve(ctx context.Context, sl *slot[S], inst *instance[S]) {
	defer inst.cancel()
	service, err := g.start(sl.key)
	if err == nil {
		err = service.Serve(ctx, func() {
			g.update(sl.pool, func() { g.ready(sl, inst, service) })
		})
	}
	if err == nil {
		err = errEnded
	}
	replaced := g.o.Replaced(err)
	g.update(sl.pool, func() {
		g.ended(sl, err, replaced)
		g.st.busy--
	})
}

func (g *Group[S]) ready(sl *slot[S], inst *instance[S], service S) {
	if sl.inst != inst || sl.state != Spawning {
		return
	}
	inst.service = service
	if !sl.pool.has(Ready) {
		sl.pool.served = g.now()
	}
	g.st.starts.reset()
	sl.asked, sl.used = false, g.now()
	g.setState(sl, Ready)
	if g.o.IdleTimeout > 0 {
		g.setAlarm(sl, g.o.IdleTimeout)
	}
}

// ended moves a slot on after its instance has returned err. What the instance
// still had in flight goes with it.
func (g *Group[S]) ended(sl *slot[S], err error, replaced bool) {
	was, asked := sl.state, sl.asked
	sl.inst, sl.asked = nil, false
	g.freshBreaker(sl)
	if was == Spawning {
		g.startFailed(err)
	}
	switch {
	case was == Draining:
		g.drained(sl)
	case was == Spawning && asked:
		g.fail(sl, err, true)
	default:
		g.died(sl, err, replaced)
	}
	if g.o.Mode == PerKey { // another key may have waited for the room
		for _, other := range g.st.slots {
			g.settle(other.pool)
		}
	}
}

// died answers an end that nobody outside asked for: a restart, or the end of them.
func (g *Group[S]) died(sl *slot[S], err error, replaced bool) {
	var healthy time.Duration
	started := sl.state == Ready
	if started {
		healthy = g.now().Sub(sl.since)
	}
	delay, ok := time.Duration(0), true
	if !started || !replaced {
		delay, ok = sl.policy.failed(g.now(), healthy)
	}
	if errors.Is(err, ErrPermanent) || !ok {
		g.fail(sl, err, false)
		if sl.next.IsZero() {
			return
		}
	} else {
		sl.err, sl.attempt, sl.next = err, sl.policy.attempt(), g.now().Add(delay)
		g.setState(sl, Restarting)
		g.setAlarm(sl, delay)
	}
	if g.o.onDemand() && !started && !sl.pool.has(Ready, Spawning) {
		g.refuse(sl.pool, err) // the calls that wanted this instance learn why there is none
	}
}

// fail ends the restarts of a slot: for good, or until its Cooldown has passed.
func (g *Group[S]) fail(sl *slot[S], err error, asked bool) {
	sl.policy.until = time.Time{}
	if !errors.Is(err, ErrPermanent) {
		sl.policy.exhaust(g.now())
	}
	sl.err, sl.next = err, sl.policy.until
	sl.asked = asked // for the event
	g.setState(sl, Failed)
	sl.asked = false
	if !sl.next.IsZero() {
		g.setAlarm(sl, g.o.Restart.Cooldown)
	}
}

// freshBreaker puts a closed breaker in place for the next instance.
func (g *Group[S]) freshBreaker(sl *slot[S]) {
	was := sl.breaker.state
	sl.breaker = newBreaker(g.o.Name, g.o.Breaker)
	if was != BreakerClosed {
		g.emit(sl, BreakerChanged)
	}
}

// restart replaces the slot's instance, if it has one, and clears its failures.
func (g *Group[S]) restart(sl *slot[S]) {
	if g.st.stopping || sl.pool.leaving {
		return
	}
	sl.policy.reset()
	sl.attempt, sl.err = 0, nil
	if sl.inst == nil {
		g.spawn(sl, true)
		return
	}
	g.stop(sl, g.o.DrainTimeout, Spawning)
	sl.asked = true
}

// stop moves a slot towards then. An instance gets up to drain for its calls, or
// what is left of an earlier, shorter drain.
func (g *Group[S]) stop(sl *slot[S], drain time.Duration, then State) {
	until := g.now().Add(drain)
	switch {
	case sl.state == Shutdown:
		return
	case sl.inst == nil:
		sl.then = then
		g.drained(sl)
		return
	case sl.state != Draining:
		g.setState(sl, Draining)
	case sl.next.Before(until):
		until = sl.next
	}
	sl.next, sl.then, sl.asked = until, then, false
	if sl.inst.inFlight == 0 || drain <= 0 {
		sl.inst.cancel()
	} else {
		g.setAlarm(sl, until.Sub(g.now()))
	}
}

// drained ends Draining.
func (g *Group[S]) drained(sl *slot[S]) {
	sl.attempt = 0
	if sl.then == Spawning {
		g.spawn(sl, true)
		return
	}
	g.setState(sl, sl.then)
	if sl.pool.leaving {
		g.st.slots = slices.DeleteFunc(g.st.slots, func(o *slot[S]) bool { return o == sl })
	}
}
