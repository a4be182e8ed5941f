package jsonrpc

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// flight is one call in flight. Whoever removes it from the state decides its
// outcome and, unless that is the caller itself, sends once on done.
type flight struct {
	id     uint64
	rawID  [20]byte
	method string
	o      CallOptions
	done   chan struct{}
	news   chan struct{}      // tells of messages in inbox; nil without OnMessage
	bell   chan struct{}      // what news is, if it was ever needed
	cancel context.CancelFunc // ends the ctx of OnMessage

	// Set by who decides the outcome, before the send on done.
	result json.RawMessage
	err    error

	// Guarded by Conn.mu.
	inbox    []Message
	deadline time.Time // zero: none
	limit    time.Time // how far deadline may be moved
	serving  bool      // OnMessage answers a request: only limit counts
}

// orphan is a call that nobody waits for any more, though the peer may.
type orphan struct {
	owner any
	since time.Time
}

// lingering is how long after it was abandoned a call is reckoned to be at work:
// peers need not answer what they were told to cancel.
const lingering = time.Minute

// newFlight reuses a finished one for its channels, which are empty by then: its one
// send was received, or none will ever be made. (A pool of the connection's own,
// because channels made under testing/synctest must not leave their bubble.)
func (c *Conn) newFlight(method string, o *CallOptions) *flight {
	fl, ok := c.pool.Get().(*flight)
	if !ok {
		fl = &flight{done: make(chan struct{}, 1)}
	}
	fl.method = method
	if o != nil {
		fl.o = *o
		if o.OnMessage != nil {
			if fl.bell == nil {
				fl.bell = make(chan struct{}, 1)
			}
			fl.news = fl.bell
		}
	}
	return fl
}

func (c *Conn) release(fl *flight) {
	if fl.news != nil {
		select {
		case <-fl.news: // told of what has been dealt with
		default:
		}
	}
	*fl = flight{done: fl.done, bell: fl.bell}
	c.pool.Put(fl)
}

func (fl *flight) finish(result json.RawMessage, err error) {
	fl.result, fl.err = result, err
	if err != nil && fl.cancel != nil {
		fl.cancel()
	}
	fl.done <- struct{}{}
}

// start sets the clocks going.
func (fl *flight) start(now time.Time) {
	limit := fl.o.MaxTimeout
	if limit <= 0 {
		limit = fl.o.Timeout
	}
	fl.limit = now.Add(limit)
	fl.deadline = fl.limit
	fl.extend(now)
}

// extend starts Timeout afresh, within MaxTimeout.
func (fl *flight) extend(now time.Time) {
	if fl.limit.IsZero() || fl.o.Timeout <= 0 {
		return
	}
	fl.deadline = now.Add(fl.o.Timeout)
	if fl.deadline.After(fl.limit) {
		fl.deadline = fl.limit
	}
}

// expiry returns when the call's time is up as things stand, zero for never.
func (fl *flight) expiry() time.Time {
	if fl.serving {
		return fl.limit
	}
	return fl.deadline
}

// add registers a call and gives it its id.
func (s *state) add(fl *flight) error {
	if s.over != nil {
		return closed(s.over)
	}
	if token := fl.o.Token; token != "" {
		if s.tokens[token] != nil {
			return fmt.Errorf("jsonrpc: token %q belongs to another call in flight", token)
		}
		s.tokens[token] = fl
	}
	fl.id = s.nextID
	s.nextID++
	s.flights[fl.id] = fl
	s.reading.crowd = s.reading.crowd || len(s.flights) > 1
	return nil
}

// remove takes a call out, and reports whether it was still there.
func (s *state) remove(fl *flight) bool {
	if s.flights[fl.id] != fl {
		return false
	}
	delete(s.flights, fl.id)
	if fl.o.Token != "" {
		delete(s.tokens, fl.o.Token)
	}
	return true
}
