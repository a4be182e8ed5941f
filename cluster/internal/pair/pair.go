// Package pair carries calls between two runs of nodes so that each call has exactly one outcome,
// whatever the connection between them loses, doubles or delays.
//
// The caller's side of a pair is the front, the other side the owner. The front numbers its calls
// and names those that are open in a pulse. The owner runs a number at most once, refuses for ever
// a number that was named before its call came, and keeps results until the front has them.
package pair

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/exthost/exthost/cluster/internal/outbox"
	"github.com/exthost/exthost/cluster/internal/wire"
	"github.com/exthost/exthost/internal/concurrent/inflight"
	"github.com/exthost/exthost/protocol"
)

// Node is the node that has the pairs. Its methods may be called by many goroutines at once.
type Node interface {
	// Run carries a call of another run to an extension. client reaches the caller while the call
	// is in flight.
	Run(ctx context.Context, from wire.Address, h *wire.Head, body []byte, client protocol.Peer) ([]byte, error)
	// Incoming takes a request or notification for a session that belongs to no call.
	Incoming(ctx context.Context, from wire.Address, h *wire.Head, body []byte, notify bool) ([]byte, error)
	// Ended says that a session of another run has ended. It must not wait.
	Ended(from wire.Address, session string)
}

// Options of [Pairs]. Durations of 0 have their defaults.
type Options struct {
	Self   wire.Address
	Sender outbox.Sender // whose notTaken [Pairs.NotTaken] is called with when no run took a message
	Unsent error         // is in the errors of a Sender after which nobody gets the message
	Node   Node
	Log    *slog.Logger

	MaxBody  func(of wire.Address) int64 // the longest body that a run takes, in bytes
	Batches  func(to wire.Address) bool  // whether a run reads batches, see [wire.Messages]
	MaxCalls int                         // of other runs at once; default 1024

	Pulse   time.Duration // between pulses; default 250 ms
	Grace   time.Duration // that there may be no such run until its calls are lost; default 2 s
	Silence time.Duration // that a run may say nothing until its calls are lost; default 10 s
}

const (
	keepResult = 60 * time.Second // that a result waits to be confirmed
	keepAnswer = 60 * time.Second // that an answer waits to be asked for again
	idlePeer   = 2 * time.Minute  // after which nothing is kept of a run but its lowest number
	maxKept    = 64 << 20         // bytes of results and answers that wait
	maxWaiting = 64 << 20         // bytes of what extensions say, to callers who have not taken it yet
	maxBytes   = 256 << 20        // of bodies that arrive in parts; and of those that leave
	maxStreams = 1 << 13          // calls of no extension
	maxRuns    = 16               // of one node
	maxPast    = 4096             // runs of which the lowest number is kept
)

// Pairs are the pairs of one run with all others. Its methods may be called by many goroutines at
// once.
type Pairs struct {
	o       Options
	work    inflight.Gate // goroutines
	workers workers       // some of them
	ctx     context.Context
	cancel  context.CancelFunc

	numbers   atomic.Uint64 // of calls, asks and bodies
	kept      budget        // results and answers
	waiting   budget        // notifications and requests of extensions
	arriving  budget        // bodies in parts
	departing budget
	running   atomic.Int64 // calls of others
	streams   atomic.Int64 // calls of others of no extension
	receiving atomic.Int64 // bodies
	busy      atomic.Int64 // calls both ways
	outbox    *outbox.Outbox
	leaving   atomic.Bool
	counts    counters

	mu   sync.Mutex // guards what follows
	runs map[wire.Address]*peer
	past map[wire.Address]uint64 // the lowest number that may come, of runs that are not among runs
}

type counters struct{ resent, strange, lost atomic.Uint64 }

// Counts are totals since the start.
type Counts struct {
	Resent  uint64 // results that were sent again
	Strange uint64 // calls that never came to their owner
	Lost    uint64 // calls whose outcome is unknown
}

// New returns the pairs of a run. Run drives them.
func New(o Options) *Pairs {
	defaultTo(&o.MaxCalls, 1024)
	defaultTo(&o.Pulse, 250*time.Millisecond)
	defaultTo(&o.Grace, 2*time.Second)
	defaultTo(&o.Silence, 10*time.Second)
	p := &Pairs{
		o:         o,
		kept:      budget{limit: maxKept},
		waiting:   budget{limit: maxWaiting},
		arriving:  budget{limit: maxBytes},
		departing: budget{limit: maxBytes},
		runs:      make(map[wire.Address]*peer),
		past:      make(map[wire.Address]uint64),
	}
	p.workers.next, p.outbox = make(chan func()), outbox.New(o.Sender, o.Batches)
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

func defaultTo[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Run sends pulses and gives up what was lost, until ctx ends.
func (p *Pairs) Run(ctx context.Context) {
	tick := time.NewTicker(p.o.Pulse)
	defer tick.Stop()
	var sends sync.WaitGroup
	defer sends.Wait()
	sends.Go(func() { p.outbox.Run(ctx) })
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		p.workers.endOne()
		now := time.Now()
		paused := now.Sub(last) - p.o.Pulse // this process did not run, and heard nobody
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

// Leave refuses calls of others from now on.
func (p *Pairs) Leave() { p.leaving.Store(true) }

// Drain waits, after Leave, until those in flight have ended and their
// results are confirmed, or until ctx ends.
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

// Close ends all calls and waits for their goroutines until ctx ends: a client that is asked may not
// return.
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

// Receive takes a message of node from. It does not wait.
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

// handle takes a message whose body is complete.
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

// heard returns the pair with a run. A run that this one knows nothing of has one from its first
// call on.
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
	r.in.low, r.in.past = p.past[a], p.past[a]
	delete(p.past, a)
	p.runs[a] = r
	return r
}

// forget drops an idle pair.
func (p *Pairs) forget(r *peer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.runs, r.to)
	if len(p.past) >= maxPast {
		for a := range p.past {
			delete(p.past, a)
			break
		}
	}
	p.past[r.to] = r.in.next()
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

// Gone says that a run has ended or will not be heard any more: calls from there end. Calls there
// are lost after the grace: what it said before its end may still be on the way.
func (p *Pairs) Gone(run wire.Address) {
	p.mu.Lock()
	r := p.runs[run]
	p.mu.Unlock()
	if r != nil {
		r.in.abandon()
		r.asks.abandon()
		r.abandonBodies()
		if r.out.gone() { // a node that starts again and again has many runs
			p.forget(r)
		}
	}
}

// InFlight returns the number of calls to a run that have no outcome yet.
func (p *Pairs) InFlight(run wire.Address) int {
	p.mu.Lock()
	r := p.runs[run]
	p.mu.Unlock()
	if r == nil {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.out.open)
}

// Counts returns what has happened since the start.
func (p *Pairs) Counts() Counts {
	return Counts{p.counts.resent.Load(), p.counts.strange.Load(), p.counts.lost.Load()}
}

// Bye tells a run that a session has ended.
func (p *Pairs) Bye(to wire.Address, session string) {
	_ = p.peer(to).send(&wire.Head{Kind: wire.Bye, Request: wire.Request{Session: &wire.Session{ID: session}}}, nil)
}
