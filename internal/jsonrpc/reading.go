package jsonrpc

import (
	"context"
	"errors"
	"time"
)

// Waking a goroutine that waits for another one costs more than the pipe does. So
// the reading is a role that moves instead:
//
//   - With one call in flight at a time, Serve lends it: the caller reads its own
//     answer. One that takes long gives it back.
//   - With Options.Inline the reader itself runs a handler. When that takes long,
//     another goroutine becomes the reader.
//
// "Long" is judged by a watchdog that ticks only while the role moves, and acts on
// what has not moved for a whole tick. So a caller that reads notices the end of its
// ctx, and a peer that speaks between calls is heard, at most two ticks late.
type role int

const (
	serving  role = iota // a goroutine of Serve reads
	handling             // that goroutine is inside an inline handler
	lent                 // nobody reads; the next caller may
	borrowed             // a caller reads
)

const tick = time.Millisecond

// reading is the role's part of state.
type reading struct {
	role    role
	turn    uint64 // counts moves
	seen    uint64 // turn at the last tick
	crowd   bool   // calls met in flight since the reading could last be lent
	ticking bool
	timer   *time.Timer
}

// move gives the role to someone else, inside update, and returns the turn.
func (c *Conn) move(s *state, to role) uint64 {
	r := &s.reading
	r.role = to
	r.turn++
	if !r.ticking && to != serving && !s.closed {
		r.ticking = true
		if r.timer == nil {
			r.timer = time.AfterFunc(tick, c.tick)
		} else {
			r.timer.Reset(tick)
		}
	}
	return r.turn
}

// tick is the watchdog.
func (c *Conn) tick() {
	interrupt := false
	c.update(func(s *state) {
		r := &s.reading
		idle := r.turn == r.seen
		r.seen = r.turn
		if s.closed || idle && r.role == serving {
			r.ticking = false
			return
		}
		if idle {
			interrupt = c.reclaim(s)
		}
		r.timer.Reset(tick)
	})
	if interrupt {
		c.t.(interruptible).interrupt()
	}
}

// reclaim takes the role away from whoever holds it up, inside update. A caller
// must be interrupted and brings it back itself.
func (c *Conn) reclaim(s *state) (interrupt bool) {
	switch s.reading.role {
	case handling:
		s.handlers++
		c.move(s, serving)
		c.wg.Go(c.read)
	case lent:
		c.takeBack(s)
	case borrowed:
		return true
	}
	return false
}

// takeBack makes Serve read again, inside update.
func (c *Conn) takeBack(s *state) {
	c.move(s, serving)
	c.resume <- struct{}{} // has room: Serve waits for exactly one
}

// interruptible is a transport whose Read can be made to return errInterrupted,
// after which it may be called again. An interruption may hit the next Read.
type interruptible interface {
	canInterrupt() bool
	interrupt()
}

var errInterrupted = errors.New("jsonrpc: read interrupted")

// lend lets the next caller read, provided that calls come one at a time, and
// waits until the reading comes back. It reports whether it does.
func (c *Conn) lend() bool {
	done := false
	c.update(func(s *state) {
		if len(s.flights) > 0 || s.over != nil {
			return
		}
		if done = !s.reading.crowd; done {
			c.move(s, lent)
		}
		s.reading.crowd = false
	})
	if !done {
		return true
	}
	select {
	case <-c.resume:
		return true
	case <-c.unread: // a caller read the end
		return false
	}
}

// borrow takes the reading, inside update, if nobody reads and nobody else has a
// call in flight. Should others have one, Serve reads for all.
func (c *Conn) borrow(s *state, fl *flight) bool {
	switch {
	case s.reading.role != lent || s.flights[fl.id] != fl:
		return false
	case s.reading.crowd:
		c.takeBack(s)
		return false
	}
	c.move(s, borrowed)
	return true
}

// readFor reads in the caller's goroutine until there is something for the call, or
// the reader is to be held up, which the caller must not be.
func (c *Conn) readFor(fl *flight) {
	for len(fl.done) == 0 && len(fl.news) == 0 && c.pause == 0 {
		m, err := c.t.Read()
		if err == errInterrupted {
			break
		}
		if err != nil {
			c.unreadable(err)
			return
		}
		c.dispatch(m)
	}
	c.update(func(s *state) {
		if len(s.flights) == 0 && !s.reading.crowd && s.over == nil {
			c.move(s, lent)
		} else {
			c.takeBack(s)
		}
	})
}

// batcher is a transport that can hold answers back until its reader runs dry, or
// flushes them.
type batcher interface {
	WriteLater(ctx context.Context, m Message) error
	flushHeld()
}

// handleInline runs one handler on the reader and reports whether its goroutine
// still is the reader afterwards.
func (c *Conn) handleInline(m *Message) (mine bool) {
	var turn uint64
	c.update(func(s *state) { turn = c.move(s, handling) })
	result, err := c.o.Handle(c.ctx, m)
	c.update(func(s *state) {
		if mine = s.reading.turn == turn; mine {
			c.move(s, serving)
		}
	})
	c.reply(m.ID, result, err, mine)
	if !mine {
		c.update(func(s *state) { s.handlers-- })
	}
	*m = Message{}
	c.messages.Put(m)
	return mine
}

// aside counts m, one that asideRate is about. After too many, Serve is to pause
// before it reads on.
func (c *Conn) aside(m *Message) {
	now := time.Now()
	n := min(1+len(m.Raw)/asideBytes, asideBurst)
	if d := c.asides.ReserveN(now, n).DelayFrom(now); d >= asidePause {
		c.pause = d
	}
}

// rest makes the pause that is due.
func (c *Conn) rest() {
	if c.pause == 0 {
		return
	}
	if t, ok := c.t.(batcher); ok {
		t.flushHeld()
	}
	select {
	case <-time.After(c.pause):
	case <-c.rush:
	case <-c.ctx.Done():
	}
	c.pause = 0
}
