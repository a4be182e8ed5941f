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

// Group runs the instances of one thing. Its methods are safe for concurrent use and do not block unless stated.
type Group[S Service] struct {
	start func(key string) (S, error)
	o     Options

	mu sync.Mutex // guards st; never held while foreign code runs
	st groupState[S]
}

// groupState is the mutable state of a group. Only update changes it.
type groupState[S Service] struct {
	now   time.Time           // of the current update; see Group.now
	pools map[string]*pool[S] // by key; Shared and Fixed groups have one pool, with key ""
	// of all pools, in order of creation, including slots of released keys that have not stopped yet
	slots    []*slot[S]
	starts   policy // failed starts of all keys, in a PerKey group with a Cooldown
	startErr error  // of the latest failed start
	stopping bool
	busy     int           // running goroutines of the group
	changed  chan struct{} // closed by the next change; nil if nobody waits

	pendingEvents []Event
	delivering    bool
	lostEvents    int
}

// NewGroup returns a group that gets its instances from start. start runs on a goroutine of the slot with the slot's
// key: "" if Shared, "0", "1"… if Fixed, the call's key if PerKey. It should be quick and leave slow work to Serve. Its
// error counts as a failed start. No instance runs before Start or the first Acquire.
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

// update applies a change to the state. Then it serves or refuses the calls queued on p, which may be nil, and starts
// the delivery of events.
func (g *Group[S]) update(p *pool[S], change func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.st.now = time.Time{}
	change()
	if p != nil && len(p.queue) > 0 {
		g.serveQueue(p)
	}
	if len(g.st.pendingEvents) > 0 && !g.st.delivering {
		g.st.delivering = true
		g.st.busy++
		go g.deliver()
	}
	if g.st.busy == 0 && g.st.stopping {
		g.broadcast()
	}
}

// now returns the time of the current update, which stays the same throughout. The clock is read on first use, because
// a call to a healthy instance does not need it.
func (g *Group[S]) now() time.Time {
	if g.st.now.IsZero() {
		g.st.now = time.Now()
	}
	return g.st.now
}

func (g *Group[S]) broadcast() {
	if g.st.changed != nil {
		close(g.st.changed)
		g.st.changed = nil
	}
}

// wait blocks until done returns true or ctx ends. It calls done under the lock, and again after every state change of
// a slot.
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

// Start starts the slots of an eager group and waits until one is Ready, or until the first starts of all have failed;
// then the error joins those of all slots. A slot whose first start fails becomes Failed at once, or Restarting if
// restarts are unlimited. After the first slot is Ready, the others go on starting. If ctx ends first, Start returns
// ctx.Err() and the starts go on. If a call has already started a slot, that start counts as the first. Start does
// nothing in a group that starts on demand.
func (g *Group[S]) Start(ctx context.Context) error {
	if g.o.onDemand() {
		return nil
	}
	p := g.st.pools[""] // fixed since NewGroup
	g.update(p, func() {
		for _, sl := range p.slots {
			switch sl.state {
			case Idle:
				g.spawn(sl, true)
			case Spawning:
				sl.asked = true
			}
		}
	})
	return g.outcome(ctx, p.slots, true)
}

// Restart replaces the instances of the slots with the given keys, or of all slots if there are none, and clears their
// failures. Calls in flight get DrainTimeout to end; new calls wait. Restart waits until each new instance is Ready or
// its first start has failed, and joins the errors. If ctx ends first, it returns ctx.Err() and the restart goes on.
// Idle slots stay idle; unknown keys are ignored.
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

// outcome waits until all slots with a requested start are Ready or Failed, and joins the errors. If firstIsEnough is
// set, it returns nil as soon as one slot is Ready.
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

// startError returns the error of a requested start; nil if the slot became Ready, even if the instance has ended
// since.
func (sl *slot[S]) startError() error {
	switch {
	case sl.state == Failed:
		return sl.err
	case sl.startErr != nil:
		return sl.startErr
	case sl.state == Draining, sl.state == Shutdown, sl.pool.released:
		return errShuttingDown
	}
	return nil
}

// Release removes the slot of key from a PerKey group: calls in flight have DrainTimeout to finish, waiting calls are
// refused. One running start in the group may finish first, because it may be an installation that every later start
// would repeat. Release does not wait. A later call with that key gets a new slot. Release does nothing in other
// groups.
func (g *Group[S]) Release(key string) {
	if g.o.Mode != PerKey {
		return
	}
	g.update(nil, func() {
		if p := g.st.pools[key]; p != nil {
			g.remove(p, g.o.DrainTimeout)
		}
	})
}

// remove removes p and stops its slot.
func (g *Group[S]) remove(p *pool[S], drain time.Duration) {
	mayLinger := !slices.ContainsFunc(g.st.slots, (*slot[S]).lingers)
	p.released = true
	delete(g.st.pools, p.key)
	for _, sl := range p.slots {
		if !mayLinger || !sl.lingers() {
			g.stop(sl, drain, Shutdown)
		}
	}
	g.serveQueue(p)
}

// lingers reports whether sl finishes its start although its key was released.
func (sl *slot[S]) lingers() bool { return sl.pool.released && sl.state == Spawning }

// Stop ends the group for good: new calls are refused, calls in flight may finish within the time drain, then the
// context of every instance ends. Stop waits until all instances have returned and the last event is delivered. A
// second Stop may shorten drain. If ctx ends first, Stop ends all contexts at once, and the error names the slots that
// have not stopped, or tells that OnEvent has not returned.
func (g *Group[S]) Stop(ctx context.Context, drain time.Duration) error {
	g.update(nil, func() {
		g.st.stopping = true
		for _, sl := range slices.Clone(g.st.slots) {
			g.stop(sl, drain, Shutdown)
			g.serveQueue(sl.pool)
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
				sl.cancel()
				running = append(running, strconv.Quote(sl.key))
			}
		}
	})
	if len(running) == 0 {
		return fmt.Errorf("OnEvent has not returned: %w", err)
	}
	return fmt.Errorf("slots not stopped: %s: %w", strings.Join(running, ", "), err)
}

// errShuttingDown refuses calls to a group or slot that is being stopped.
var errShuttingDown = protocol.Errorf(protocol.ShuttingDown, "stopping")
