package governance

import (
	"context"
	"sync"
)

// gate counts what is under way. Once it is closing, the last to leave shuts it.
type gate struct {
	mu      sync.Mutex
	inside  int
	closing bool
	shut    chan struct{} // made by the first close; closed with the last inside gone
}

// enter reports whether one more may begin; leave ends it. Until the gate is shut
// what is under way may begin more.
func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closing && g.inside == 0 {
		return false
	}
	g.inside++
	return true
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	if g.closing && g.inside == 0 {
		close(g.shut)
	}
}

// close waits until nothing is under way, or ctx ends.
func (g *gate) close(ctx context.Context) error {
	g.mu.Lock()
	if !g.closing {
		g.closing, g.shut = true, make(chan struct{})
		if g.inside == 0 {
			close(g.shut)
		}
	}
	shut := g.shut
	g.mu.Unlock()
	select {
	case <-shut:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
