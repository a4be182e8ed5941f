package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/protocol"
)

// slot admits one call at a time, for a child that reads one request at a time. After a
// canceled call the slot stays taken until the child has answered.
type slot struct {
	token     chan struct{} // holds a token while a call is in flight
	noiseSeen chan struct{} // holds a token after a line that fails a call

	mu     sync.Mutex
	failed chan *protocol.Error // for the call in flight: takes why it fails; nil without a call
	since  time.Time            // when that call was sent; zero without a call
}

// failCall fails the call in flight because of a line that is not its answer. A child that
// takes one call at a time prints the line in place of the answer.
func (s *slot) failCall(fault *protocol.Error) {
	signal(s.noiseSeen)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed != nil {
		s.failed <- fault
		s.failed = nil
	}
}

// notAnswer is the fault of a line that is not a frame.
func notAnswer(line []byte) *protocol.Error {
	fault := protocol.Errorf(protocol.InvalidResponse,
		`it answered with JSON that is no answer; an answer is {"id", "result"} or {"id", "error"}`)
	if notJSON(rawjson.Check(line)) {
		fault = protocol.Errorf(protocol.InvalidJSON,
			"it answered with a line that is not JSON; anything but answers belongs on stderr")
	}
	fault.Evidence = &protocol.Evidence{Line: cutLine(line)}
	return fault
}

// wrongID is the fault of an answer to a request that does not wait for one.
func wrongID(m *jsonrpc.Message) *protocol.Error {
	fault := protocol.Errorf(protocol.InvalidResponse,
		"its answer has the id %s, which is not that of the request; an answer repeats the id of its request",
		cutLine(m.ID))
	fault.Evidence = &protocol.Evidence{Line: cutLine(m.Raw)}
	return fault
}

// quietTime is the time without output after which the next call may start. The rest of a
// traceback must not fail the next call.
const quietTime = 100 * time.Millisecond

// awaitQuiet returns when no line has come for quietTime, or when ctx ends.
func (s *slot) awaitQuiet(ctx context.Context) {
	for {
		select {
		case <-s.noiseSeen:
		case <-time.After(quietTime):
			return
		case <-ctx.Done():
			return
		}
	}
}

// start marks a call as in flight and returns the channel for the reason that it fails.
func (s *slot) start() chan *protocol.Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed, s.since = make(chan *protocol.Error, 1), time.Now()
	return s.failed
}

func (s *slot) release() {
	s.mu.Lock()
	s.failed, s.since = nil, time.Time{} // the next call has the token a moment before it starts
	s.mu.Unlock()
	<-s.token
}

// patience returns how long a call may wait for the slot: limit, the call_timeout, but not
// when the call in the slot was sent more than twice as long ago. So a child that hangs is
// replaced although each of its callers waits for less than limit.
func (s *slot) patience(limit time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if limit <= 0 || s.since.IsZero() {
		return limit
	}
	return max(1, min(limit, 2*limit-time.Since(s.since)))
}

// callOne calls a child that takes one call at a time.
func (c *child) callOne(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	select { // a free slot says nothing about the call before
	case c.slot.token <- struct{}{}:
		return c.callInSlot(ctx, method, params)
	default:
	}
	clock, stop := timerFor(c.slot.patience(c.spec.Options.CallTimeout))
	defer stop()
	select {
	case c.slot.token <- struct{}{}:
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return nil, protocol.Errorf(protocol.CallTimeout,
				"it was still busy with an earlier call when the caller's deadline passed, and did not get this "+
					"one: %w", ctx.Err())
		}
		return nil, ctx.Err()
	case <-c.connDone:
		return nil, jsonrpc.ErrClosed
	case <-clock:
		c.end(protocol.Errorf(protocol.Overloaded,
			"a call that timed out still held its only slot, and it was replaced"))
		return nil, protocol.Errorf(protocol.Overloaded,
			"it is still busy with a call that timed out, and is being replaced")
	}
	return c.callInSlot(ctx, method, params)
}

// callInSlot makes a call; the caller has taken the slot.
func (c *child) callInSlot(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	type answer struct {
		raw json.RawMessage
		err error
	}
	answered := make(chan answer, 1)
	spoiled := c.slot.start()
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	if !c.tasks.Go(func() {
		defer cancel()
		raw, err := c.conn.Call(inner, method, params, nil)
		c.slot.release()
		answered <- answer{raw, err}
	}) {
		cancel()
		c.slot.release()
		return nil, jsonrpc.ErrClosed
	}
	due := time.Now().Add(c.spec.Options.CallTimeout)
	clock, stop := timerFor(c.spec.Options.CallTimeout)
	defer stop()
	select {
	case a := <-answered:
		return a.raw, a.err
	case fault := <-spoiled:
		if !c.tasks.Go(func() { c.slot.awaitQuiet(inner); cancel() }) {
			cancel()
		}
		return nil, maybeExecuted{fault}
	case <-ctx.Done():
		if a, ok := lastLook(deadlineOf(ctx), answered); ok {
			return a.raw, a.err
		}
		return nil, maybeExecuted{ctx.Err()}
	case <-clock:
		if a, ok := lastLook(due, answered); ok {
			return a.raw, a.err
		}
		return nil, maybeExecuted{jsonrpc.ErrTimeout}
	}
}

// lastLook waits for an outcome after a limit that was noticed late, see [jsonrpc.CatchUp]. It
// reports whether the outcome came.
func lastLook[T any](due time.Time, outcome <-chan T) (v T, ok bool) {
	if due.IsZero() || !jsonrpc.Late(due) {
		return v, false
	}
	select {
	case v = <-outcome:
		return v, true
	case <-time.After(jsonrpc.CatchUp):
		return v, false
	}
}

// deadlineOf returns the deadline of a ctx that ended by it, else zero.
func deadlineOf(ctx context.Context) (due time.Time) {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		due, _ = ctx.Deadline()
	}
	return due
}

// maybeExecuted marks the failure of a call that the child may have acted on.
type maybeExecuted struct{ error }

func (u maybeExecuted) Unwrap() error { return u.error }

// timerFor returns a channel that fires after d; never if d is 0.
func timerFor(d time.Duration) (<-chan time.Time, func() bool) {
	if d <= 0 {
		return nil, func() bool { return false }
	}
	t := time.NewTimer(d)
	return t.C, t.Stop
}
