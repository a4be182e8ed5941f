package jsonrpc

import (
	"context"
	"encoding/json"
	"io"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Conn is one end of a conversation. Create it with [NewConn].
type Conn struct {
	t        Transport
	o        Options
	ctx      context.Context // of handlers; ends when the transport is closed
	cancel   context.CancelFunc
	lends    bool           // Serve lends the reading to callers
	resume   chan struct{}  // gives it back
	unread   chan struct{}  // closed when the last reader has stopped
	wg       sync.WaitGroup // readers, handlers and lanes; added to inside update
	pool     sync.Pool      // of *flight
	messages sync.Pool      // of *Message, which handlers that ran inline are done with
	asides   *rate.Limiter  // of what is read aside, see asideRate
	pause    time.Duration  // before Serve reads on; the reader's
	rush     chan struct{}  // closed by Rush
	rushed   sync.Once

	mu    sync.Mutex // held only by update; guards state and the flights in it
	state state
}

// state is everything about a conversation that changes.
type state struct {
	nextID    uint64
	flights   map[uint64]*flight
	tokens    map[string]*flight
	abandoned map[uint64]orphan
	handlers  int  // handlers at work that are not the reader's
	notified  lane // Options.Notified
	errands   lane // refusals and Options.Abandoned
	reading   reading
	timer     *time.Timer
	timerAt   time.Time   // when timer fires; zero when it is not set
	limit     *time.Timer // ends the draining
	over      error       // why there will be no more answers; nil while there may be
	closed    bool        // the transport is closed: nothing new may start
	stats     Stats
}

// NewConn returns a connection over t. Calls wait until Serve runs.
func NewConn(t Transport, o Options) *Conn {
	if o.MaxHandlers == 0 {
		o.MaxHandlers = defaultHandlers
	}
	c := &Conn{t: t, o: o, resume: make(chan struct{}, 1), unread: make(chan struct{}), rush: make(chan struct{}), asides: rate.NewLimiter(asideRate, asideBurst)}
	if t, ok := t.(interruptible); ok {
		c.lends = t.canInterrupt() && !o.Inline
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.state = state{
		nextID:    o.FirstID,
		flights:   make(map[uint64]*flight),
		tokens:    make(map[string]*flight),
		abandoned: make(map[uint64]orphan),
	}
	return c
}

// update changes the state. Whatever ended the conversation, the calls still in
// flight are failed here and nowhere else.
func (c *Conn) update(f func(s *state)) {
	c.mu.Lock()
	s := &c.state
	f(s)
	var failed []*flight
	over := s.over
	if over != nil && len(s.flights) > 0 {
		for _, fl := range s.flights {
			s.remove(fl)
			failed = append(failed, fl)
		}
	}
	c.mu.Unlock()
	for _, fl := range failed {
		fl.finish(nil, writtenError{closed(over)})
	}
}

// Serve reads until the transport fails, Close is called or ctx ends, then fails
// the calls in flight, waits for handlers and returns why: the transport's error
// (io.EOF when the peer closed its end), ErrClosed or ctx's error. It is called once.
func (c *Conn) Serve(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { c.fail(ctx.Err()) })
	defer stop()
	c.read()
	<-c.unread
	err := c.Err()
	if c.drains(err) {
		c.wg.Wait()
		if t, ok := c.t.(interface{ Flush(context.Context) error }); ok {
			_ = t.Flush(c.ctx) // cut short by the limit or by a peer that is gone
		}
	}
	c.fail(err)
	c.wg.Wait()
	return err
}

// drains reports whether handlers may go on after the reading ended with err.
func (c *Conn) drains(err error) bool { return err == io.EOF && c.o.Drain > 0 }

// read is the reader: it runs until the transport fails or another goroutine has
// taken over for good.
func (c *Conn) read() {
	for {
		c.rest()
		m, err := c.t.Read()
		switch {
		case err == errInterrupted:
			continue
		case err != nil:
			c.unreadable(err)
			return
		case !c.dispatch(m):
			return
		}
		if c.lends && m.Method == "" && !c.lend() {
			return
		}
	}
}

// unreadable ends the reading, and the conversation unless handlers may go on.
func (c *Conn) unreadable(err error) {
	drains := c.drains(err)
	c.update(func(s *state) {
		if s.over == nil {
			s.over = err
		}
		if drains && !s.closed {
			s.limit = time.AfterFunc(c.o.Drain, func() { c.fail(err) })
		}
		c.move(s, serving) // so that the watchdog rests
	})
	if !drains {
		c.fail(err)
	}
	close(c.unread)
}

// fail closes everything, with err as the reason unless there is one already.
func (c *Conn) fail(err error) {
	first := false
	c.update(func(s *state) {
		if s.over == nil {
			s.over = err
		}
		first, s.closed = !s.closed, true
		if s.reading.role == lent {
			c.takeBack(s)
		}
		for _, t := range []*time.Timer{s.timer, s.reading.timer, s.limit} {
			if t != nil {
				t.Stop()
			}
		}
	})
	if first {
		c.cancel()
		_ = c.t.Close() // the reason is known already
	}
}

// Close ends the conversation: calls in flight fail with ErrClosed, handlers'
// contexts end, Serve returns. It is idempotent and does not drain.
func (c *Conn) Close() error {
	c.fail(ErrClosed)
	return nil
}

// Rush has what the peer sends read without pauses from now on. It is for a peer
// that is gone: the answers behind a flood that it left are to be had while the
// pipe is open, and there is no more to come. It is idempotent.
func (c *Conn) Rush() { c.rushed.Do(func() { close(c.rush) }) }

// Err returns why the conversation ended, nil while it goes on.
func (c *Conn) Err() (err error) {
	c.update(func(s *state) { err = s.over })
	return err
}

// Stats returns the counts so far.
func (c *Conn) Stats() (stats Stats) {
	c.update(func(s *state) {
		stats = s.stats
		stats.Abandoned = len(s.abandoned)
		stats.InFlight = len(s.flights) + len(s.abandoned)
	})
	if t, ok := c.t.(interface{ Traffic() Traffic }); ok {
		n := t.Traffic()
		stats.Noise, stats.BytesIn, stats.BytesOut = n.Noise, n.BytesIn, n.BytesOut
	}
	return stats
}

// Forgive forgets the calls abandoned so far: they are no longer in flight, and
// an answer to one of them counts as a duplicate. It is for peers that need not
// answer a request that they were told to cancel.
func (c *Conn) Forgive() {
	c.update(func(s *state) { clear(s.abandoned) })
}

// Notify sends a notification. It may block until ctx ends when the peer does not
// read; whether the peer acts on it is unknown.
func (c *Conn) Notify(ctx context.Context, method string, params json.RawMessage) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return c.write(ctx, Message{Method: method, Params: params})
}

// write sends m, naming the end of the conversation where that is the reason.
func (c *Conn) write(ctx context.Context, m Message) error {
	m.Bare = c.o.Bare
	err := c.t.Write(ctx, m)
	if err == nil {
		return nil
	}
	if cause := c.Err(); cause != nil && ctx.Err() == nil {
		if Written(err) {
			return writtenError{closed(cause)}
		}
		return closed(cause)
	}
	return err
}
