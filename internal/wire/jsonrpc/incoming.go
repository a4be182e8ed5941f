package jsonrpc

import (
	"context"
	"encoding/json"
	"time"

	"github.com/exthost/exthost/internal/text/rawjson"
)

var (
	errNoHandler  = &Error{Code: CodeMethodNotFound, Message: "method not found"}
	errOverloaded = &Error{Code: CodeOverloaded, Message: "too many requests at once"}
	errNotBare    = &Error{Code: CodeInvalidRequest, Message: errVersion.Error()}
)

// dispatch passes an incoming message to its call or handler. It runs on the reader and reports whether this
// goroutine is still the reader.
func (c *Conn) dispatch(m Message) (reading bool) {
	if m.Method == "" {
		c.answer(&m)
		return true
	}
	kept, ok := c.messages.Get().(*Message)
	if !ok {
		kept = new(Message) // allocated only for handlers, which keep the message
	}
	*kept = m
	return c.incoming(kept)
}

// incoming dispatches a request or a notification.
func (c *Conn) incoming(m *Message) (reading bool) {
	switch {
	case m.Bare && !c.o.Bare:
		c.reject(m, errNotBare)
	case c.withdraws(m):
	case c.deliverToCall(m):
	case m.ID == nil:
		c.notify(m)
	default:
		return c.request(m)
	}
	return true
}

func (c *Conn) answer(m *Message) {
	result, err := c.outcome(m)
	id, ours := parseID(m.ID)
	anonymous := m.Error != nil && string(m.ID) == "null"
	if anonymous && m.Of != nil {
		id, ours = parseID(m.Of)
	}
	var pc *pendingCall
	unmatched := false
	c.update(func(s *state) {
		switch {
		case ours:
			pc = s.calls[id]
		case anonymous && m.Of == nil:
			pc = s.onlyCall()
		}
		if pc != nil {
			s.remove(pc)
			s.answered(pc.id, pc.o.Standing)
		} else {
			unmatched = c.countUnmatched(s, id, ours)
		}
		if m.Invalid != nil {
			s.stats.Invalid++
		}
	})
	if c.o.Stray != nil && (unmatched || anonymous) {
		stray := *m // a copy, so that only stray answers are allocated
		stray.Free = nil
		c.o.Stray(&stray, pc != nil)
	}
	switch {
	case pc != nil:
		pc.free = m.Free
		pc.finish(result, err)
		return
	case unmatched:
		c.countUnsolicited(m)
	}
	if m.Free != nil {
		m.Free()
	}
}

// onlyCall returns the call that an error without an id answers: the only call in flight. It returns nil if the error
// may be about a notification (which peers should not answer), that is, if the latest notification was sent after the
// latest answered call.
func (s *state) onlyCall() *pendingCall {
	notified := s.notifiedAt > 0 && (s.stats.Answered == 0 || s.newest < s.notifiedAt-1)
	if s.awaited() != 1 || len(s.abandoned) > 0 || notified {
		return nil
	}
	for _, pc := range s.calls {
		if !pc.o.Standing {
			return pc
		}
	}
	return nil
}

// answered records the answer to a call.
func (s *state) answered(id uint64, standing bool) {
	s.stats.Answered++
	s.stats.OutOfOrder = s.stats.OutOfOrder || id < s.newest && !standing
	s.newest = max(s.newest, id)
	s.answeredAt = s.nextID
}

// countUnmatched counts an answer without a waiting call. It returns false for the late answer to an abandoned call.
func (c *Conn) countUnmatched(s *state, id uint64, ours bool) (unmatched bool) {
	a, late := s.abandoned[id]
	switch {
	case !ours || id >= s.nextID || id < c.o.FirstID:
		s.stats.Unknown++
	case late:
		delete(s.abandoned, id)
		s.stats.Late++
		s.answered(id, a.standing)
		return false
	default:
		s.stats.Duplicate++
	}
	return true
}

func (c *Conn) outcome(m *Message) (json.RawMessage, error) {
	if m.Invalid == nil && m.Bare && !c.o.Bare {
		m.Invalid = errVersion
	}
	if m.Invalid == nil && m.Error != nil {
		var e *Error
		if e, m.Invalid = decodeError(m.Error); m.Invalid == nil && c.o.Bare && e.Message == "" {
			m.Invalid = errNoMessage
		}
		if m.Invalid == nil {
			return nil, e
		}
	}
	if m.Invalid != nil {
		return nil, invalidResponse(m, m.Invalid)
	}
	return m.Result, nil
}

// decodeError reads an error object. A missing code is 0, a missing message "".
func decodeError(raw json.RawMessage) (*Error, error) {
	e := new(Error)
	if code := rawjson.Get(raw, "code"); code != nil && json.Unmarshal(code, &e.Code) != nil {
		return nil, errErrorCode
	}
	if message := rawjson.Get(raw, "message"); message != nil && json.Unmarshal(message, &e.Message) != nil {
		return nil, errErrorMessage
	}
	e.Data = rawjson.Get(raw, "data")
	return e, nil
}

// parseID parses an id as this package writes it: decimal digits only.
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

// callOf returns, inside update, the call that m belongs to: the one with this token. If there is
// none and loose is set, it is the call on whose stream m came; for m without a stream it is the
// newest call, if all calls have the same owner.
func (s *state) callOf(m *Message, token string, loose bool) *pendingCall {
	if pc := s.tokens[token]; pc != nil || !loose {
		return pc
	}
	if m.Of != nil {
		id, _ := parseID(m.Of)
		return s.calls[id]
	}
	var newest *pendingCall
	for _, pc := range s.calls {
		switch {
		case pc.o.Owner == nil:
		case newest == nil || newest.o.Owner == pc.o.Owner && newest.id < pc.id:
			newest = pc
		case newest.o.Owner != pc.o.Owner:
			return nil
		}
	}
	for _, o := range s.abandoned {
		if newest != nil && o.owner != nil && o.owner != newest.o.Owner && time.Since(o.since) < abandonedGrace {
			return nil
		}
	}
	return newest
}

// deliverToCall queues m for the call that it belongs to, and reports whether there is one.
func (c *Conn) deliverToCall(m *Message) (found bool) {
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
		pc := s.callOf(m, token, loose)
		if found = pc != nil; !found {
			return
		}
		pc.extend(time.Now())
		switch {
		case pc.hasRoom() && c.hold(s, len(m.Raw)):
			pc.inbox = append(pc.inbox, *m)
			pc.waiting += len(m.Raw)
			select {
			case pc.inboxReady <- struct{}{}:
			default: // already signalled
			}
		case m.ID == nil:
			s.stats.Dropped++
		case pc.inboxReady == nil:
			refusal = errNoHandler
		default:
			refusal = errOverloaded
		}
	})
	switch {
	case refusal != nil:
		c.reject(m, refusal)
	case found && m.ID == nil:
		c.countUnsolicited(m)
	}
	return found
}

// withdraws cancels a request of the peer if m is the peer's cancellation of it. It reports whether m is a
// cancellation.
func (c *Conn) withdraws(m *Message) bool {
	if m.ID != nil || c.o.Cancels == nil {
		return false
	}
	id := c.o.Cancels(m)
	if id == nil {
		return false
	}
	c.countUnsolicited(m)
	c.withdraw(id)
	return true
}

// notify queues a notification for Options.Notified.
func (c *Conn) notify(m *Message) {
	c.countUnsolicited(m)
	if c.o.Notified == nil {
		return
	}
	c.update(func(s *state) {
		if !c.hold(s, len(m.Raw)) {
			s.stats.Dropped++
			return
		}
		queued := c.enqueue(s, &s.notified, len(m.Raw), func(ctx context.Context) {
			c.o.Notified(ctx, m)
			c.letGo(m)
		})
		if !queued {
			c.drop(s, len(m.Raw))
		}
	})
}

// request runs Options.Handle for a request.
func (c *Conn) request(m *Message) (reading bool) {
	if c.o.Handle == nil {
		c.reject(m, errNoHandler)
		return true
	}
	full := false
	c.update(func(s *state) {
		full = s.handlers >= c.o.MaxHandlers
		if full || c.o.Inline || s.closed {
			return
		}
		if full = !c.hold(s, len(m.Raw)); full {
			return
		}
		s.handlers++
		ctx, end := c.served(c.ctx, m.ID)
		c.wg.Go(func() {
			result, err := c.o.Handle(ctx, m)
			c.respond(m, result, err, context.Cause(ctx))
			c.update(func(s *state) {
				end()
				s.handlers--
				c.drop(s, len(m.Raw))
			})
		})
	})
	switch {
	case full:
		c.reject(m, errOverloaded)
	case c.o.Inline:
		return c.handleInline(m)
	default:
		c.countUnsolicited(m)
	}
	return true
}
