package jsonrpc

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// pendingCall is one call in flight. The goroutine that removes the call from the state sets its
// outcome. It then sends once on done, unless it is the caller's own goroutine.
type pendingCall struct {
	id          uint64
	rawID       [20]byte
	method      string
	o           CallOptions
	done        chan struct{}
	inboxReady  chan struct{}           // signals messages in inbox; nil without OnMessage
	readySignal chan struct{}           // inboxReady's channel, kept for reuse
	cancel      context.CancelCauseFunc // ends the ctx of OnMessage

	// The outcome, set before the send on done.
	result json.RawMessage
	free   func() // Message.Free of the answer
	err    error

	// Guarded by Conn.mu.
	inbox     []Message
	waiting   int        // bytes in inbox
	questions *questions // nil until the first request of the peer for this call
	sent      time.Time  // zero without a timeout
	deadline  time.Time  // zero: none
	limit     time.Time  // latest value of deadline
	lastLook  time.Time  // replaces a deadline that was noticed late; see CatchUp
}

// abandonedCall is a call that ended without an answer; the peer may still answer it.
type abandonedCall struct {
	owner    any
	standing bool
	sent     time.Time
	since    time.Time
}

// abandonedGrace is how long an abandoned call counts as running. A peer need not answer a
// cancelled request, so it may have ended without an answer.
const abandonedGrace = time.Minute

// newPendingCall reuses the channels of a finished call. They are empty: the one send was received, or never happens.
// (Each connection has its own pool, because channels made under testing/synctest must not leave their bubble.)
func (c *Conn) newPendingCall(method string, o *CallOptions) *pendingCall {
	pc, ok := c.pool.Get().(*pendingCall)
	if !ok {
		pc = &pendingCall{done: make(chan struct{}, 1)}
	}
	pc.method = method
	if o != nil {
		pc.o = *o
		if o.OnMessage != nil {
			if pc.readySignal == nil {
				pc.readySignal = make(chan struct{}, 1)
			}
			pc.inboxReady = pc.readySignal
		}
	}
	return pc
}

func (c *Conn) release(pc *pendingCall) {
	if pc.waiting > 0 { // a peer guessed the token of a call that was never written
		c.update(func(s *state) { c.drop(s, pc.waiting) })
	}
	if pc.inboxReady != nil {
		select {
		case <-pc.inboxReady: // a signal for messages already handled
		default:
		}
	}
	*pc = pendingCall{done: pc.done, readySignal: pc.readySignal}
	c.pool.Put(pc)
}

func (pc *pendingCall) finish(result json.RawMessage, err error) {
	pc.result, pc.err = result, err
	if err != nil && pc.cancel != nil {
		pc.cancel(ErrCallEnded)
	}
	pc.done <- struct{}{}
}

func (pc *pendingCall) start(now time.Time) {
	limit := pc.o.MaxTimeout
	if limit <= 0 {
		limit = pc.o.Timeout
	}
	pc.sent = now
	pc.limit = now.Add(limit)
	pc.deadline = pc.limit
	pc.extend(now)
}

// extend restarts Timeout, within MaxTimeout.
func (pc *pendingCall) extend(now time.Time) {
	if pc.limit.IsZero() || pc.o.Timeout <= 0 {
		return
	}
	pc.deadline = now.Add(pc.o.Timeout)
	if pc.deadline.After(pc.limit) {
		pc.deadline = pc.limit
	}
	if pc.deadline.After(pc.lastLook) {
		pc.lastLook = time.Time{}
	}
}

// expiry returns the call's current deadline, or zero.
func (pc *pendingCall) expiry() time.Time {
	at := pc.deadline
	if pc.questions != nil && pc.questions.open > 0 {
		at = pc.limit
	}
	if at.Before(pc.lastLook) {
		at = pc.lastLook
	}
	return at
}

// hasRoom reports whether another message may be queued for the call.
func (pc *pendingCall) hasRoom() bool {
	messages, bytes := len(pc.inbox), pc.waiting
	if q := pc.questions; q != nil {
		messages, bytes = messages+q.open, bytes+q.bytes
	}
	return pc.inboxReady != nil && messages < maxInbox && bytes < maxWaiting
}

func (s *state) add(pc *pendingCall) error {
	if s.endErr != nil {
		return closed(s.endErr)
	}
	if token := pc.o.Token; token != "" {
		if s.tokens[token] != nil {
			return fmt.Errorf("jsonrpc: token %q belongs to another call in flight", token)
		}
		s.tokens[token] = pc
	}
	pc.id = s.nextID
	s.nextID++
	s.calls[pc.id] = pc
	if pc.o.Standing {
		s.standing++
	}
	s.reading.concurrent = s.reading.concurrent || s.awaited() > 1
	return nil
}

// awaited returns the number of calls in flight that are not standing.
func (s *state) awaited() int { return len(s.calls) - s.standing }

// remove removes a call and reports whether it was registered.
func (s *state) remove(pc *pendingCall) bool {
	if s.calls[pc.id] != pc {
		return false
	}
	delete(s.calls, pc.id)
	if pc.o.Standing {
		s.standing--
	}
	if pc.o.Token != "" {
		delete(s.tokens, pc.o.Token)
	}
	return true
}

// Quiet returns for how long the peer has answered nothing although a call waited. It is the age of
// the oldest call with a timeout that was sent after the latest answer; 0 if there is none.
func (c *Conn) Quiet() (d time.Duration) {
	var oldest time.Time
	c.update(func(s *state) {
		note := func(id uint64, sent time.Time) {
			if id >= s.answeredAt && !sent.IsZero() && (oldest.IsZero() || sent.Before(oldest)) {
				oldest = sent
			}
		}
		for id, pc := range s.calls {
			note(id, pc.sent)
		}
		for id, a := range s.abandoned {
			note(id, a.sent)
		}
	})
	if oldest.IsZero() {
		return 0
	}
	return time.Since(oldest)
}
