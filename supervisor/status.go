package supervisor

import "time"

// SlotStatus is a snapshot of one slot.
type SlotStatus struct {
	Key         string // of the slot: "" when Shared, "0", "1"… when Fixed, the call's key when PerKey
	State       State
	Since       time.Time // of the state
	Attempt     int       // number of the latest restart; 0: none
	MaxAttempts int       // of restarts within the window; negative: unlimited
	Next        time.Time // Restarting: when the next instance is due; Failed: when a trial may start, zero for never
	Restarts    int       // in all
	Err         error     // of the latest failure; nil if there was none or Restart cleared it

	Breaker      BreakerState
	BreakerUntil time.Time // Breaker open: when the probe may pass

	InFlight int // calls on the running instance
	Queued   int // waiting calls; a Fixed group counts all of them on its first slot
}

// Status returns a snapshot of every slot, in order of creation. It includes slots of
// released keys until they have stopped.
func (g *Group[S]) Status() []SlotStatus {
	var all []SlotStatus
	g.update(nil, func() {
		for _, sl := range g.st.slots {
			all = append(all, sl.status())
		}
	})
	return all
}

func (sl *slot[S]) status() SlotStatus {
	s := SlotStatus{
		Key:         sl.key,
		State:       sl.state,
		Since:       sl.since,
		Attempt:     sl.attempt,
		MaxAttempts: sl.policy.MaxAttempts,
		Restarts:    sl.restarts,
		Err:         sl.err,
		Breaker:     sl.breaker.state,
	}
	if sl.state == Restarting || sl.state == Failed {
		s.Next = sl.next
	}
	if sl.breaker.state == BreakerOpen {
		s.BreakerUntil = sl.breaker.until
	}
	if sl.inst != nil {
		s.InFlight = sl.inst.inFlight
	}
	if sl == sl.pool.slots[0] {
		s.Queued = len(sl.pool.queue)
	}
	return s
}
