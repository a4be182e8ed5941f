package pair

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/exthost/exthost/cluster/internal/wire"
	"github.com/exthost/exthost/protocol"
)

// front is the state of the calls that this run makes at a remote run.
type front struct {
	*channel
	asks        *asks
	open        map[uint64]*call
	done        map[uint64]struct{} // calls with an outcome that the owner has not been told of
	unreachable time.Time           // since when the servers report that the run does not exist; zero: it exists
	ended       bool                // the run has ended for good
}

// gone records that the run has ended. It reports whether no call is open.
func (r *front) gone() (idle bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended = true; r.unreachable.IsZero() {
		r.unreachable = time.Now()
	}
	r.forgotten = len(r.open) == 0
	return r.forgotten
}

// call is one call at a remote run.
type call struct {
	n      uint64
	wake   chan struct{} // holds a token when events or an outcome are ready
	sent   bool          // until then no pulse names the call: the owner refuses a call that arrives after such a pulse
	events []event
	held   int64 // bytes of events that the caller has not taken
	long   bool  // the body is sent in parts
	over   bool
	result []byte
	err    error
}

// event is a request or notification of the extension during a call.
type event struct {
	asked  context.Context // of a request: ends when its answer is no longer needed
	id     uint64          // of a request; 0: a notification
	method string
	params []byte
}

const (
	maxEvents  = 1024    // queued events per call
	maxHeld    = 4 << 20 // max queued bytes per call; a single larger event is still accepted
	maxPerHead = 1024    // numbers per pulse
	maxDone    = 1 << 16 // entries of done; beyond it, outcomes of calls that are not open are ignored
)

// Call sends a call to a run and returns its only outcome. h needs the fields of a wire.Call, except N. The
// error is a *protocol.Error, whose Outcome is "" only if the owner never ran the call and never will.
func (p *Pairs) Call(ctx context.Context, to wire.Address, h *wire.Head, body []byte, client protocol.Peer,
) ([]byte, error) {
	h.Kind = wire.Call
	if limit := p.limit(to, h); int64(len(body)) > limit {
		return nil, protocol.Errorf(protocol.LineTooLong, "the call has %d bytes, and node %s takes %d", len(body),
			to.Node, limit)
	}
	if deadline, ok := ctx.Deadline(); ok {
		h.LeftMS = max(1, time.Until(deadline).Milliseconds())
	}
	r := p.peer(to).out
	long := len(body) > p.chunk()
	c := r.openCall(long)
	for c == nil { // the pair was dropped in between
		runtime.Gosched()
		r = p.peer(to).out
		c = r.openCall(long)
	}
	h.N, h.Quiet, h.Chunk = c.n, client == nil, wire.Chunk{}
	p.busy.Add(1)
	defer p.busy.Add(-1)
	r.post(h, body, func(err error) { r.sent(c, err) })
	return r.await(ctx, c, client)
}

// sent records that a call was sent, or the reason why it was not.
func (r *front) sent(c *call, err error) {
	refusal, never := errors.AsType[*protocol.Error](err)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch c.sent = true; {
	case never:
		r.finish(c, nil, refusal)
	case errors.Is(err, r.p.o.Unsent):
		r.finish(c, nil, notSent(err))
	case c.over && c.long:
		r.stopSending(c.n)
	}
}

// openCall adds a call. It returns nil if the pair was dropped.
func (r *front) openCall(long bool) *call {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.forgotten {
		return nil
	}
	c := &call{n: r.p.numbers.Add(1), long: long, wake: make(chan struct{}, 1)}
	r.used = time.Now()
	if len(r.open) == 0 {
		r.heardOwner = r.used
	}
	r.open[c.n] = c
	if r.p.ctx.Err() != nil {
		r.finish(c, nil, notSent(errLeaves))
	}
	return c
}

// await passes the extension's events to the caller in order until there is an outcome.
func (r *front) await(ctx context.Context, c *call, client protocol.Peer) ([]byte, error) {
	var during context.Context // context of events; most calls have none
	var questions sync.WaitGroup
	defer questions.Wait()
	for {
		select {
		case <-c.wake:
		case <-ctx.Done():
			if !r.abandonCall(c) {
				continue // the outcome came first
			}
			r.asks.unserved(c)
			return nil, gaveUp(ctx)
		}
		r.mu.Lock()
		events, over := c.events, c.over
		c.events = nil
		r.mu.Unlock()
		if during == nil && len(events) > 0 {
			var cancel context.CancelFunc
			during, cancel = context.WithCancel(ctx)
			defer cancel()
		}
		for _, e := range events {
			if e.id != 0 {
				questions.Go(func() {
					defer r.took(c, e)
					r.asks.serve(during, e, client)
				})
				continue
			}
			if client != nil {
				_ = client.Notify(during, e.method, e.params)
			}
			r.took(c, e)
		}
		if over {
			return c.result, c.err
		}
	}
}

// abandonCall ends a call that its caller gave up. It reports false if there is an outcome already.
func (r *front) abandonCall(c *call) bool {
	r.mu.Lock()
	over := c.over
	if !over {
		r.close(c)
		r.done[c.n] = struct{}{} // ends the call at the owner if Cancel is lost
	}
	r.mu.Unlock()
	if !over {
		_ = r.send(&wire.Head{Kind: wire.Cancel, N: c.n}, nil)
	}
	return !over
}

// finish sets the outcome of a call. The caller holds r.mu.
func (r *front) finish(c *call, result []byte, err error) {
	if c.over {
		return
	}
	r.close(c)
	c.over, c.result, c.err = true, result, err
	c.signal()
}

// close removes a call that has an outcome. The caller holds r.mu.
func (r *front) close(c *call) {
	delete(r.open, c.n)
	if c.long {
		r.stopSending(c.n)
	}
}

// signal wakes await.
func (c *call) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// push queues an event of a call. known is false if the call is not open; taken is false if too many events or bytes
// are queued.
func (r *front) push(n uint64, e event) (known, taken bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.open[n]
	if c == nil {
		return false, false
	}
	r.heard()
	size := int64(len(e.params))
	if len(c.events) >= maxEvents || c.held > 0 && c.held+size > maxHeld || !r.p.waiting.take(size) {
		return true, false
	}
	c.events, c.held = append(c.events, e), c.held+size
	c.signal()
	return true, true
}

// took records that the caller has taken an event.
func (r *front) took(c *call, e event) {
	size := int64(len(e.params))
	r.p.waiting.give(size)
	r.mu.Lock()
	defer r.mu.Unlock()
	c.held -= size
}

// result handles the outcome of a call. If the call is not open, the outcome arrived before; the owner is
// told again by the next pulse.
func (r *front) result(h *wire.Head, body []byte) {
	var err error
	if h.Error {
		body, err = nil, readError(body)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.heard()
	c := r.open[h.N]
	if c == nil && (h.N == 0 || h.N > r.p.numbers.Load() || len(r.done) >= maxDone) {
		return
	}
	r.done[h.N] = struct{}{}
	if c != nil {
		r.finish(c, body, err)
	}
}

// heard records that the owner is alive. The caller holds r.mu.
func (r *front) heard() {
	if r.heardOwner = time.Now(); !r.ended {
		r.unreachable = time.Time{}
	}
}

// confirmed handles the answer to a pulse.
func (r *front) confirmed(h *wire.Head) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.heard()
	for _, n := range h.NotReceived {
		if c := r.open[n]; c != nil {
			r.finish(c, nil, notSent(ErrNotReceived))
		}
	}
	for _, n := range h.Spent {
		if c := r.open[n]; c != nil {
			r.finish(c, nil, nodeLost("it ran the call, and its result is lost"))
		}
	}
}

// pulses returns the pulses that are due. It gives up calls whose owner is gone or silent. The caller holds
// r.mu.
func (r *front) pulses(now time.Time, paused time.Duration) (list []*wire.Head) {
	r.heardOwner = r.heardOwner.Add(paused)
	if len(r.open) > 0 {
		switch {
		case !r.unreachable.IsZero() && now.Sub(r.unreachable) > r.p.o.Grace:
			r.loseOpen("it has gone")
		case now.Sub(r.heardOwner) > r.p.o.Silence:
			r.loseOpen(fmt.Sprintf("it has said nothing for %v", r.p.o.Silence))
		}
	}
	if len(r.open) == 0 && !r.ended {
		r.unreachable = time.Time{}
	}
	if len(r.open)+len(r.done) == 0 {
		return nil
	}
	r.used = now
	open, low := make([]uint64, 0, len(r.open)), r.p.numbers.Load()+1
	for n, c := range r.open {
		if low = min(low, n); c.sent {
			open = append(open, n)
		}
	}
	slices.Sort(open)
	done := slices.Collect(maps.Keys(r.done))
	clear(r.done)
	for len(open)+len(done) > 0 {
		h := &wire.Head{Kind: wire.Pulse}
		h.Low = low
		h.Open, open = cut(open)
		h.Done, done = cut(done)
		list = append(list, h)
	}
	return list
}

func cut(list []uint64) (first, rest []uint64) {
	n := min(len(list), maxPerHead/2)
	return list[:n:n], list[n:]
}

// loseOpen gives up all open calls. The caller holds r.mu.
func (r *front) loseOpen(reason string) {
	for _, c := range r.open {
		r.done[c.n] = struct{}{} // in case the owner comes back
		r.finish(c, nil, nodeLost(reason))
	}
}

// lost gives up all calls for good.
func (r *front) lost(reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.loseOpen(reason)
	clear(r.done)
}
