package supervisor

import (
	"context"
	"errors"
	"time"

	"github.com/exthost/exthost/protocol"
)

// Refusal returns the error with which Acquire refuses calls of key because of a Cooldown: a *protocol.Error of kind
// NotReady, with RetryAfter and the Evidence of the latest failure; nil if no Cooldown applies. A key without a slot is
// treated as a new key. Refusal starts nothing. If a call has reported the end of an instance whose Serve has not
// returned yet, Refusal waits for the return as Acquire does, and returns nil if ctx ends first.
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

// cooldown returns when the Cooldown that applies to sl ends, and the failure that caused it. That is the Cooldown of
// sl or of the group's starts, whichever ends later. Zero means no Cooldown.
func (g *Group[S]) cooldown(sl *slot[S]) (until time.Time, cause error) {
	if g.st.starts.until.After(sl.policy.until) {
		return g.st.starts.until, g.st.startErr
	}
	return sl.policy.until, sl.err
}

// coolingDown reports whether a Cooldown, or the time before a Trial, keeps calls from starting an instance in sl.
func (g *Group[S]) coolingDown(sl *slot[S]) bool {
	if sl.inst != nil || sl.failedForGood() || g.o.Restart.OnCall {
		return false
	}
	until, _ := g.cooldown(sl)
	return !until.IsZero() && until.After(g.now())
}

// untilCooldown returns err, the latest failure of sl, with the RetryAfter of a Cooldown that it has begun.
func (g *Group[S]) untilCooldown(sl *slot[S], err error) error {
	e, ok := errors.AsType[*protocol.Error](err)
	if !ok || g.o.Restart.Cooldown == 0 || !g.coolingDown(sl) {
		return err
	}
	until, _ := g.cooldown(sl)
	refusal := *e
	refusal.RetryAfter = until.Sub(g.now())
	return &refusal
}

// failedForGood reports whether only Restart can start another instance.
func (sl *slot[S]) failedForGood() bool { return sl.state == Failed && sl.next.IsZero() }

// startFailed counts a failed start against the budget shared by all keys of a PerKey group. Without a shared budget,
// every new key would start a broken program again. A missing requirement does not count: one caller may lack a login
// that others have.
func (g *Group[S]) startFailed(err error) {
	if g.o.Mode != PerKey || g.o.Restart.Cooldown <= 0 || protocol.KindOf(err) == protocol.RequirementMissing {
		return
	}
	g.st.startErr = err
	if _, ok := g.st.starts.failed(g.now(), 0); !ok {
		g.st.starts.exhaust(g.now())
	}
}
