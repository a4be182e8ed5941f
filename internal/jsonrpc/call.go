package jsonrpc

import (
	"context"
	"encoding/json"
	"strconv"
	"time"
)

// CallOptions bound one call.
type CallOptions struct {
	// Timeout is how long the peer may stay silent about this call, counted from the
	// written frame and afresh from each message that belongs to the call; the clock
	// stands still while OnMessage answers a request of the peer. 0: no limit.
	Timeout time.Duration
	// MaxTimeout is how long the call may take in all. 0 means Timeout.
	MaxTimeout time.Duration
	// Token is what Options.Token returns for messages that belong to this call. It
	// must be unique among the calls in flight. "": none do.
	Token string
	// Owner is on whose behalf the call is made, a comparable value; see Options.Loose.
	// Nil: nobody's, and such a call is not counted there.
	Owner any
	// OnMessage takes the peer's notifications and answers its requests that belong
	// to this call. It runs in the caller's goroutine, in order, before Call returns
	// the answer. ctx ends when the call fails. At most 256 messages wait: beyond
	// that notifications are dropped and counted, requests refused. Nil: all are.
	OnMessage func(ctx context.Context, m *Message) (json.RawMessage, error)
}

// Call sends a request and waits for its answer: the result as it was sent, or an
// error: the peer's own [*Error], an [*InvalidResponse], [ErrTimeout], ctx's
// error, or one wrapping [ErrClosed]. [Written] tells whether the peer may have
// seen the request. A nil o leaves all bounds to ctx.
//
// A call that its caller gave up stays in flight, abandoned, until the peer
// answers; that answer is counted and dropped.
func (c *Conn) Call(ctx context.Context, method string, params json.RawMessage, o *CallOptions) (json.RawMessage, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	fl := c.newFlight(method, o)
	defer c.release(fl)
	if fl.o.OnMessage != nil {
		ctx, fl.cancel = context.WithCancel(ctx)
		defer fl.cancel()
	}
	if err := c.send(ctx, fl, params); err != nil {
		return nil, err
	}
	c.wait(ctx, fl)
	return fl.result, fl.err
}

// send registers the call and writes its frame. After an error nobody else knows
// the call any more.
func (c *Conn) send(ctx context.Context, fl *flight, params json.RawMessage) error {
	var err error
	c.update(func(s *state) { err = s.add(fl) })
	if err != nil {
		return err
	}
	id := strconv.AppendUint(fl.rawID[:0], fl.id, 10)
	err = c.write(ctx, Message{ID: id, Method: fl.method, Params: params})
	if err != nil {
		mine := false
		c.update(func(s *state) { mine = s.remove(fl) })
		if !mine {
			<-fl.done
		}
		return err
	}
	c.sent(fl)
	return nil
}

// sent starts the clocks of a call whose frame has been written, and reads for it
// where nobody else does.
func (c *Conn) sent(fl *flight) {
	timed := fl.o.Timeout > 0 || fl.o.MaxTimeout > 0
	if !timed && !c.lends {
		return
	}
	now := time.Now()
	reads := false
	c.update(func(s *state) {
		if timed {
			fl.start(now)
			c.setTimer(s, fl.deadline, now)
		}
		reads = c.borrow(s, fl)
	})
	if reads {
		c.readFor(fl)
	}
}

// wait returns when the call has its outcome and its messages are dealt with.
func (c *Conn) wait(ctx context.Context, fl *flight) {
	if fl.news == nil && ctx.Done() == nil {
		<-fl.done
		return
	}
	for waiting := true; waiting; {
		select {
		case <-fl.done:
			waiting = false
		case <-fl.news:
			c.serveInbox(ctx, fl)
		case <-ctx.Done():
			if !c.abandon(fl, ctx.Err()) {
				<-fl.done // the outcome was decided before, and it counts
			}
			waiting = false
		}
	}
	if fl.news != nil {
		c.serveInbox(ctx, fl)
	}
}

// abandon gives the call up unless its outcome is decided already.
func (c *Conn) abandon(fl *flight, cause error) (won bool) {
	c.update(func(s *state) {
		if won = s.remove(fl); won {
			c.abandoned(s, fl, cause)
		}
	})
	if won {
		fl.err = writtenError{cause}
	}
	return won
}

// abandoned remembers, inside update, that the peer still owes an answer.
func (c *Conn) abandoned(s *state, fl *flight, cause error) {
	if len(s.abandoned) >= maxAbandoned {
		for id := range s.abandoned { // any of them; its late answer will count as duplicate
			delete(s.abandoned, id)
			break
		}
	}
	s.abandoned[fl.id] = orphan{fl.o.Owner, time.Now()}
	if c.o.Abandoned != nil {
		id, method := fl.id, fl.method
		c.post(s, &s.errands, func(ctx context.Context) { c.o.Abandoned(ctx, id, method, cause) })
	}
}

// setTimer makes sure, inside update, that the one timer fires by deadline. Calls
// usually share one timeout, so their deadlines come in order and the timer is
// hardly ever touched.
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

// expire ends the calls whose time is up.
func (c *Conn) expire() {
	now := time.Now()
	var expired []*flight
	c.update(func(s *state) {
		s.timerAt = time.Time{}
		var next time.Time
		for _, fl := range s.flights {
			switch at := fl.expiry(); {
			case at.IsZero():
			case !at.After(now):
				s.remove(fl)
				c.abandoned(s, fl, ErrTimeout)
				expired = append(expired, fl)
			case next.IsZero() || at.Before(next):
				next = at
			}
		}
		if !next.IsZero() {
			c.setTimer(s, next, now)
		}
	})
	for _, fl := range expired {
		fl.finish(nil, writtenError{ErrTimeout})
	}
}
