package supervisor

import (
	"context"
	"time"

	"github.com/exthost/exthost/protocol"
)

// Refusal returns the error with which Acquire refuses a call with that key until a
// Cooldown has passed: a *protocol.Error of kind NotReady, with RetryAfter and the
// Evidence of the latest failure. It is nil when no Cooldown keeps the call out. A
// key without a slot is answered as a new key. Refusal starts no instance and no
// trial. An instance that a call saw end may not have returned yet; Refusal waits
// for it as Acquire does, and returns nil when ctx ends first.
func (g *Group[S]) Refusal(ctx context.Context, key string) (err error) {
	if g.o.Mode != PerKey {
		key = ""
	}
	_ = g.wait(ctx, func() bool {
		slots, ending := []*slot[S]{{state: Idle}}, false
		if p := g.st.pools[key]; p != nil {
			slots = p.slots
		}
		for _, sl := range slots {
			switch {
			case sl.inst != nil && sl.inst.exiting:
				ending = true
			case !g.coolingDown(sl):
				return true
			}
		}
		if !ending {
			err = g.refusal(slots[0])
		}
		return !ending
	})
	return err
}

// cooldown returns the end of the Cooldown that applies to sl, the slot's own or that
// of the group's starts, and the failure that caused it. The zero time is no Cooldown.
func (g *Group[S]) cooldown(sl *slot[S]) (until time.Time, cause error) {
	if g.st.starts.until.After(sl.policy.until) {
		return g.st.starts.until, g.st.startErr
	}
	return sl.policy.until, sl.err
}

// coolingDown reports whether a Cooldown, or the time before a Trial, keeps a call from
// starting an instance in sl.
func (g *Group[S]) coolingDown(sl *slot[S]) bool {
	if sl.inst != nil || sl.failedForGood() || g.o.Restart.OnCall {
		return false
	}
	until, _ := g.cooldown(sl)
	return !until.IsZero() && until.After(g.now())
}

// failedForGood reports whether nothing but Restart starts another instance.
func (sl *slot[S]) failedForGood() bool { return sl.state == Failed && sl.next.IsZero() }

// startFailed counts a failed start against the budget that all keys of a PerKey
// group share. Without it, every new key would start a broken program again. A
// requirement that is missing says nothing about the program: one caller may lack a
// login that others have.
func (g *Group[S]) startFailed(err error) {
	if g.o.Mode != PerKey || g.o.Restart.Cooldown <= 0 || protocol.KindOf(err) == protocol.RequirementMissing {
		return
	}
	g.st.startErr = err
	if _, ok := g.st.starts.failed(g.now(), 0); !ok {
		g.st.starts.exhaust(g.now())
	}
}
