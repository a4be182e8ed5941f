// Package inflight counts work that is under way, admits no more once it is closed, and
// tells when the last of it has ended.
package inflight

import "sync"

// Gate counts the work inside. Its zero value is open. Its methods may be called by many
// goroutines at once.
type Gate struct {
	mu     sync.Mutex
	inside int
	closed bool
	idle   chan struct{} // closed when the gate is closed and nothing is inside; nil before Close and Drain
}

// Enter admits one piece of work, whose end is a call of Leave. It reports false, and
// admits nothing, once the gate is closed.
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

// Go runs f inside, on a goroutine of its own. It reports false, and does not run f, once
// the gate is closed.
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

// Close closes the gate and returns a channel that is closed once nothing is inside. It is
// idempotent.
func (g *Gate) Close() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	return g.drainLocked()
}

// Drain closes the gate as soon as nothing is inside, and returns the channel of Close.
// Until then the gate admits work, because the work inside may need more of it to end.
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

// closeIfIdleLocked closes idle, and the gate, when the last work has ended.
func (g *Gate) closeIfIdleLocked() {
	if g.inside == 0 && g.idle != nil {
		g.closed = true
		close(g.idle)
	}
}
