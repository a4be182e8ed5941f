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

// slot admits one call at a time, for a child that takes one request at a time. After a canceled call, the slot stays
// taken until the child has answered.
type slot struct {
	token     chan struct{} // holds a token while a call is in flight
	noiseSeen chan struct{} // holds a token after a line that failed a call

	mu     sync.Mutex
	failed chan *protocol.Error // receives the failure of the call in flight; nil without a call
	since  time.Time            // when the call in flight was sent; zero without a call
}

// failCall fails the call in flight because of a line that is not its answer. A child that takes one call at a time
// prints such a line in place of the answer.
func (s *slot) failCall(fault *protocol.Error) {
	signal(s.noiseSeen)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed != nil {
		s.failed <- fault
		s.failed = nil
	}
}

// notAnswer is the error for a non-frame line.
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

// wrongID is the error for an answer with an unknown id.
func wrongID(m *jsonrpc.Message) *protocol.Error {
	fault := protocol.Errorf(protocol.InvalidResponse,
		"its answer has the id %s, which is not that of the request; an answer repeats the id of its request",
		cutLine(m.ID))
	fault.Evidence = &protocol.Evidence{Line: cutLine(m.Raw)}
	return fault
}

// quietTime is the silence required before the next call after a failure, so that the rest of a traceback does not fail
// that call.
const quietTime = 100 * time.Millisecond

// awaitQuiet waits until no line has come for quietTime, or until ctx ends.
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

// start marks a call as in flight and returns the channel for its failure.
func (s *slot) start() chan *protocol.Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed, s.since = make(chan *protocol.Error, 1), time.Now()
	return s.failed
}

func (s *slot) release() {
	s.mu.Lock()
	s.failed, s.since = nil, time.Time{} // before the token: the next call may start at once
	s.mu.Unlock()
	<-s.token
}

// patience returns how long a call may wait for the slot: limit, which is the CallTimeout, but only until the call in
// the slot is 2*limit old. So a hanging child is replaced even if each caller waits for less than limit.
func (s *slot) patience(limit time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if limit <= 0 || s.since.IsZero() {
		return limit
	}
	return max(1, min(limit, 2*limit-time.Since(s.since)))
}

// callOne sends a call to a child that takes one call at a time.
func (c *child) callOne(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	select { // do not involve the previous call if the slot is free
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

// callInSlot sends a call to the child and releases the slot once the child has answered. The caller must hold the
// slot.
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

// lastLook waits for a result up to [jsonrpc.CatchUp] longer, if it was noticed late that due has passed. ok reports
// whether the result came.
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

// deadlineOf returns the deadline of ctx if ctx ended because of it, else zero.
func deadlineOf(ctx context.Context) (due time.Time) {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		due, _ = ctx.Deadline()
	}
	return due
}

// maybeExecuted marks the failure of a call that the child may have acted on.
type maybeExecuted struct{ error }

func (u maybeExecuted) Unwrap() error { return u.error }

// timerFor returns a channel that fires after d, and never if d is 0.
func timerFor(d time.Duration) (<-chan time.Time, func() bool) {
	if d <= 0 {
		return nil, func() bool { return false }
	}
	t := time.NewTimer(d)
	return t.C, t.Stop
}
