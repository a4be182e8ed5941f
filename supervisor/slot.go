package supervisor

import (
	"context"
	"errors"
	"slices"
	"time"
)

// slot runs one instance at a time and keeps the state that outlives an instance. Its methods, and those of Group that
// take a slot, require the group's lock.
type slot[S Service] struct {
	pool     *pool[S]
	key      string
	state    State
	since    time.Time // when state was entered
	inst     *instance[S]
	lastUsed time.Time // latest release of a call, or when the instance became Ready
	kept     bool      // Options.Keep of the key

	policy   policy
	breaker  *breaker // of the current instance, or of the next one
	attempt  int      // number of the latest restart within the budget; 0: none
	restarts int      // instances that replaced one that ended by itself, in total
	again    bool     // the current instance replaced one that ended by itself
	// Restarting: when the next instance is due. Draining: when the drain ends. Failed: when a trial may start; zero
	// for never.
	next time.Time
	err  error // of the latest failure
	// of the latest failed start; nil once an instance was Ready, or Start or Restart has requested a start
	startErr error
	// Start or Restart waits for this instance; a failed start is then final unless restarts are unlimited
	asked      bool
	afterDrain State // Draining: the next state: Idle, Spawning or Shutdown

	timer    *time.Timer
	timerSeq int // identifies the timer, to ignore a late callback
}

// instance is one run of the service.
type instance[S Service] struct {
	service  S
	cancel   context.CancelCauseFunc
	inFlight int
	exiting  bool // a call saw its end; Serve has not returned yet
}

// ending tells how an instance ended.
type ending struct {
	err      error
	replaced bool // Options.Replaced of err
	blocked  bool // Options.Blocked of err
}

func (g *Group[S]) setState(sl *slot[S], s State) {
	sl.stopTimer()
	sl.state, sl.since = s, g.now()
	g.emit(sl, StateChanged)
	g.broadcast()
}

// setTimer calls onTimer after d unless the state changes first.
func (g *Group[S]) setTimer(sl *slot[S], d time.Duration) {
	sl.stopTimer()
	n := sl.timerSeq
	sl.timer = time.AfterFunc(d, func() {
		g.update(sl.pool, func() {
			if sl.timerSeq == n {
				g.onTimer(sl)
			}
		})
	})
}

func (sl *slot[S]) stopTimer() {
	sl.timerSeq++
	if sl.timer != nil {
		sl.timer.Stop()
	}
}

// onTimer handles the end of a slot's timer.
func (g *Group[S]) onTimer(sl *slot[S]) {
	switch sl.state {
	case Restarting:
		if g.o.restartsItself() && g.hasRoom() && !g.coolingDown(sl) {
			g.spawn(sl, false)
		} // otherwise serveQueue starts it if a call waits
	case Failed:
		if !g.o.onDemand() {
			g.spawn(sl, false)
		}
	case Draining:
		sl.cancel()
	case Ready:
		unused := g.now().Sub(sl.lastUsed)
		switch {
		case sl.inst.inFlight > 0:
			g.setTimer(sl, g.o.IdleTimeout)
		case unused < g.o.IdleTimeout:
			g.setTimer(sl, g.o.IdleTimeout-unused)
		case g.o.Mode == PerKey:
			g.remove(sl.pool, 0)
		default:
			g.stop(sl, 0, Idle)
		}
	}
}

// spawn starts an instance in a slot that has none. asked means that Start or Restart waits for it.
func (g *Group[S]) spawn(sl *slot[S], asked bool) {
	// attempt is 0 if the host has replaced the instance, or somebody asked for a restart
	if sl.again = sl.attempt > 0 || sl.state == Restarting && !asked; sl.again {
		sl.restarts++
	}
	if !g.st.starts.until.IsZero() { // this start is the trial; the next may follow after another Cooldown
		g.st.starts.exhaust(g.now())
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	inst := &instance[S]{cancel: cancel}
	if sl.inst, sl.asked = inst, asked; asked {
		sl.startErr = nil
	}
	g.setState(sl, Spawning)
	g.st.busy++
	go g.serve(ctx, sl, inst)
}

// serve runs one instance on a goroutine.
func (g *Group[S]) serve(ctx context.Context, sl *slot[S], inst *instance[S]) {
	defer inst.cancel(nil)
	service, err := g.start(sl.key)
	if err == nil {
		err = service.Serve(ctx, func() {
			g.update(sl.pool, func() { g.onReady(sl, inst, service) })
		})
	}
	if err == nil {
		err = errEnded
	}
	end := ending{err, g.o.Replaced(err), g.o.Blocked(err)}
	g.update(sl.pool, func() {
		g.onExit(sl, end)
		g.st.busy--
	})
}

func (g *Group[S]) onReady(sl *slot[S], inst *instance[S], service S) {
	if sl.inst != inst || sl.state != Spawning {
		return
	}
	inst.service = service
	if !sl.pool.has(Ready) {
		sl.pool.readySince = g.now()
	}
	g.st.starts.reset()
	if sl.pool.released {
		g.stop(sl, 0, Shutdown)
		return
	}
	sl.asked, sl.startErr, sl.lastUsed = false, nil, g.now()
	g.setState(sl, Ready)
	if g.o.IdleTimeout > 0 {
		g.setTimer(sl, g.o.IdleTimeout)
	}
}

// onExit moves a slot to its next state after the instance has returned. Calls in flight belong to that instance and do
// not count for the next one.
func (g *Group[S]) onExit(sl *slot[S], end ending) {
	was, asked := sl.state, sl.asked
	sl.inst, sl.asked = nil, false
	g.resetBreaker(sl)
	if was == Spawning {
		sl.startErr = end.err
		g.startFailed(end.err)
	}
	switch {
	case sl.pool.released:
		sl.afterDrain = Shutdown
		g.onDrained(sl)
	case was == Draining:
		g.onDrained(sl)
	case was == Spawning && asked && g.o.Restart.MaxAttempts >= 0:
		g.fail(sl, end.err, true)
	default:
		g.onFailure(sl, end, asked)
	}
	if g.o.Mode == PerKey { // calls of other keys may be waiting for room
		for _, other := range g.st.slots {
			g.serveQueue(other.pool)
		}
	}
}

// onFailure restarts or fails the slot of an instance that ended by itself.
func (g *Group[S]) onFailure(sl *slot[S], end ending, asked bool) {
	started := sl.state == Ready
	onCall := end.blocked && g.o.Restart.Cooldown > 0 // a call starts the next one, once somebody has acted
	var delay time.Duration
	timed := false // the next one starts after delay
	if !onCall {
		delay, timed = g.mayRestart(sl, end)
	}
	if onCall || timed {
		sl.err, sl.attempt, sl.next = end.err, sl.policy.attempt(), g.now().Add(delay)
		sl.asked = asked // only for the event
		g.setState(sl, Restarting)
		sl.asked = false
	} else if g.fail(sl, end.err, asked); sl.next.IsZero() {
		return
	}
	if timed {
		g.setTimer(sl, delay)
	}
	if !started && !sl.pool.has(Ready, Spawning) {
		g.refuseWaiting(sl, end.err, timed)
	}
}

// mayRestart returns the delay of the restart after an instance has ended by itself, or false if there is none.
func (g *Group[S]) mayRestart(sl *slot[S], end ending) (delay time.Duration, ok bool) {
	var healthy time.Duration
	started := sl.state == Ready
	if started {
		healthy = g.now().Sub(sl.since)
	}
	if ok = true; !started || !end.replaced {
		delay, ok = sl.policy.failed(g.now(), healthy)
	}
	tried := !started && !g.st.starts.until.IsZero() // it was the trial start of all keys
	return delay, ok && !tried && !end.blocked && !errors.Is(end.err, ErrPermanent)
}

// refuseWaiting fails the calls that wait for sl, whose start has failed with err, unless they wait for a restart. With
// timed, a timer begins one.
func (g *Group[S]) refuseWaiting(sl *slot[S], err error, timed bool) {
	switch {
	case timed && g.o.Restart.Cooldown > 0:
	case g.o.onDemand(): // waiting calls get the error of the start
		g.refuse(sl.pool, g.untilCooldown(sl, err))
	// otherwise the waiting calls would start the next instance at once, again and again
	case g.o.Restart.OnCall && sl.next.Sub(g.now()) > onCallWait:
		g.refuse(sl.pool, g.refusal(sl))
	}
}

// fail moves a slot to Failed: for good, or until a Cooldown or a Trial.
func (g *Group[S]) fail(sl *slot[S], err error, asked bool) {
	sl.policy.until = time.Time{}
	if !errors.Is(err, ErrPermanent) {
		sl.policy.exhaust(g.now())
	}
	sl.err, sl.next = err, sl.policy.until
	sl.asked = asked // only for the event
	g.setState(sl, Failed)
	sl.asked = false
	if !sl.next.IsZero() {
		g.setTimer(sl, sl.next.Sub(g.now()))
	}
}

// resetBreaker gives the next instance a closed breaker.
func (g *Group[S]) resetBreaker(sl *slot[S]) {
	was := sl.breaker.state
	sl.breaker = newBreaker(g.o.Name, g.o.Breaker)
	if was != BreakerClosed {
		g.emit(sl, BreakerChanged)
	}
}

// restart replaces the instance of the slot, if any, and clears its failures.
func (g *Group[S]) restart(sl *slot[S]) {
	if g.st.stopping || sl.pool.released {
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

// stop moves a slot to the state then, by way of Draining. Calls in flight may finish within the time drain, or within
// the rest of an earlier, shorter drain.
func (g *Group[S]) stop(sl *slot[S], drain time.Duration, then State) {
	until := g.now().Add(drain)
	switch {
	case sl.state == Shutdown:
		return
	case sl.inst == nil:
		sl.afterDrain = then
		g.onDrained(sl)
		return
	case sl.state != Draining:
		g.setState(sl, Draining)
	case sl.next.Before(until):
		until = sl.next
	}
	sl.next, sl.afterDrain, sl.asked = until, then, false
	if sl.inst.inFlight == 0 || drain <= 0 {
		sl.cancel()
	} else {
		g.setTimer(sl, until.Sub(g.now()))
	}
}

// cancel ends the context of the instance of a draining slot.
func (sl *slot[S]) cancel() {
	if sl.afterDrain == Spawning {
		sl.inst.cancel(ErrRestarted)
		return
	}
	sl.inst.cancel(nil)
}

// onDrained moves a slot from Draining to its next state.
func (g *Group[S]) onDrained(sl *slot[S]) {
	sl.attempt = 0
	if sl.afterDrain == Spawning {
		g.spawn(sl, true)
		return
	}
	g.setState(sl, sl.afterDrain)
	if sl.pool.released {
		g.st.slots = slices.DeleteFunc(g.st.slots, func(o *slot[S]) bool { return o == sl })
	}
}
