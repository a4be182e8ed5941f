package jsonrpc

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"time"
)

// ErrCallEnded is the cause that ends the ctx of [CallOptions].OnMessage for a request of the peer once its call has
// ended, by an answer or otherwise.
var ErrCallEnded = &Error{Code: CodeInvalidRequest, Message: "the call that this request belongs to has ended"}

// errWithdrawn is the cause that ends a handler's ctx when the peer has cancelled its request. Such a request gets no
// response.
var errWithdrawn = &Error{Code: CodeInvalidRequest, Message: "the request was cancelled"}

// questionsGrace is how long a call that has an outcome waits for the handlers of its questions
// after their ctx has ended. Call does not wait for handlers that take longer; the connection does.
const questionsGrace = 2 * time.Second

// questions are the peer's requests that belong to one call and are being answered.
type questions struct {
	ctx    context.Context // of the handlers
	cancel context.CancelCauseFunc

	// Guarded by Conn.mu.
	call  *pendingCall  // nil when the call has ended
	open  int           // running handlers
	bytes int           // of the requests being answered
	ended chan struct{} // closed when the last handler returns; nil while the call goes on
}

// serving is a request of the peer that is being answered.
type serving struct{ cancel context.CancelCauseFunc }

// served returns the ctx for the handler of a request, inside update. The ctx ends when the peer cancels the request.
// The handler's goroutine calls end, inside update.
func (c *Conn) served(ctx context.Context, id json.RawMessage) (_ context.Context, end func()) {
	if c.o.Cancels == nil {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	r, key := &serving{cancel}, string(id)
	c.state.serving[key] = r
	return ctx, func() {
		cancel(nil)
		if c.state.serving[key] == r { // a peer may use an id twice
			delete(c.state.serving, key)
		}
	}
}

// serveInbox handles the messages of a call in the caller's goroutine. Requests are refused if the call has ended.
func (c *Conn) serveInbox(ctx context.Context, pc *pendingCall, ended bool) {
	for {
		m := c.nextMessage(pc)
		switch {
		case m == nil:
			return
		case m.ID == nil && ctx.Err() == nil:
			_, _ = pc.o.OnMessage(ctx, m) // notifications have no answer
		case ended || ctx.Err() != nil:
			c.refuse(m.ID, ErrCallEnded)
		default:
			c.ask(ctx, pc, m)
			continue // still in progress until answered
		}
		c.letGo(m)
	}
}

func (c *Conn) nextMessage(pc *pendingCall) (m *Message) {
	c.update(func(*state) {
		if len(pc.inbox) == 0 {
			pc.inbox = nil
			return
		}
		m, pc.inbox[0] = new(pc.inbox[0]), Message{} // clear the slot, so that the slice does not keep the message
		pc.inbox = pc.inbox[1:]
		pc.waiting -= len(m.Raw)
	})
	return m
}

// ask runs OnMessage for a request of the peer, in its own goroutine.
func (c *Conn) ask(ctx context.Context, pc *pendingCall, m *Message) {
	handle := pc.o.OnMessage
	c.update(func(s *state) {
		if s.closed {
			c.drop(s, len(m.Raw))
			return
		}
		q := pc.questions
		if q == nil {
			q = &questions{call: pc}
			q.ctx, q.cancel = context.WithCancelCause(ctx)
			pc.questions = q
		}
		q.open++
		q.bytes += len(m.Raw)
		ctx, end := c.served(q.ctx, m.ID)
		c.wg.Go(func() {
			result, err := handle(ctx, m)
			cause := context.Cause(ctx)
			if err != nil && cause == ErrCallEnded {
				err = ErrCallEnded
			}
			c.respond(m, result, err, cause)
			c.update(func(s *state) { // not earlier: a peer that does not read could pile up responses
				end()
				c.asked(s, q, len(m.Raw))
			})
		})
	})
}

// asked records, inside update, that a question of that many bytes is answered. Until then the peer
// waited for this end, so the call's Timeout restarts now.
func (c *Conn) asked(s *state, q *questions, bytes int) {
	q.open--
	q.bytes -= bytes
	c.drop(s, bytes)
	switch {
	case q.call != nil:
		now := time.Now()
		q.call.extend(now)
		if !q.call.deadline.IsZero() {
			c.setTimer(s, q.call.deadline, now)
		}
	case q.open == 0 && q.ended != nil:
		close(q.ended)
	}
}

// respond answers a request whose handler has returned, unless the peer has cancelled it.
func (c *Conn) respond(req *Message, result json.RawMessage, err error, cause error) {
	if cause != errWithdrawn {
		c.reply(req, result, err, false)
	}
}

// endQuestions ends the ctx of the questions of a call that has an outcome, and waits for their
// handlers, so that what these send to the caller precedes the answer.
func (c *Conn) endQuestions(pc *pendingCall) {
	var q *questions
	c.update(func(*state) {
		if q = pc.questions; q == nil {
			return
		}
		q.call = nil
		q.ended = make(chan struct{})
		if q.open == 0 {
			close(q.ended)
		}
	})
	if q == nil {
		return
	}
	q.cancel(ErrCallEnded)
	select {
	case <-q.ended:
	case <-time.After(questionsGrace):
	}
}

// withdraw cancels the peer's request with this id, whether it is queued or being answered.
func (c *Conn) withdraw(id json.RawMessage) {
	c.update(func(s *state) {
		if r := s.serving[string(id)]; r != nil {
			r.cancel(errWithdrawn)
			return
		}
		for _, pc := range s.calls {
			pc.inbox = slices.DeleteFunc(pc.inbox, func(m Message) bool {
				withdrawn := m.ID != nil && bytes.Equal(m.ID, id)
				if withdrawn {
					pc.waiting -= len(m.Raw)
					c.drop(s, len(m.Raw))
				}
				return withdrawn
			})
		}
	})
}
