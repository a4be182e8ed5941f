package supervisor

import (
	"slices"
	"time"

	"github.com/exthost/exthost/protocol"
)

// pool is the slots that calls with one key may use, and the calls that wait for them.
type pool[S Service] struct {
	key     string
	slots   []*slot[S]
	turn    int // where the search for a slot starts, for fairness among equals
	queue   []*waiter[S]
	served  time.Time // since when at least one slot is Ready
	leaving bool      // the key was released: no more calls
}

// waiter is one call in a pool's queue.
type waiter[S Service] struct {
	since   time.Time
	settled chan struct{} // closed when lease or err is set
	lease   *lease[S]
	err     error
}

func (g *Group[S]) newPool(key string, slotKeys ...string) *pool[S] {
	p, now := &pool[S]{key: key}, time.Now()
	for _, k := range slotKeys {
		sl := &slot[S]{pool: p, key: k, state: Idle, since: now, used: now,
			policy: policy{Restart: g.o.Restart, rand: g.o.Rand}}
		sl.breaker = newBreaker(g.o.Name, g.o.Breaker)
		p.slots = append(p.slots, sl)
	}
	g.st.slots = append(g.st.slots, p.slots...)
	g.st.pools[key] = p
	return p
}

// has reports whether one of p's slots is in one of the states.
func (p *pool[S]) has(states ...State) bool {
	return slices.ContainsFunc(p.slots, func(sl *slot[S]) bool { return slices.Contains(states, sl.state) })
}

// poolOf returns the slots for a key, in a PerKey group making room if need be.
func (g *Group[S]) poolOf(key string) (*pool[S], error) {
	if g.st.stopping {
		return nil, errShuttingDown
	}
	if g.o.Mode != PerKey {
		key = ""
	}
	if p := g.st.pools[key]; p != nil {
		return p, nil
	}
	if len(g.st.pools) >= g.o.MaxInstances && !g.evict() {
		return nil, protocol.Errorf(protocol.Overloaded, "all %d instances are in use; raise max_instances or end a session", g.o.MaxInstances)
	}
	return g.newPool(key, key), nil
}

// evict drops the key whose slot nobody uses: one without an instance if there
// is any, then the one unused for longest unless those are kept.
func (g *Group[S]) evict() bool {
	var victim *slot[S]
	for _, sl := range g.st.slots {
		p := sl.pool
		if p.leaving || len(p.queue) > 0 || sl.state == Spawning || sl.inst != nil && (sl.inst.inFlight > 0 || g.o.Keep(sl.key)) {
			continue
		}
		if victim == nil || sl.inst == nil && victim.inst != nil ||
			(sl.inst == nil) == (victim.inst == nil) && sl.used.Before(victim.used) {
			victim = sl
		}
	}
	if victim != nil {
		g.dismiss(victim.pool, 0)
	}
	return victim != nil
}

// settle serves or refuses the calls in p's queue, in order, until one has to wait on.
func (g *Group[S]) settle(p *pool[S]) {
	for len(p.queue) > 0 {
		l, err := g.offer(p, len(p.queue))
		if l == nil && err == nil {
			return
		}
		p.settleOne(p.queue[0], l, err)
	}
}

// refuse fails all calls in p's queue.
func (g *Group[S]) refuse(p *pool[S], err error) {
	for len(p.queue) > 0 {
		p.settleOne(p.queue[0], nil, err)
	}
}

func (p *pool[S]) settleOne(w *waiter[S], l *lease[S], err error) {
	i := slices.Index(p.queue, w)
	p.queue = slices.Delete(p.queue, i, i+1)
	w.lease, w.err = l, err
	close(w.settled)
}
