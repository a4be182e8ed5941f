package jsonrpc

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

var (
	errNoHandler  = &Error{Code: CodeMethodNotFound, Message: "method not found"}
	errOverloaded = &Error{Code: CodeOverloaded, Message: "too many requests at once"}
	errNotBare    = &Error{Code: CodeInvalidRequest, Message: errVersion.Error()}
	errCallEnded  = &Error{Code: CodeInvalidRequest, Message: "the call that this request belongs to has ended"}
)

// dispatch brings an incoming message where it belongs. It runs on the reader and
// reports whether its goroutine still is the reader.
func (c *Conn) dispatch(m Message) (reading bool) {
	if m.Method == "" {
		c.answer(&m)
		return true
	}
	kept, ok := c.messages.Get().(*Message)
	if !ok {
		kept = new(Message) // whoever deals with it keeps it; an answer costs no allocation
	}
	*kept = m
	return c.incoming(kept)
}

// incoming deals with a request or a notification, as dispatch.
func (c *Conn) incoming(m *Message) (reading bool) {
	switch {
	case m.Bare && !c.o.Bare:
		c.turnDown(m, errNotBare)
	case c.toCall(m):
	case m.ID == nil:
		c.notify(m)
	default:
		return c.request(m)
	}
	return true
}

// answer ends the call that m answers.
func (c *Conn) answer(m *Message) {
	result, err := c.outcome(m)
	id, ours := parseID(m.ID)
	var fl *flight
	stray := false
	c.update(func(s *state) {
		if fl = s.flights[id]; fl != nil && ours {
			s.remove(fl)
		} else {
			fl = nil
			stray = s.countStray(id, ours)
		}
		if m.Invalid != nil {
			s.stats.Invalid++
		}
	})
	switch {
	case fl != nil:
		fl.finish(result, err)
	case stray:
		c.aside(m)
	}
}

// countStray counts an answer that no call waits for, and reports whether none is
// owed either.
func (s *state) countStray(id uint64, ours bool) (stray bool) {
	_, late := s.abandoned[id]
	switch {
	case !ours || id >= s.nextID:
		s.stats.Unknown++
	case late:
		delete(s.abandoned, id)
		s.stats.Late++
		return false
	default:
		s.stats.Duplicate++
	}
	return true
}

// outcome reads an answer.
func (c *Conn) outcome(m *Message) (json.RawMessage, error) {
	if m.Invalid == nil && m.Bare && !c.o.Bare {
		m.Invalid = errVersion
	}
	if m.Invalid == nil && m.Error != nil {
		e := new(Error)
		if m.Invalid = json.Unmarshal(m.Error, e); m.Invalid == nil {
			return nil, e
		}
	}
	if m.Invalid != nil {
		return nil, invalidResponse(m, m.Invalid)
	}
	return m.Result, nil
}

// parseID reads an id as this package writes them: decimal digits, nothing else.
func parseID(raw []byte) (id uint64, ok bool) {
	if len(raw) == 0 || len(raw) > 19 || raw[0] == '0' && len(raw) > 1 {
		return 0, false
	}
	for _, c := range raw {
		if c -= '0'; c > 9 {
			return 0, false
		}
		id = id*10 + uint64(c)
	}
	return id, true
}

// belongs returns the call that m is about, inside update: the one it names, the one
// whose stream it came on, or the newest of the only owner there is.
func (s *state) belongs(m *Message, token string, loose bool) *flight {
	if fl := s.tokens[token]; fl != nil || !loose {
		return fl
	}
	if m.Of != nil {
		id, _ := parseID(m.Of)
		return s.flights[id]
	}
	var newest *flight
	for _, fl := range s.flights {
		switch {
		case fl.o.Owner == nil:
		case newest == nil || newest.o.Owner == fl.o.Owner && newest.id < fl.id:
			newest = fl
		case newest.o.Owner != fl.o.Owner:
			return nil
		}
	}
	for _, o := range s.abandoned {
		if newest != nil && o.owner != nil && o.owner != newest.o.Owner && time.Since(o.since) < lingering {
			return nil
		}
	}
	return newest
}

// toCall hands m to the call it belongs to, and reports whether there is one.
func (c *Conn) toCall(m *Message) (found bool) {
	token := ""
	if c.o.Token != nil {
		token = c.o.Token(m)
	}
	loose := c.o.Loose != nil && c.o.Loose(m)
	if token == "" && !loose {
		return false
	}
	var refusal *Error
	c.update(func(s *state) {
		fl := s.belongs(m, token, loose)
		if found = fl != nil; !found {
			return
		}
		fl.extend(time.Now())
		switch {
		case fl.news != nil && len(fl.inbox) < maxInbox:
			fl.inbox = append(fl.inbox, *m)
			select {
			case fl.news <- struct{}{}:
			default: // the caller knows
			}
		case m.ID == nil:
			s.stats.Dropped++
		case fl.news == nil:
			refusal = errNoHandler
		default:
			refusal = errOverloaded
		}
	})
	switch {
	case refusal != nil:
		c.turnDown(m, refusal)
	case found && m.ID == nil:
		c.aside(m)
	}
	return found
}

// serveInbox deals, in the caller's goroutine, with the messages that belong to
// its call. Once ctx has ended it only refuses.
func (c *Conn) serveInbox(ctx context.Context, fl *flight) {
	for {
		var inbox []Message
		c.update(func(*state) { inbox, fl.inbox = fl.inbox, nil })
		if len(inbox) == 0 {
			return
		}
		for i := range inbox {
			m := &inbox[i]
			switch {
			case ctx.Err() != nil:
				c.refuse(m.ID, errCallEnded)
			case m.ID == nil:
				_, _ = fl.o.OnMessage(ctx, m) // a notification has no answer
			default:
				c.serveRequest(ctx, fl, m)
			}
		}
	}
}

// serveRequest answers a request that belongs to a call; the peer waits for us
// meanwhile, so its silence does not count.
func (c *Conn) serveRequest(ctx context.Context, fl *flight, m *Message) {
	c.update(func(*state) { fl.serving = true })
	result, err := fl.o.OnMessage(ctx, m)
	c.update(func(s *state) {
		now := time.Now()
		fl.serving = false
		fl.extend(now)
		if !fl.deadline.IsZero() {
			c.setTimer(s, fl.deadline, now)
		}
	})
	c.reply(m.ID, result, err, false)
}

// notify passes on a notification that belongs to no call.
func (c *Conn) notify(m *Message) {
	c.aside(m)
	if c.o.Notified == nil {
		return
	}
	c.update(func(s *state) {
		c.post(s, &s.notified, func(ctx context.Context) { c.o.Notified(ctx, m) })
	})
}

// request has a request handled that belongs to no call.
func (c *Conn) request(m *Message) (reading bool) {
	if c.o.Handle == nil {
		c.turnDown(m, errNoHandler)
		return true
	}
	full := false
	c.update(func(s *state) {
		full = s.handlers >= c.o.MaxHandlers
		if full || c.o.Inline || s.closed {
			return
		}
		s.handlers++
		c.wg.Go(func() { c.handle(m) })
	})
	switch {
	case full:
		c.turnDown(m, errOverloaded)
	case c.o.Inline:
		return c.handleInline(m)
	default:
		c.aside(m)
	}
	return true
}

// handle runs one handler in its own goroutine.
func (c *Conn) handle(m *Message) {
	result, err := c.o.Handle(c.ctx, m)
	c.reply(m.ID, result, err, false)
	c.update(func(s *state) { s.handlers-- })
}

// reply sends an answer; later lets it wait for others until the reader runs dry.
// After the end of the conversation nothing is sent, not even by a handler that
// ends because of it.
func (c *Conn) reply(id, result json.RawMessage, err error, later bool) {
	if c.ctx.Err() != nil {
		return
	}
	m := Message{ID: id, Result: result, Bare: c.o.Bare}
	if err != nil {
		m.Result, m.Error = nil, rawError(err)
	}
	if t, ok := c.t.(batcher); ok && later {
		err = t.WriteLater(c.ctx, m)
	} else {
		err = c.t.Write(c.ctx, m)
	}
	if err != nil && c.ctx.Err() == nil && !Written(err) && !errors.Is(err, ErrClosed) {
		c.refuse(id, &Error{Code: CodeInternal, Message: err.Error()}) // the result was not JSON
	}
}

// turnDown is refuse for the reader.
func (c *Conn) turnDown(m *Message, reason *Error) {
	c.aside(m)
	c.refuse(m.ID, reason)
}

// refuse answers a request without holding the reader up. Without an id there is
// nobody to answer, and the message counts as dropped.
func (c *Conn) refuse(id json.RawMessage, reason *Error) {
	c.update(func(s *state) {
		if id == nil {
			s.stats.Dropped++
			return
		}
		c.post(s, &s.errands, func(ctx context.Context) {
			_ = c.t.Write(ctx, Message{ID: id, Error: rawError(reason), Bare: c.o.Bare}) // as in reply
		})
	})
}

// lane is a bounded queue of jobs done in order by one goroutine that exists only
// while there are any.
type lane struct {
	jobs    []func(context.Context)
	running bool
}

// post adds a job to a lane, inside update, and reports whether there was room.
func (c *Conn) post(s *state, l *lane, job func(context.Context)) bool {
	if s.over != nil || len(l.jobs) >= maxLane {
		s.stats.Dropped++
		return false
	}
	l.jobs = append(l.jobs, job)
	if !l.running {
		l.running = true
		c.wg.Go(func() { c.work(l) })
	}
	return true
}

// Settle waits until Options.Abandoned has returned for the calls given up so far
// and requests refused so far are answered, the conversation is over, or ctx ends.
func (c *Conn) Settle(ctx context.Context) {
	done := make(chan struct{})
	c.update(func(s *state) {
		if !s.errands.running || !c.post(s, &s.errands, func(context.Context) { close(done) }) {
			close(done)
		}
	})
	select {
	case <-done:
	case <-c.ctx.Done():
	case <-ctx.Done():
	}
}

func (c *Conn) work(l *lane) {
	for {
		var jobs []func(context.Context)
		c.update(func(*state) {
			jobs, l.jobs = l.jobs, nil
			l.running = len(jobs) > 0
		})
		if len(jobs) == 0 {
			return
		}
		for _, job := range jobs {
			job(c.ctx)
		}
	}
}
