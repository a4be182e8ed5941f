package supervisor

import "time"

// maxPendingEvents bounds the events queued for a slow OnEvent.
const maxPendingEvents = 1024

// EventKind tells what has changed.
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
	Attempt     int   // Restarting, and the Spawning and Ready that follow: number of the restart
	Again       bool  // Spawning, and the Ready that follows: the previous instance ended by itself
	MaxAttempts int   // Restart.MaxAttempts; negative: unlimited
	Err         error // Restarting and Failed: the cause
	Asked       bool  // Restarting and Failed: Start or Restart is waiting and returns Err
	// Restarting: when the next instance is due. Failed: when a trial may start; zero for never. Breaker open: when the
	// probe may pass.
	Next    time.Time
	Breaker BreakerState

	Lost int // events dropped just before this one because OnEvent was too slow
}

// emit queues an event about sl. The group's lock is held.
func (g *Group[S]) emit(sl *slot[S], kind EventKind) {
	if g.o.OnEvent == nil {
		return
	}
	st := &g.st
	if len(st.pendingEvents) >= maxPendingEvents {
		st.lostEvents++
		return
	}
	e := Event{
		Time:        g.now(),
		Group:       g.o.Name,
		Key:         sl.key,
		Kind:        kind,
		State:       sl.state,
		Attempt:     sl.attempt,
		MaxAttempts: g.o.Restart.MaxAttempts,
		Breaker:     sl.breaker.state,
		Lost:        st.lostEvents,
	}
	switch {
	case kind == StateChanged && (sl.state == Spawning || sl.state == Ready):
		e.Again = sl.again
	case kind == BreakerChanged && sl.breaker.state == BreakerOpen:
		e.Next = sl.breaker.until
	case sl.state == Restarting, sl.state == Failed:
		e.Err, e.Asked, e.Next = sl.err, sl.asked, sl.next
	}
	st.lostEvents = 0
	st.pendingEvents = append(st.pendingEvents, e)
}

// deliver calls OnEvent for all pending events, without the lock. At most one deliver runs at a time, so that events
// stay in order.
func (g *Group[S]) deliver() {
	for {
		var events []Event
		g.update(nil, func() {
			events, g.st.pendingEvents = g.st.pendingEvents, nil
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
