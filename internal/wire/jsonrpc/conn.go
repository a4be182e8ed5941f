package jsonrpc

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Conn is one end of a connection. Create it with [NewConn].
type Conn struct {
	t             Transport
	awaiter       Awaiter // t, if it is an Awaiter
	o             Options
	ctx           context.Context // for handlers; ends when the transport is closed
	cancel        context.CancelFunc
	canLend       bool           // Serve can lend reading to callers; see role
	readBack      chan struct{}  // wakes Serve to read again
	readDone      chan struct{}  // closed when no goroutine reads any more
	wg            sync.WaitGroup // readers, handlers and queues; added to inside update
	pool          sync.Pool      // of *pendingCall
	messages      sync.Pool      // of *Message, for reuse after inline handlers
	unsolicited   *rate.Limiter  // limits unsolicited messages; see unsolicitedRate
	pause         time.Duration  // before the next read; used by the reader only
	drainFast     chan struct{}  // closed by DrainFast
	drainFastOnce sync.Once

	mu    sync.Mutex // held only by update; guards state and the calls in it
	state state
}

// state is the mutable state of a connection. It changes only inside update.
type state struct {
	nextID     uint64
	calls      map[uint64]*pendingCall
	standing   int // calls with CallOptions.Standing
	tokens     map[string]*pendingCall
	abandoned  map[uint64]abandonedCall
	serving    map[string]*serving // requests of the peer that handlers are answering, by raw id
	handlers   int                 // running handlers, except one that runs on the reader
	held       int                 // bytes of the peer's requests and notifications in progress; see hold
	newest     uint64              // the highest id answered by the peer
	answeredAt uint64              // nextID at the latest answer: calls with this id or a higher one were sent later
	notifiedAt uint64              // nextID + 1 at the latest notification; 0: none sent
	notified   queue               // Options.Notified
	replies    queue               // refusals of requests and calls of Options.Abandoned
	reading    reading
	timer      *time.Timer
	timerAt    time.Time   // when timer fires; zero while it is not set
	drainTimer *time.Timer // limits Options.Drain
	endErr     error       // why the connection ended; nil while it is open
	closed     bool        // the transport is closed; no goroutine may start
	stats      Stats
}

// NewConn returns a connection over t. Calls wait until Serve runs.
func NewConn(t Transport, o Options) *Conn {
	o.MaxHandlers = cmp.Or(o.MaxHandlers, defaultHandlers)
	o.Held = cmp.Or(o.Held, new(Held))
	c := &Conn{
		t:           t,
		o:           o,
		readBack:    make(chan struct{}, 1),
		readDone:    make(chan struct{}),
		drainFast:   make(chan struct{}),
		unsolicited: rate.NewLimiter(unsolicitedRate, unsolicitedBurst),
	}
	c.awaiter, _ = t.(Awaiter)
	if t, ok := t.(Interrupter); ok {
		c.canLend = t.CanInterrupt() && !o.Inline
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.state = state{
		nextID:    o.FirstID,
		calls:     make(map[uint64]*pendingCall),
		tokens:    make(map[string]*pendingCall),
		abandoned: make(map[uint64]abandonedCall),
		serving:   make(map[string]*serving),
	}
	return c
}

// update changes the state. If the connection has ended, it then fails the calls in flight; only
// update does that.
func (c *Conn) update(f func(s *state)) {
	c.mu.Lock()
	s := &c.state
	f(s)
	var failed []*pendingCall
	over := s.endErr
	if over != nil && len(s.calls) > 0 {
		for _, pc := range s.calls {
			s.remove(pc)
			failed = append(failed, pc)
		}
	}
	c.mu.Unlock()
	for _, pc := range failed {
		pc.finish(nil, writtenError{closed(over)})
	}
}

// hold reserves bytes, inside update, for a request or notification of the peer. It returns false if there is no
// room. drop releases them.
func (c *Conn) hold(s *state, bytes int) bool {
	if s.held >= maxHeld || !c.o.Held.take(bytes) {
		return false
	}
	s.held += bytes
	return true
}

// drop releases bytes reserved by hold, inside update.
func (c *Conn) drop(s *state, bytes int) {
	s.held -= bytes
	c.o.Held.bytes.Add(-int64(bytes))
}

// letGo drops the bytes of a message that has been handled.
func (c *Conn) letGo(m *Message) { c.update(func(s *state) { c.drop(s, len(m.Raw)) }) }

// Serve reads until the transport fails, Close is called or ctx ends. Then it fails the calls in flight, waits for
// handlers and returns the reason: the transport's error (io.EOF when the peer closed its end), ErrClosed or ctx's
// error. It may be called only once.
func (c *Conn) Serve(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { c.fail(ctx.Err()) })
	defer stop()
	c.read()
	<-c.readDone
	err := c.Err()
	if c.drainsAfter(err) {
		c.wg.Wait()
		if t, ok := c.t.(interface{ Flush(context.Context) error }); ok {
			_ = t.Flush(c.ctx) // ends early with Options.Drain or when the peer is gone
		}
	}
	c.fail(err)
	c.wg.Wait()
	return err
}

// drainsAfter reports whether handlers may keep running after reading has ended with err.
func (c *Conn) drainsAfter(err error) bool { return err == io.EOF && c.o.Drain > 0 }

// read is the reader's loop. It returns when the transport fails or another goroutine has become the reader.
func (c *Conn) read() {
	for {
		c.throttle()
		if c.awaiter != nil {
			c.awaiter.Await()
		}
		answer, ok := c.readOne()
		if !ok || answer && c.canLend && !c.lend() {
			return
		}
	}
}

// readOne reads and dispatches one message, and reports whether it was an answer. ok is false once this goroutine is
// no longer the reader.
func (c *Conn) readOne() (answer, ok bool) {
	m, err := c.t.Read()
	switch {
	case err == ErrInterrupted:
		return false, true
	case err != nil:
		c.readEnded(err)
		return false, false
	}
	return m.Method == "", c.dispatch(m)
}

// readEnded records why reading has ended. It also closes the connection, unless handlers may keep
// running.
func (c *Conn) readEnded(err error) {
	drains := c.drainsAfter(err)
	c.update(func(s *state) {
		if s.endErr == nil {
			s.endErr = err
		}
		if drains && !s.closed {
			s.drainTimer = time.AfterFunc(c.o.Drain, func() { c.fail(err) })
		}
		c.setRole(s, serveReads) // stops the watchdog
	})
	if !drains {
		c.fail(err)
	}
	close(c.readDone)
}

// fail closes the connection. err is the reason, unless there already is one.
func (c *Conn) fail(err error) {
	first := false
	c.update(func(s *state) {
		if s.endErr == nil {
			s.endErr = err
		}
		first, s.closed = !s.closed, true
		if s.reading.role == lent {
			c.returnReading(s)
		}
		for _, t := range []*time.Timer{s.timer, s.reading.timer, s.drainTimer} {
			if t != nil {
				t.Stop()
			}
		}
	})
	if first {
		c.cancel()
		_ = c.t.Close() // the reason is recorded in endErr
	}
}

// Close ends the connection: calls in flight fail with ErrClosed, the contexts of
// handlers end, and Serve returns. It is idempotent and does not drain.
func (c *Conn) Close() error {
	c.fail(ErrClosed)
	return nil
}

// DrainFast turns off the pauses between unsolicited messages. It is for a peer that has ended: answers may be queued
// behind a flood of notifications, and no more data will come. It is idempotent.
func (c *Conn) DrainFast() { c.drainFastOnce.Do(func() { close(c.drainFast) }) }

// Err returns why the connection ended; nil while it is open.
func (c *Conn) Err() (err error) {
	c.update(func(s *state) { err = s.endErr })
	return err
}

// Stats returns the counts so far.
func (c *Conn) Stats() (stats Stats) {
	c.update(func(s *state) {
		stats = s.stats
		stats.Abandoned = len(s.abandoned)
		stats.InFlight = len(s.calls) + len(s.abandoned)
	})
	if t, ok := c.t.(interface{ Traffic() Traffic }); ok {
		n := t.Traffic()
		stats.Noise, stats.Signs, stats.BytesIn, stats.BytesOut = n.Noise, n.Signs, n.BytesIn, n.BytesOut
	}
	return stats
}

// ForgetAbandoned forgets the calls abandoned so far: they are no longer in flight, and late answers count as
// duplicates. It is for peers that need not answer cancelled requests.
func (c *Conn) ForgetAbandoned() {
	c.update(func(s *state) { clear(s.abandoned) })
}

// Notify sends a notification. While the peer does not read, it may block until ctx ends. A nil error does not mean
// that the peer has seen the notification.
func (c *Conn) Notify(ctx context.Context, method string, params json.RawMessage) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.update(func(s *state) { s.notifiedAt = s.nextID + 1 })
	return c.write(ctx, Message{Method: method, Params: params})
}

// write sends m. If the connection has ended, the error wraps the reason.
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
