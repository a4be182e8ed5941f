package supervisor

import "time"

// SlotStatus is the state of one slot.
type SlotStatus struct {
	Key         string // "" if Shared, "0", "1"… if Fixed, the call's key if PerKey
	State       State
	Since       time.Time // when State was entered
	Attempt     int       // number of the latest restart within the budget; 0: none
	MaxAttempts int       // max restarts within the window; negative: unlimited
	Next        time.Time // Restarting: when the next instance is due; Failed: when a trial may start, zero for never
	Restarts    int       // instances that replaced one that ended by itself, in total
	Err         error     // of the latest failure; nil if there was none or Restart has cleared it

	Breaker      BreakerState
	BreakerUntil time.Time // Breaker open: when the probe may pass

	InFlight int // calls on the running instance
	Queued   int // waiting calls; in a Fixed group, all of them are counted on the first slot
}

// Status returns the state of every slot, in order of creation, including slots of released keys that have not stopped
// yet.
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
