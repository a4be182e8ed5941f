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
	noisy chan struct{} // holds a token when there was a line that is no frame

	mu      sync.Mutex
	over    bool        // no call begins any more
	spoiled chan string // of the call in flight: a line that was no frame; nil without one
}

func newSlot() *slot { return &slot{taken: make(chan struct{}, 1), noisy: make(chan struct{}, 1)} }

// spoil ends the call in flight because of a line that is no frame: to a child
// that answers one call at a time, whatever it prints is its answer.
func (s *slot) spoil(line []byte) {
	signal(s.noisy)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.spoiled != nil {
		s.spoiled <- cutLine(line)
		s.spoiled = nil
	}
}

// quiet is how long a child whose call was spoilt may still go on about it: the
// rest of a traceback must not be taken for the answer to the next call.
const quiet = 100 * time.Millisecond

// settle returns when no more lines come, or ctx ends with the answer.
func (s *slot) settle(ctx context.Context) {
	for {
		select {
		case <-s.noisy:
		case <-time.After(quiet):
			return
		case <-ctx.Done():
			return
		}
	}
}

// enter takes the slot and returns the channel that a spoilt call hears of.
func (s *slot) enter() chan string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spoiled = make(chan string, 1)
	return s.spoiled
}

// begin starts a task of the child, unless the end of those is being waited for.
func (s *slot) begin(tasks *sync.WaitGroup, task func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.over {
		tasks.Go(task)
	}
	return !s.over
}

// close makes begin refuse.
func (s *slot) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
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
		c.end(protocol.Errorf(protocol.Overloaded, "a call that timed out still held its only slot, and it was replaced"))
		return nil, protocol.Errorf(protocol.Overloaded, "it is still busy with a call that timed out, and is being replaced")
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
	if !c.slot.begin(&c.tasks, func() {
		defer cancel()
		raw, err := c.conn.Call(inner, method, params, nil)
		c.slot.leave()
		answered <- answer{raw, err}
	}) {
		cancel()
		c.slot.leave()
		return nil, jsonrpc.ErrClosed
	}
	clock, stop := clockOf(c.spec.Options.CallTimeout)
	defer stop()
	select {
	case a := <-answered:
		return a.raw, a.err
	case line := <-spoiled:
		if !c.slot.begin(&c.tasks, func() { c.slot.settle(inner); cancel() }) {
			cancel()
		}
		fault := protocol.Errorf(protocol.InvalidJSON, "it answered with a line that is no answer; anything else belongs on stderr")
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
