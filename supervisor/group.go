package supervisor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/exthost/exthost/protocol"
)

// Group keeps the instances of one thing alive. Its methods may be called from
// many goroutines; none but those that say so wait for anything but a short lock.
type Group[S Service] struct {
	start func(key string) (S, error)
	o     Options

	mu sync.Mutex // guards st; held for bookkeeping only, never while foreign code runs
	st groupState[S]
}

// groupState is everything about a group that changes. Only update touches it.
type groupState[S Service] struct {
	now      time.Time           // of the update under way; see Group.now
	pools    map[string]*pool[S] // by key; the one pool of a Shared or Fixed group has key ""
	slots    []*slot[S]          // of all pools, in order of creation; also those of released keys until they have stopped
	starts   policy              // of a PerKey group with a Cooldown: starts that failed in a row, whatever their key
	startErr error               // of the latest of them
	stopping bool
	busy     int           // goroutines of the group
	changed  chan struct{} // closed by the next change that wait may wait for; nil when nobody does

	pending    []Event
	delivering bool
	lost       int
}

// NewGroup returns a group whose slots get their instances from start, called on
// a goroutine of the slot with the slot's key: "" when Shared, "0", "1"… when
// Fixed, the key of the call when PerKey. start makes an instance and leaves the
// slow work to its Serve; its error counts as a failed start. Nothing runs before
// Start or the first Acquire.
func NewGroup[S Service](start func(key string) (S, error), o Options) *Group[S] {
	g := &Group[S]{start: start, o: o.withDefaults()}
	g.st.pools = make(map[string]*pool[S])
	g.st.starts = policy{Restart: g.o.Restart, rand: g.o.Rand}
	switch {
	case o.Mode == Shared:
		g.newPool("", "")
	case o.Mode > 0:
		keys := make([]string, o.Mode)
		for i := range keys {
			keys[i] = strconv.Itoa(i)
		}
		g.newPool("", keys...)
	}
	return g
}

// update makes one change to the state and then does what follows from it: calls
// that wait for a slot of p (nil: none) are served or refused, the hook is told.
func (g *Group[S]) update(p *pool[S], change func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.st.now = time.Time{}
	change()
	if p != nil && len(p.queue) > 0 {
		g.settle(p)
	}
	if len(g.st.pending) > 0 && !g.st.delivering {
		g.st.delivering = true
		g.st.busy++
		go g.deliver()
	}
	if g.st.busy == 0 && g.st.stopping {
		g.broadcast()
	}
}

// now is the time of the update under way, the same throughout. The clock is read
// only when somebody asks, which a call to a healthy instance need not.
func (g *Group[S]) now() time.Time {
	if g.st.now.IsZero() {
		g.st.now = time.Now()
	}
	return g.st.now
}

// broadcast wakes wait.
func (g *Group[S]) broadcast() {
	if g.st.changed != nil {
		close(g.st.changed)
		g.st.changed = nil
	}
}

// wait blocks until done, which is asked under the lock after every change of a
// slot's state, or until ctx ends.
func (g *Group[S]) wait(ctx context.Context, done func() bool) error {
	for {
		var changed chan struct{}
		g.update(nil, func() {
			if done() {
				return
			}
			if g.st.changed == nil {
				g.st.changed = make(chan struct{})
			}
			changed = g.st.changed
		})
		if changed == nil {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Start starts the slots of an eager group and waits until one of them is Ready
// or all have Failed, which a slot does at once when its first start fails: their
// errors are joined. The others go on starting. When ctx ends first, so does the
// wait but not the start. A group that starts on demand does nothing.
func (g *Group[S]) Start(ctx context.Context) error {
	if g.o.onDemand() {
		return nil
	}
	p := g.st.pools[""] // fixed since NewGroup
	g.update(p, func() {
		for _, sl := range p.slots {
			if sl.state == Idle {
				g.spawn(sl, true)
			}
		}
	})
	return g.outcome(ctx, p.slots, true)
}

// Restart replaces the instances of the slots with the given keys, or of all when
// none is given, and forgets their failures: it is the way out of Failed. Calls
// in flight get DrainTimeout to end, new ones wait. It returns when each new
// instance is Ready or its slot Failed at once, with the errors of those; or when
// ctx ends, while the restart goes on. Idle slots stay idle, unknown keys are ignored.
func (g *Group[S]) Restart(ctx context.Context, keys ...string) error {
	var slots []*slot[S]
	g.update(nil, func() {
		if len(keys) == 0 {
			g.st.starts.reset()
		}
		for _, sl := range g.st.slots {
			if sl.state != Idle && (len(keys) == 0 || slices.Contains(keys, sl.key)) {
				slots = append(slots, sl)
				g.restart(sl)
			}
		}
	})
	return g.outcome(ctx, slots, false)
}

// outcome waits until all slots that were asked to start have become Ready or
// Failed, or the first is Ready if that is enough, and joins the errors unless it is.
func (g *Group[S]) outcome(ctx context.Context, slots []*slot[S], firstIsEnough bool) error {
	var failures []error
	var ready, undecided int
	err := g.wait(ctx, func() bool {
		failures, ready, undecided = nil, 0, 0
		for _, sl := range slots {
			if sl.asked {
				undecided++
			} else if err := sl.startError(); err != nil {
				failures = append(failures, err)
			} else {
				ready++
			}
		}
		return undecided == 0 || firstIsEnough && ready > 0
	})
	if err != nil || firstIsEnough && ready > 0 {
		return err
	}
	return errors.Join(failures...)
}

// startError is why a slot that was asked to start is not Ready; nil when it
// was, even if its instance has died since.
func (sl *slot[S]) startError() error {
	switch sl.state {
	case Failed:
		return sl.err
	case Draining, Shutdown:
		return errShuttingDown
	}
	return nil
}

// Release ends the slot of key in a PerKey group: calls in flight get
// DrainTimeout to end, waiting ones are refused. It does not wait. A later call
// with that key gets a new slot.
func (g *Group[S]) Release(key string) {
	if g.o.Mode != PerKey {
		return
	}
	g.update(nil, func() {
		if p := g.st.pools[key]; p != nil {
			g.dismiss(p, g.o.DrainTimeout)
		}
	})
}

// dismiss takes p out of the table and ends its slot.
func (g *Group[S]) dismiss(p *pool[S], drain time.Duration) {
	p.leaving = true
	delete(g.st.pools, p.key)
	for _, sl := range p.slots {
		g.stop(sl, drain, Shutdown)
	}
	g.settle(p)
}

// Stop ends the group for good: calls are refused from now on, those in flight
// get up to drain, then every instance's context ends. It waits until all have
// returned and the last event is delivered, and may be called again, with a
// shorter drain too. When ctx ends, all contexts end at once and the error names
// the slots that have not stopped, or says that OnEvent has not returned.
func (g *Group[S]) Stop(ctx context.Context, drain time.Duration) error {
	g.update(nil, func() {
		g.st.stopping = true
		for _, sl := range slices.Clone(g.st.slots) {
			g.stop(sl, drain, Shutdown)
			g.settle(sl.pool)
		}
	})
	err := g.wait(ctx, func() bool { return g.st.busy == 0 })
	if err == nil {
		return nil
	}
	var running []string
	g.update(nil, func() {
		for _, sl := range g.st.slots {
			if sl.inst != nil {
				sl.inst.cancel()
				running = append(running, strconv.Quote(sl.key))
			}
		}
	})
	if len(running) == 0 {
		return fmt.Errorf("OnEvent has not returned: %w", err)
	}
	return fmt.Errorf("slots not stopped: %s: %w", strings.Join(running, ", "), err)
}

// errShuttingDown refuses calls to what is being stopped.
var errShuttingDown = protocol.Errorf(protocol.ShuttingDown, "stopping")
