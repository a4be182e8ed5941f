package supervisor

import "time"

// maxPending bounds the events kept for an OnEvent that lags.
const maxPending = 1024

// EventKind says what an event is about.
type EventKind string

// The kinds of event.
const (
	StateChanged   EventKind = "state"   // a slot entered Event.State
	BreakerChanged EventKind = "breaker" // a slot's breaker entered Event.Breaker
)

// Event is one change of one slot.
type Event struct {
	Time  time.Time
	Group string // Options.Name
	Key   string // as in [SlotStatus]
	Kind  EventKind

	State       State
	Attempt     int       // Restarting, and the Spawning and Ready that follow: which restart this is
	MaxAttempts int       // of how many; negative: unlimited
	Err         error     // Restarting and Failed: why
	Asked       bool      // Failed: Start or Restart waited for this and returns Err
	Next        time.Time // Restarting: when the next instance is due; Failed: when a trial may start, zero for never; Breaker open: when the probe may pass
	Breaker     BreakerState

	Lost int // events dropped just before this one because OnEvent lagged
}

// emit queues an event about sl for the hook. The group's lock is held.
func (g *Group[S]) emit(sl *slot[S], kind EventKind) {
	if g.o.OnEvent == nil {
		return
	}
	st := &g.st
	if len(st.pending) >= maxPending {
		st.lost++
		return
	}
	e := Event{Time: g.now(), Group: g.o.Name, Key: sl.key, Kind: kind, State: sl.state,
		Attempt: sl.attempt, MaxAttempts: g.o.Restart.MaxAttempts, Breaker: sl.breaker.state, Lost: st.lost}
	switch {
	case kind == BreakerChanged && sl.breaker.state == BreakerOpen:
		e.Next = sl.breaker.until
	case sl.state == Restarting:
		e.Err, e.Next = sl.err, sl.next
	case sl.state == Failed:
		e.Err, e.Asked, e.Next = sl.err, sl.asked, sl.next
	}
	st.lost = 0
	st.pending = append(st.pending, e)
}

// deliver runs the hook until no event is left, outside the lock. At most one
// deliver runs at a time, which is what keeps the events in order.
func (g *Group[S]) deliver() {
	for {
		var events []Event
		g.update(nil, func() {
			events, g.st.pending = g.st.pending, nil
			if len(events) == 0 {
				g.st.delivering = false
				g.st.busy--
			}
		})
		if len(events) == 0 {
			return
		}
		for _, e := range events {
			g.o.OnEvent(e)
		}
	}
}
