package runtime

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/exthost/exthost/internal/jsonrpc"
	"github.com/exthost/exthost/protocol"
)

// slot admits one call at a time to a child that reads one request at a time. A
// caller may leave, but the slot stays taken until the child has answered.
type slot struct {
	taken chan struct{} // holds a token while a call is in flight

	mu      sync.Mutex
	spoiled chan string // of the call in flight: a line that was no frame; nil without one
}

func newSlot() *slot { return &slot{taken: make(chan struct{}, 1)} }

// spoil ends the call in flight because of a line that is no frame: to a child
// that answers one call at a time, whatever it prints is its answer.
func (s *slot) spoil(line []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.spoiled != nil {
		s.spoiled <- cutLine(line)
		s.spoiled = nil
	}
}

// enter takes the slot and returns the channel that a spoilt call hears of.
func (s *slot) enter() chan string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spoiled = make(chan string, 1)
	return s.spoiled
}

func (s *slot) leave() {
	s.mu.Lock()
	s.spoiled = nil
	s.mu.Unlock()
	<-s.taken
}

// single is a call to a child that takes one at a time.
func (c *child) single(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	clock, stop := clockOf(c.spec.Options.CallTimeout)
	defer stop()
	select {
	case c.slot.taken <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-c.served:
		return nil, jsonrpc.ErrClosed
	case <-clock:
		c.end(protocol.Errorf(protocol.CallTimeout, "a call that timed out still holds its only slot; it was killed"))
		return nil, protocol.Errorf(protocol.Overloaded, "it is still busy with a call that timed out; it is killed now")
	}
	return c.turn(ctx, method, params)
}

// turn makes the call that the slot was taken for.
func (c *child) turn(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	type answer struct {
		raw json.RawMessage
		err error
	}
	answered := make(chan answer, 1)
	spoiled := c.slot.enter()
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c.tasks.Go(func() {
		defer cancel()
		raw, err := c.conn.Call(inner, method, params, nil)
		c.slot.leave()
		answered <- answer{raw, err}
	})
	clock, stop := clockOf(c.spec.Options.CallTimeout)
	defer stop()
	select {
	case a := <-answered:
		return a.raw, a.err
	case line := <-spoiled:
		cancel()
		fault := protocol.Errorf(protocol.InvalidJSON, "it answered with a line that is not JSON; anything but answers belongs on stderr")
		fault.Evidence = &protocol.Evidence{Line: line}
		return nil, unanswered{fault}
	case <-ctx.Done():
		return nil, unanswered{ctx.Err()}
	case <-clock:
		return nil, unanswered{jsonrpc.ErrTimeout}
	}
}

// unanswered marks the failure of a call that the child may have acted on.
type unanswered struct{ error }

func (u unanswered) Unwrap() error { return u.error }

// clockOf returns a channel that fires after d, never for 0.
func clockOf(d time.Duration) (<-chan time.Time, func() bool) {
	if d <= 0 {
		return nil, func() bool { return false }
	}
	t := time.NewTimer(d)
	return t.C, t.Stop
}
