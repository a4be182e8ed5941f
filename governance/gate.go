package governance

import (
	"context"
	"sync"
)

// gate counts operations in progress. After close, the last one to leave closes shut.
type gate struct {
	mu      sync.Mutex
	inside  int
	closing bool
	shut    chan struct{} // made by the first close; closed when nothing is inside
}

// enter reports whether an operation may begin; leave ends it. During close, operations in
// progress may start further ones.
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

// close waits until no operation is in progress, or ctx ends.
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
