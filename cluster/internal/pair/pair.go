// Package pair carries calls between two runs so that each call has exactly one outcome, even if messages are lost,
// duplicated or delayed.
//
// The front is the run that makes a call, the owner the run that executes it. The front numbers its calls and
// periodically sends a pulse with the numbers of its open calls. The owner executes each number at most once, and keeps
// the result until the front confirms it. If a pulse names a call that has not arrived, the owner refuses its number
// for ever.
package pair

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/exthost/exthost/cluster/internal/wire"
	"github.com/exthost/exthost/internal/concurrent"
	"github.com/exthost/exthost/protocol"
)

// Node serves the calls and requests of remote runs. Its methods may be called concurrently.
type Node interface {
	// Run executes a call of a remote run. client reaches the caller while the call is in flight.
	Run(ctx context.Context, from wire.Address, h *wire.Head, body []byte, client protocol.Peer) ([]byte, error)
	// Incoming handles a request or notification for a session, outside of calls.
	Incoming(ctx context.Context, from wire.Address, h *wire.Head, body []byte, notify bool) ([]byte, error)
	// Ended reports the end of a remote session. It must not block.
	Ended(from wire.Address, session string)
}

// Options configures [Pairs].
type Options struct {
	Self   wire.Address
	Sender Sender // must report to [Pairs.NotTaken]
	Unsent error  // wrapped by Sender errors which guarantee that nobody gets the message
	Node   Node
	Log    *slog.Logger

	MaxBody  func(of wire.Address) int64 // maximum body that a run accepts, in bytes
	Batches  func(to wire.Address) bool  // reports whether a run reads batches, see [wire.Messages]
	MaxCalls int                         // concurrent incoming calls; default 1024

	Pulse   time.Duration // interval of pulses; default 250 ms
	Grace   time.Duration // how long a run may be unreachable before its calls fail with node_lost; default 2 s
	Silence time.Duration // how long a run may be silent before its calls fail with node_lost; default 10 s
}

const (
	keepResult = 60 * time.Second // how long an unconfirmed result is kept
	keepAnswer = 60 * time.Second // how long an answer is kept, in case it is requested again
	idlePeer   = 2 * time.Minute  // idle time after which a pair is dropped, except for its lowest acceptable number
	maxKept    = 64 << 20         // bytes of kept results and answers
	maxWaiting = 64 << 20         // bytes of notifications and requests that callers have not taken yet
	maxBytes   = 256 << 20        // bytes of incoming bodies in parts; the same for outgoing ones
	maxStreams = 1 << 13          // concurrent forwarded HTTP requests
	maxRuns    = 16               // runs per node
	maxDropped = 4096             // dropped runs whose lowest acceptable number is kept
)

// Pairs holds the pairs of one run with all remote runs. Its methods may be called concurrently.
type Pairs struct {
	o       Options
	work    concurrent.Gate // all goroutines
	workers workers         // goroutines of incoming calls
	ctx     context.Context
	cancel  context.CancelFunc

	numbers   atomic.Uint64 // the last number of a call, ask or body
	kept      budget        // bytes of results and answers
	waiting   budget        // bytes of notifications and requests of extensions
	arriving  budget        // bytes of bodies in parts
	departing budget
	running   atomic.Int64 // incoming calls
	streams   atomic.Int64 // incoming HTTP requests
	receiving atomic.Int64 // incoming bodies
	busy      atomic.Int64 // calls in both directions
	outbox    *outbox
	leaving   atomic.Bool

	mu      sync.Mutex // guards what follows
	runs    map[wire.Address]*peer
	dropped map[wire.Address]uint64 // lowest acceptable number by dropped run
}

// New returns the pairs of run o.Self. Run must be called for them to work.
func New(o Options) *Pairs {
	o.MaxCalls = cmp.Or(o.MaxCalls, 1024)
	o.Pulse = cmp.Or(o.Pulse, 250*time.Millisecond)
	o.Grace = cmp.Or(o.Grace, 2*time.Second)
	o.Silence = cmp.Or(o.Silence, 10*time.Second)
	p := &Pairs{
		o:         o,
		kept:      budget{limit: maxKept},
		waiting:   budget{limit: maxWaiting},
		arriving:  budget{limit: maxBytes},
		departing: budget{limit: maxBytes},
		runs:      make(map[wire.Address]*peer),
		dropped:   make(map[wire.Address]uint64),
	}
	p.workers.next, p.outbox = make(chan func()), newOutbox(o.Sender, o.Batches)
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// Run sends pulses and does the other periodic work until ctx ends.
func (p *Pairs) Run(ctx context.Context) {
	tick := time.NewTicker(p.o.Pulse)
	defer tick.Stop()
	var sends sync.WaitGroup
	defer sends.Wait()
	sends.Go(func() { p.outbox.run(ctx) })
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		p.workers.endOne()
		now := time.Now()
		paused := now.Sub(last) - p.o.Pulse // this process was suspended and could not receive anything
		if last = now; paused < p.o.Silence/4 {
			paused = 0
		}
		for _, r := range p.all() {
			if r.tick(now, paused) {
				p.forget(r)
			}
		}
	}
}

// Leave makes the pairs refuse incoming calls, except for those of forwarded HTTP requests.
func (p *Pairs) Leave() { p.leaving.Store(true) }

// Drain waits, after Leave, until the incoming calls have ended and their results are confirmed, or ctx ends.
func (p *Pairs) Drain(ctx context.Context) {
	tick := time.NewTicker(p.o.Pulse / 10)
	defer tick.Stop()
	for ctx.Err() == nil && p.owes() {
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

func (p *Pairs) owes() bool {
	for _, r := range p.all() {
		if r.in.owes() {
			return true
		}
	}
	return false
}

// Close ends all calls, and waits for their goroutines until ctx ends: a client may never return from a request of an
// extension.
func (p *Pairs) Close(ctx context.Context) error {
	p.cancel()
	for _, r := range p.all() {
		r.out.lost("this node leaves the cluster")
		r.in.endAll()
	}
	select {
	case <-p.work.Close():
		return nil
	case <-ctx.Done():
		return fmt.Errorf("calls of other nodes, or questions of theirs, have not ended: %w", ctx.Err())
	}
}

// Receive handles a message of node from. It does not block.
func (p *Pairs) Receive(from string, h *wire.Head, body []byte) {
	r := p.heard(wire.Address{Node: from, Run: h.Run}, h.Kind)
	switch {
	case r == nil:
	case h.Kind == wire.Part:
		if h, body = r.part(h, body); h != nil {
			r.handle(h, body)
		}
	case h.Kind == wire.Credit:
		r.credit(h)
	case h.Body != 0:
		if !r.begin(h) && h.Kind == wire.Call {
			r.in.decline(h.N, "the node has as many bodies under way as it takes at once")
		}
	default:
		r.handle(h, body)
	}
}

// handle handles a message with a complete body.
func (r *peer) handle(h *wire.Head, body []byte) {
	switch h.Kind {
	case wire.Call:
		r.in.called(h, body)
	case wire.Pulse:
		r.in.pulsed(h)
	case wire.Cancel:
		if h.ID != 0 {
			r.asks.cancelled(h)
		} else {
			r.in.cancelled(h)
		}
	case wire.Bye:
		if h.Session != nil {
			r.p.o.Node.Ended(r.to, h.Session.ID)
		}
	case wire.Result:
		r.out.result(h, body)
	case wire.Pulsed:
		r.out.confirmed(h)
	case wire.Tell:
		r.asks.told(h, body)
	case wire.Ask:
		r.asks.asked(h, body)
	case wire.Answer:
		r.asks.answered(h, body)
	}
}

// heard returns the pair with a run, or nil. A new pair is only created for a call or a pulse.
func (p *Pairs) heard(from wire.Address, kind string) *peer {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.runs[from]
	if r != nil || kind != wire.Call && kind != wire.Pulse {
		return r
	}
	n := 0
	for other := range p.runs {
		if other.Node == from.Node {
			n++
		}
	}
	if n >= maxRuns {
		return nil // a node has one run, and a few that have ended
	}
	return p.add(from)
}

func (p *Pairs) peer(to wire.Address) *peer {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r := p.runs[to]; r != nil {
		return r
	}
	return p.add(to)
}

func (p *Pairs) add(a wire.Address) *peer {
	r := newPeer(p, a)
	r.in.low, r.in.mayHaveRun = p.dropped[a], p.dropped[a]
	delete(p.dropped, a)
	p.runs[a] = r
	return r
}

// forget drops an idle pair.
func (p *Pairs) forget(r *peer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.runs, r.to)
	if len(p.dropped) >= maxDropped {
		for a := range p.dropped {
			delete(p.dropped, a)
			break
		}
	}
	p.dropped[r.to] = r.in.next()
	r.asks.drop()
}

func (p *Pairs) all() []*peer {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := make([]*peer, 0, len(p.runs))
	for _, r := range p.runs {
		list = append(list, r)
	}
	return list
}

// Gone tells the pairs that a run has ended or will not be heard again. Its calls end at once. Calls to it fail only
// after the grace period, since its last messages may still arrive.
func (p *Pairs) Gone(run wire.Address) {
	p.mu.Lock()
	r := p.runs[run]
	p.mu.Unlock()
	if r != nil {
		r.in.abandon()
		r.asks.abandon()
		r.abandonBodies()
		if r.out.gone() { // else a node that restarts repeatedly would leave many runs behind
			p.forget(r)
		}
	}
}

// Bye tells a run that a session has ended.
func (p *Pairs) Bye(to wire.Address, session string) {
	_ = p.peer(to).send(&wire.Head{Kind: wire.Bye, Request: wire.Request{Session: &wire.Session{ID: session}}}, nil)
}

// budget bounds the bytes that all pairs together use for one purpose.
type budget struct {
	limit int64
	used  atomic.Int64
}

// take reserves n bytes until give, or reports false if they exceed the limit.
func (b *budget) take(n int64) bool {
	if b.used.Add(n) > b.limit {
		b.used.Add(-n)
		return false
	}
	return true
}

func (b *budget) give(n int64) { b.used.Add(-n) }

// workers run incoming calls on goroutines that wait for further calls: a call needs a deep stack, which a
// new goroutine would have to grow in several steps.
type workers struct {
	next chan func() // unbuffered: only a waiting worker receives
}

// run runs f on a waiting worker. It reports false if there is none.
func (w *workers) run(f func()) bool {
	select {
	case w.next <- f:
		return true
	default:
		return false
	}
}

// work runs f and further functions until ctx ends or endOne stops the worker.
func (w *workers) work(ctx context.Context, f func()) {
	for f != nil {
		f()
		select {
		case f = <-w.next:
		case <-ctx.Done():
			return
		}
	}
}

// endOne ends one waiting worker, if there is one.
func (w *workers) endOne() { w.run(nil) }

// goCall runs f for an incoming call. It reports false once the pairs are closed.
func (p *Pairs) goCall(f func()) bool {
	return p.workers.run(f) || p.work.Go(func() { p.workers.work(p.ctx, f) })
}
