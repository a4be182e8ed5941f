package concurrent

import "sync"

// Gate counts work in flight, rejects new work once closed, and signals when the last work has ended. The zero value is
// open. Its methods are safe for concurrent use.
type Gate struct {
	mu     sync.Mutex
	inside int
	closed bool
	idle   chan struct{} // closed when the gate is closed and idle; nil before Close and Drain
}

// Enter admits one piece of work, whose end must call Leave. It returns false once the gate is closed.
func (g *Gate) Enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.inside++
	return true
}

// Leave ends one piece of work.
func (g *Gate) Leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	g.closeIfIdleLocked()
}

// Go runs f as work on a new goroutine. It returns false, and does not run f, once the gate is closed.
func (g *Gate) Go(f func()) bool {
	if !g.Enter() {
		return false
	}
	go func() {
		defer g.Leave()
		f()
	}()
	return true
}

// Close closes the gate and returns a channel that is closed once no work is in flight. It is idempotent.
func (g *Gate) Close() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	return g.drainLocked()
}

// Drain is like Close, but closes the gate only when no work is in flight: until then, work may need more work to end.
func (g *Gate) Drain() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.drainLocked()
}

func (g *Gate) drainLocked() <-chan struct{} {
	if g.idle == nil {
		g.idle = make(chan struct{})
		g.closeIfIdleLocked()
	}
	return g.idle
}

// closeIfIdleLocked closes idle, and the gate, if the last work has ended.
func (g *Gate) closeIfIdleLocked() {
	if g.inside == 0 && g.idle != nil {
		g.closed = true
		close(g.idle)
	}
}
