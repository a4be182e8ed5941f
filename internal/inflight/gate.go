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
	idle   chan struct{} // closed when the gate is closed and nothing is inside; nil before Close
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
	if g.inside--; g.inside == 0 && g.closed {
		close(g.idle)
	}
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
	if !g.closed {
		g.closed, g.idle = true, make(chan struct{})
		if g.inside == 0 {
			close(g.idle)
		}
	}
	return g.idle
}
