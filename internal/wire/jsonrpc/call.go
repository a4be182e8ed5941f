package jsonrpc

import (
	"context"
	"encoding/json"
	"strconv"
	"time"
)

// CallOptions configures one call.
type CallOptions struct {
	// Timeout bounds the silence of the peer. It starts when the frame is written and restarts with each message that
	// belongs to the call. It is suspended while OnMessage answers requests of the peer. 0: no limit.
	Timeout time.Duration
	// MaxTimeout bounds the whole call; 0 means Timeout. A limit that is noticed late is extended by CatchUp.
	MaxTimeout time.Duration
	// Token is the value of Options.Token for the messages that belong to this call. It must be unique among the
	// calls in flight. "": no message belongs to the call.
	Token string
	// Owner is the party that makes the call, a comparable value. Options.Loose ignores calls without an owner.
	Owner any
	// Standing marks a call that is not answered soon, such as a subscription. While it is in
	// flight, Serve can still lend reading to the caller of another one; see role.
	Standing bool
	// OnMessage handles the peer's notifications and requests that belong to this call.
	// Notifications run in the caller's goroutine, in order, before Call returns. Each request runs
	// in its own goroutine, so an open request delays no other message; it starts after the
	// notifications before the request are handled. ctx ends when the call fails. The ctx of a
	// request also ends when the peer cancels the request ([Options].Cancels) or answers the call.
	// At most 256 messages, about 16 MiB, are queued or in progress: further notifications are
	// dropped and counted, further requests refused. Nil drops all notifications and refuses all
	// requests.
	OnMessage func(ctx context.Context, m *Message) (json.RawMessage, error)
	// Convert makes the result that Call returns. own reports that it shares no memory with the peer's result, whose
	// frame may then be reused. Nil returns the peer's result.
	Convert func(result json.RawMessage) (converted json.RawMessage, own bool)
}

// Call sends a request and waits for the answer. It returns the result, raw or converted by Convert, or an error: the
// [*Error] of the peer, an [*InvalidResponse], [ErrTimeout], ctx's error, or one that wraps [ErrClosed]. [Written]
// reports whether the peer may have seen the request. With a nil o only ctx bounds the call.
//
// A call that ends by ctx or a timeout is abandoned: it is still in flight until the peer answers
// it, and the late answer is counted and dropped.
func (c *Conn) Call(ctx context.Context, method string, params json.RawMessage, o *CallOptions,
) (json.RawMessage, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	pc := c.newPendingCall(method, o)
	defer c.release(pc)
	if pc.o.OnMessage != nil {
		ctx, pc.cancel = context.WithCancelCause(ctx)
		defer pc.cancel(nil)
	}
	if err := c.send(ctx, pc, params); err != nil {
		return nil, err
	}
	c.wait(ctx, pc)
	if pc.inboxReady != nil {
		c.endQuestions(pc)
	}
	if pc.err != nil || pc.o.Convert == nil {
		return pc.result, pc.err
	}
	result, own := pc.o.Convert(pc.result)
	if own && pc.free != nil {
		pc.free()
	}
	return result, nil
}

// send registers the call and writes its frame. On error the call is no longer registered.
func (c *Conn) send(ctx context.Context, pc *pendingCall, params json.RawMessage) error {
	var err error
	c.update(func(s *state) { err = s.add(pc) })
	if err != nil {
		return err
	}
	id := strconv.AppendUint(pc.rawID[:0], pc.id, 10)
	err = c.write(ctx, Message{ID: id, Method: pc.method, Params: params})
	if err != nil {
		removed := false
		c.update(func(s *state) { removed = s.remove(pc) })
		if !removed { // another goroutine has set the outcome
			<-pc.done
		}
		return err
	}
	c.sent(pc)
	return nil
}

// sent starts the timeouts of a written call, and takes over reading if Serve has lent it.
func (c *Conn) sent(pc *pendingCall) {
	timed := pc.o.Timeout > 0 || pc.o.MaxTimeout > 0
	if !timed && !c.canLend {
		return
	}
	now := time.Now()
	reads := false
	c.update(func(s *state) {
		if timed {
			pc.start(now)
			c.setTimer(s, pc.deadline, now)
		}
		reads = c.borrow(s, pc)
	})
	if reads {
		c.readFor(pc)
	}
}

// wait returns once the call has an outcome and the preceding notifications are handled.
func (c *Conn) wait(ctx context.Context, pc *pendingCall) {
	if pc.inboxReady == nil && ctx.Done() == nil {
		<-pc.done
		return
	}
	for waiting := true; waiting; {
		select {
		case <-pc.done:
			waiting = false
		case <-pc.inboxReady:
			c.serveInbox(ctx, pc, false)
		case <-ctx.Done():
			if !pc.catchUp(ctx) && !c.abandon(pc, ctx.Err(), context.Cause(ctx)) {
				<-pc.done // the call already had an outcome
			}
			waiting = false
		}
	}
	if pc.inboxReady != nil {
		c.serveInbox(ctx, pc, true)
	}
}

// CatchUp is how long to wait for an answer after a limit that was noticed late. The process did not run when the
// limit passed, so the answer may already be in the pipe.
const CatchUp = 500 * time.Millisecond

// Late reports whether due, the time of a timer, is so long ago that the process cannot have run
// since then: it was stopped, or the machine is overloaded.
func Late(due time.Time) bool { return time.Since(due) > 20*time.Millisecond }

// catchUp waits for the outcome of a call whose deadline was noticed late, and reports whether it arrived.
func (pc *pendingCall) catchUp(ctx context.Context) bool {
	due, ok := ctx.Deadline()
	if !ok || ctx.Err() != context.DeadlineExceeded || !Late(due) {
		return false
	}
	select {
	case <-pc.done:
		return true
	case <-time.After(CatchUp):
		return false
	}
}

// abandon ends the call with cause, unless it already has an outcome. It reports whether it did. reason is what
// Options.Abandoned is told.
func (c *Conn) abandon(pc *pendingCall, cause, reason error) (won bool) {
	c.update(func(s *state) {
		if won = s.remove(pc); won {
			c.abandoned(s, pc, reason)
		}
	})
	if won {
		pc.err = writtenError{cause}
	}
	return won
}

// AbandonAll ends the calls in flight as the end of the connection does, and has Options.Abandoned tell the peer why.
func (c *Conn) AbandonAll(reason error) {
	var ended []*pendingCall
	c.update(func(s *state) {
		for _, pc := range s.calls {
			s.remove(pc)
			c.abandoned(s, pc, reason)
			ended = append(ended, pc)
		}
	})
	for _, pc := range ended {
		pc.finish(nil, writtenError{ErrClosed})
	}
}

// abandoned records, inside update, that the peer may still answer pc.
func (c *Conn) abandoned(s *state, pc *pendingCall, cause error) {
	if len(s.abandoned) >= maxAbandoned {
		for id := range s.abandoned { // an arbitrary one: its late answer then counts as a duplicate
			delete(s.abandoned, id)
			break
		}
	}
	s.abandoned[pc.id] = abandonedCall{pc.o.Owner, pc.o.Standing, pc.sent, time.Now()}
	if c.o.Abandoned != nil {
		id, method := pc.id, pc.method
		c.enqueue(s, &s.replies, 0, func(ctx context.Context) { c.o.Abandoned(ctx, id, method, cause) })
	}
}

// setTimer makes sure, inside update, that the connection's one timer fires by deadline. Calls usually share a
// timeout, so deadlines come in order and the timer rarely changes.
func (c *Conn) setTimer(s *state, deadline, now time.Time) {
	if s.closed || !s.timerAt.IsZero() && !deadline.Before(s.timerAt) {
		return
	}
	s.timerAt = deadline
	if s.timer == nil {
		s.timer = time.AfterFunc(deadline.Sub(now), c.expire)
	} else {
		s.timer.Reset(deadline.Sub(now))
	}
}

func (c *Conn) expire() {
	now := time.Now()
	var expired []*pendingCall
	c.update(func(s *state) {
		s.timerAt = time.Time{}
		var next time.Time
		for _, pc := range s.calls {
			switch at := pc.expiry(); {
			case at.IsZero():
			case !at.After(now) && pc.lastLook.IsZero() && Late(at):
				pc.lastLook = now.Add(CatchUp)
				next = earlier(next, pc.lastLook)
			case !at.After(now):
				s.remove(pc)
				c.abandoned(s, pc, ErrTimeout)
				expired = append(expired, pc)
			default:
				next = earlier(next, at)
			}
		}
		if !next.IsZero() {
			c.setTimer(s, next, now)
		}
	})
	for _, pc := range expired {
		pc.finish(nil, writtenError{ErrTimeout})
	}
}

// earlier returns the earlier of two times. A zero a counts as no time.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}
