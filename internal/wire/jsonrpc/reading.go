package jsonrpc

import "time"

// role says which goroutine reads. Switching goroutines for every message costs more than the pipe itself, so the
// goroutine that needs the message reads:
//
//   - With one call in flight at a time, not counting standing ones, Serve lends reading to the caller, which reads its
//     own answer. If that takes long, reading returns to Serve.
//   - With Options.Inline the reader runs the handler itself. If that takes long, another goroutine becomes the reader.
//
// A watchdog ticks while roles change, and intervenes when the role has not changed for a whole
// tick. So it takes at most two ticks until a reading caller notices the end of its ctx, or until a
// message that comes between calls is read.
type role int

const (
	serveReads role = iota // Serve, or the goroutine that replaced it, reads
	inHandler              // the reader is inside an inline handler
	lent                   // no goroutine reads; the next caller may
	borrowed               // a caller reads
)

const tick = time.Millisecond

// reading is the part of state about the role.
type reading struct {
	role       role
	moves      uint64 // counts changes of role
	lastMoves  uint64 // moves at the last tick
	concurrent bool   // several calls were in flight at once since reading could last be lent
	ticking    bool
	timer      *time.Timer
}

// setRole changes the role, inside update, and returns the new count of changes.
func (c *Conn) setRole(s *state, to role) uint64 {
	r := &s.reading
	r.role = to
	r.moves++
	if !r.ticking && to != serveReads && !s.closed {
		r.ticking = true
		if r.timer == nil {
			r.timer = time.AfterFunc(tick, c.tick)
		} else {
			r.timer.Reset(tick)
		}
	}
	return r.moves
}

func (c *Conn) tick() {
	interrupt := false
	c.update(func(s *state) {
		r := &s.reading
		idle := r.moves == r.lastMoves
		r.lastMoves = r.moves
		if s.closed || idle && r.role == serveReads {
			r.ticking = false
			return
		}
		if idle {
			interrupt = c.reclaim(s)
		}
		r.timer.Reset(tick)
	})
	if interrupt {
		c.t.(Interrupter).Interrupt()
	}
}

// reclaim returns reading to a goroutine that only reads, inside update. If a caller reads,
// interrupt is true: the transport must be interrupted, upon which the caller itself returns
// reading.
func (c *Conn) reclaim(s *state) (interrupt bool) {
	switch s.reading.role {
	case inHandler:
		s.handlers++
		c.setRole(s, serveReads)
		c.wg.Go(c.read)
	case lent:
		c.returnReading(s)
	case borrowed:
		return true
	}
	return false
}

// returnReading makes Serve read again, inside update.
func (c *Conn) returnReading(s *state) {
	c.setRole(s, serveReads)
	c.readBack <- struct{}{} // never blocks: Serve waits for exactly one send
}

// lend lets the next caller read, if calls come one at a time, and waits until reading is returned. It returns false
// if no goroutine will read again.
func (c *Conn) lend() bool {
	done := false
	c.update(func(s *state) {
		if s.awaited() > 0 || s.endErr != nil {
			return
		}
		if done = !s.reading.concurrent; done {
			c.setRole(s, lent)
		}
		s.reading.concurrent = false
	})
	if !done {
		return true
	}
	select {
	case <-c.readBack:
		return true
	case <-c.readDone: // a caller read the end of the input
		return false
	}
}

// borrow takes over reading for a caller, inside update, if reading is lent and no other call is in
// flight. With other calls in flight, Serve reads for all.
func (c *Conn) borrow(s *state, pc *pendingCall) bool {
	switch {
	case s.reading.role != lent || s.calls[pc.id] != pc || pc.o.Standing:
		return false
	case s.reading.concurrent:
		c.returnReading(s)
		return false
	}
	c.setRole(s, borrowed)
	return true
}

// readFor reads in the caller's goroutine until there is a message for its call. It also stops when a pause is due,
// which must not delay the caller.
func (c *Conn) readFor(pc *pendingCall) {
	for len(pc.done) == 0 && len(pc.inboxReady) == 0 && c.pause == 0 {
		m, err := c.t.Read()
		if err == ErrInterrupted {
			break
		}
		if err != nil {
			c.readEnded(err)
			return
		}
		c.dispatch(m)
	}
	c.update(func(s *state) {
		if s.awaited() == 0 && !s.reading.concurrent && s.endErr == nil {
			c.setRole(s, lent)
		} else {
			c.returnReading(s)
		}
	})
}

// handleInline runs a handler on the reader, and reports whether this goroutine is still the reader afterwards.
func (c *Conn) handleInline(m *Message) (stillReader bool) {
	var moves uint64
	c.update(func(s *state) { moves = c.setRole(s, inHandler) })
	result, err := c.o.Handle(c.ctx, m)
	c.update(func(s *state) {
		if stillReader = s.reading.moves == moves; stillReader {
			c.setRole(s, serveReads)
		}
	})
	c.reply(m, result, err, stillReader)
	if !stillReader {
		c.update(func(s *state) { s.handlers-- })
	}
	*m = Message{}
	c.messages.Put(m)
	return stillReader
}

// countUnsolicited counts m against unsolicitedRate. Above that rate it sets a pause before the next read.
func (c *Conn) countUnsolicited(m *Message) {
	now := time.Now()
	n := min(1+len(m.Raw)/unsolicitedBytes, unsolicitedBurst)
	if d := c.unsolicited.ReserveN(now, n).DelayFrom(now); d >= minPause {
		c.pause = d
	}
}

// throttle waits for the pause, if one is due.
func (c *Conn) throttle() {
	if c.pause == 0 {
		return
	}
	if t, ok := c.t.(Batcher); ok {
		t.FlushHeld()
	}
	select {
	case <-time.After(c.pause):
	case <-c.drainFast:
	case <-c.ctx.Done():
	}
	c.pause = 0
}
