package supervisor

import (
	"slices"
	"time"

	"github.com/exthost/exthost/protocol"
)

// pool holds the slots for the calls of one key, and the queue of waiting calls.
type pool[S Service] struct {
	key        string
	slots      []*slot[S]
	nextSlot   int // where to start searching, so that equally busy slots take turns
	queue      []*waiter[S]
	readySince time.Time // since when at least one slot has been Ready
	released   bool      // the key was released; new calls are refused
}

// waiter is one call in a pool's queue.
type waiter[S Service] struct {
	since time.Time
	done  chan struct{} // closed when lease or err is set
	lease *lease[S]
	err   error
}

func (g *Group[S]) newPool(key string, slotKeys ...string) *pool[S] {
	p, now := &pool[S]{key: key}, time.Now()
	for _, k := range slotKeys {
		sl := &slot[S]{
			pool:     p,
			key:      k,
			state:    Idle,
			since:    now,
			lastUsed: now,
			policy:   policy{Restart: g.o.Restart, rand: g.o.Rand},
		}
		sl.breaker = newBreaker(g.o.Name, g.o.Breaker)
		p.slots = append(p.slots, sl)
	}
	g.st.slots = append(g.st.slots, p.slots...)
	g.st.pools[key] = p
	return p
}

func (p *pool[S]) has(states ...State) bool {
	return slices.ContainsFunc(p.slots, func(sl *slot[S]) bool { return slices.Contains(states, sl.state) })
}

// poolOf returns the pool of a key. In a full PerKey group it evicts an unused key for a new one. kept is Options.Keep
// of the key.
func (g *Group[S]) poolOf(key string, kept bool) (*pool[S], error) {
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
		return nil, protocol.Errorf(protocol.Overloaded,
			"all %d instances are in use; raise max_instances or end a session", g.o.MaxInstances)
	}
	p := g.newPool(key, key)
	p.slots[0].kept = kept
	return p, nil
}

// evict removes an unused key: preferably one without an instance, else the least recently used one that Options.Keep
// does not protect. It reports whether there was one.
func (g *Group[S]) evict() bool {
	var victim *slot[S]
	for _, sl := range g.st.slots {
		p := sl.pool
		if p.released || len(p.queue) > 0 || sl.state == Spawning ||
			sl.inst != nil && (sl.inst.inFlight > 0 || sl.kept) {
			continue
		}
		if victim == nil || sl.inst == nil && victim.inst != nil ||
			(sl.inst == nil) == (victim.inst == nil) && sl.lastUsed.Before(victim.lastUsed) {
			victim = sl
		}
	}
	if victim != nil {
		g.remove(victim.pool, 0)
	}
	return victim != nil
}

// serveQueue serves or refuses the queued calls of p in order, up to the first one that must still wait.
func (g *Group[S]) serveQueue(p *pool[S]) {
	for len(p.queue) > 0 {
		l, err := g.tryAcquire(p, len(p.queue))
		if l == nil && err == nil {
			return
		}
		p.resolve(p.queue[0], l, err)
	}
}

// refuse fails all queued calls of p.
func (g *Group[S]) refuse(p *pool[S], err error) {
	for len(p.queue) > 0 {
		p.resolve(p.queue[0], nil, err)
	}
}

func (p *pool[S]) resolve(w *waiter[S], l *lease[S], err error) {
	i := slices.Index(p.queue, w)
	p.queue = slices.Delete(p.queue, i, i+1)
	w.lease, w.err = l, err
	close(w.done)
}
