package pair

import (
	"context"
	"maps"
	"sync/atomic"
	"time"

	"github.com/exthost/exthost/cluster/internal/wire"
	"github.com/exthost/exthost/protocol"
)

// owner is what a run knows of the calls of another here.
type owner struct {
	*channel
	asks    *asks
	calls   map[uint64]*run
	refused map[uint64]struct{} // numbers that were named before their call came
	low     uint64              // numbers below are refused, but for those in calls
	past    uint64              // numbers below may have run, though nothing is known of them any more
	seen    uint64              // the highest number

	unasked uint64    // the front waits for none below
	swept   uint64    // the calls below have been ended
	sweptAt time.Time // at which time

	operations atomic.Int64 // of its operators that are carried out
}

// run is one call of another run here.
type run struct {
	end     context.CancelFunc
	over    bool
	unasked bool   // nobody waits for the outcome
	failed  bool   // result is an error
	result  []byte // nil once it was dropped
	spent   bool   // it ran, and the result is dropped
	at      time.Time
	sent    time.Time // the result last
}

const (
	maxOperations  = 32        // of the operators of one run at once
	maxRefused     = 1 << 16   // numbers that are refused one by one; beyond, all up to the highest are
	maxUnconfirmed = 1 << 16   // calls that run or whose results the front has not confirmed
	maxNumber      = 1<<63 - 1 // all above are refused, so that there is a number behind the highest
)

// called takes a call.
func (r *owner) called(h *wire.Head, body []byte) {
	p := r.p
	running, most, full := &p.running, int64(p.o.MaxCalls),
		"the node has as many calls of others as cluster.max_calls allows"
	switch h.Extension {
	case "": // a request of a client, which waits for its next event
		running, most, full = &p.streams, maxStreams,
			"the node answers as many requests of other nodes' clients as it can"
	// what calls wait for, such as an approval, finds room beside them, and beside what a third node wants
	case wire.Itself:
		running, most, full = &r.operations, maxOperations,
			"the node carries out as many operations of one node as it may"
	}
	if running.Add(1) > most {
		running.Add(-1)
		r.decline(h.N, full)
		return
	}
	// endAll ends it: not a child of p.ctx, which would have to know all calls
	ctx, end := context.Background(), context.CancelFunc(nil)
	if h.LeftMS > 0 {
		ctx, end = context.WithTimeout(ctx, time.Duration(h.LeftMS)*time.Millisecond)
	} else {
		ctx, end = context.WithCancel(ctx)
	}
	one, now := &run{end: end}, time.Now()
	r.mu.Lock()
	r.heardFront, r.used = now, now
	fresh, unconfirmed := r.fresh(h.N), len(r.calls) >= maxUnconfirmed
	if fresh && !unconfirmed {
		r.calls[h.N], r.seen = one, max(r.seen, h.N)
	}
	r.mu.Unlock()
	if p.ctx.Err() != nil {
		end() // endAll has been here before
	}
	switch {
	case !fresh:
	case unconfirmed:
		r.decline(h.N, "the caller's node has not confirmed its results")
	case p.leaving.Load() && h.Extension != "" || !p.goCall(func() {
		defer end()
		p.busy.Add(1)
		result, err := p.o.Node.Run(ctx, r.to, h, body, r.asks.caller(h))
		running.Add(-1)
		r.ran(h.N, one, result, err)
		p.busy.Add(-1)
	}):
		r.ran(h.N, one, nil, protocol.Errorf(protocol.ShuttingDown, "the node leaves the cluster"))
	default:
		return
	}
	running.Add(-1)
	end()
}

// fresh reports whether a number may run. The caller holds r.mu.
func (r *owner) fresh(n uint64) bool {
	_, refused := r.refused[n]
	return n >= max(r.low, 1) && n <= maxNumber && !refused && r.calls[n] == nil && !r.forgotten
}

// decline refuses a call that has not run. Nothing is kept of it: should the word be lost, it is
// strange at the next pulse.
func (r *owner) decline(n uint64, text string) {
	r.mu.Lock()
	fresh := r.fresh(n)
	if fresh {
		r.refuse(n)
	}
	r.mu.Unlock()
	if fresh {
		_ = r.send(&wire.Head{Kind: wire.Result, N: n, Error: true},
			writeError(protocol.Errorf(protocol.Overloaded, "%s", text)))
	}
}

// ran takes the outcome of a call, sends it, and keeps it until the front has it.
func (r *owner) ran(n uint64, one *run, result []byte, err error) {
	if limit := r.p.o.MaxBody(r.to); err == nil && int64(len(result)) > limit {
		result, err = nil, &protocol.Error{
			Kind:    protocol.LineTooLong,
			Outcome: outcomeUnknown,
			Message: "the result is longer than the caller's node takes; the tool should return less",
		}
	}
	if err != nil {
		result = writeError(err)
	}
	now := time.Now()
	r.mu.Lock()
	one.over, one.failed, one.at, one.sent = true, err != nil, now, now
	known := r.calls[n] == one
	switch {
	case one.unasked || !known:
		if known {
			delete(r.calls, n)
			r.refuse(n) // it may come again
		}
		r.mu.Unlock()
		return
	case one.spent: // nobody has asked for it for so long that it was cancelled
		r.mu.Unlock()
		return
	}
	if one.spent = !r.p.kept.take(int64(len(result))); !one.spent {
		one.result = result
	}
	r.mu.Unlock()
	r.post(&wire.Head{Kind: wire.Result, N: n, Error: err != nil}, result, nil)
}

// drop forgets the result of a call. The caller holds r.mu.
func (r *owner) drop(one *run) {
	r.p.kept.give(int64(len(one.result)))
	one.result = nil
}

// unask ends a call whose outcome nobody waits for. The caller holds r.mu.
func (r *owner) unask(n uint64) {
	one := r.calls[n]
	switch {
	case one == nil:
		if n >= r.low {
			r.refuse(n)
		}
	case one.over:
		r.drop(one)
		delete(r.calls, n)
		r.refuse(n)
	default:
		one.unasked = true
		one.end()
	}
}

// refuse refuses a number for ever. The caller holds r.mu.
func (r *owner) refuse(n uint64) {
	if n < r.low || n > maxNumber {
		return
	}
	r.refused[n] = struct{}{}
	r.seen = max(r.seen, n)
	if len(r.refused) < maxRefused {
		return
	}
	if r.prune(); len(r.refused) > maxRefused/2 { // or the next one may cost as much
		r.low = r.seen + 1
		clear(r.refused)
	}
}

// prune forgets what is refused as a number below low. The caller holds r.mu.
func (r *owner) prune() {
	maps.DeleteFunc(r.refused, func(n uint64, _ struct{}) bool { return n < r.low })
}

// sweep ends the calls that the front waits for no more, at most twice in the time between two pulses:
// it looks at all. The caller holds r.mu.
func (r *owner) sweep(now time.Time) {
	if r.swept == r.unasked || now.Sub(r.sweptAt) < r.p.o.Pulse/2 {
		return
	}
	r.swept, r.sweptAt = r.unasked, now
	for n := range r.calls {
		if n < r.unasked {
			r.unask(n)
		}
	}
	r.prune()
}

// cancelled takes the word that a caller waits no more.
func (r *owner) cancelled(h *wire.Head) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.heardFront = time.Now()
	r.unask(h.N)
}

// pulsed takes a pulse of the front, and answers it.
func (r *owner) pulsed(h *wire.Head) {
	back := &wire.Head{Kind: wire.Pulsed}
	type outcome struct {
		n      uint64
		failed bool
		result []byte
	}
	var again []outcome
	now := time.Now()
	r.mu.Lock()
	r.heardFront, r.used = now, now
	for _, n := range h.Done {
		r.unask(n)
	}
	r.low, r.unasked = max(r.low, h.Low), max(r.unasked, h.Low)
	r.sweep(now)
	arriving, leaving := r.arrivingCalls(now), r.leavingResults(now)
	for _, n := range h.Open {
		switch one := r.calls[n]; {
		case one == nil && n < r.past:
			back.Spent = append(back.Spent, n)
		case one == nil && arriving[n], one != nil && leaving[n]: // a result may be too long to be kept
		case one == nil:
			r.refuse(n)
			back.Strange = append(back.Strange, n)
		case one.spent:
			back.Spent = append(back.Spent, n)
		case one.over && now.Sub(one.sent) >= r.p.o.Pulse/2:
			one.sent = now
			again = append(again, outcome{n, one.failed, one.result})
		}
	}
	if len(back.Strange) > 0 {
		r.refuseBodies(func(call uint64) bool { return !r.fresh(call) })
	}
	r.mu.Unlock()
	_ = r.send(back, nil)
	for _, o := range again {
		r.p.counts.resent.Add(1)
		_ = r.send(&wire.Head{Kind: wire.Result, N: o.n, Error: o.failed}, o.result)
	}
}

// overdue drops results that nobody has confirmed for too long, and ends calls of a front that is
// silent. The caller holds r.mu.
func (r *owner) overdue(now time.Time, paused time.Duration) {
	r.heardFront = r.heardFront.Add(paused)
	r.sweep(now)
	silent := now.Sub(r.heardFront) > r.p.o.Silence
	for n, one := range r.calls {
		switch {
		case one.over && now.Sub(one.at) > keepResult+r.p.o.Silence:
			r.drop(one)
			delete(r.calls, n)
			r.forgetBelow(n + 1)
		case one.over && !one.spent && now.Sub(one.at) > keepResult:
			r.drop(one)
			one.spent = true
		case !one.over && silent && !one.spent:
			one.spent = true
			one.end()
		}
	}
}

// abandon ends the calls of a run that has gone.
func (r *owner) abandon() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for n, one := range r.calls {
		if one.over {
			r.drop(one)
			delete(r.calls, n)
		} else {
			one.unasked = true
			one.end()
		}
	}
	r.forgetBelow(r.seen + 1)
}

// endAll ends the calls when this node leaves.
func (r *owner) endAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.calls {
		one.end()
	}
}

// forgetBelow refuses all numbers below low, some of which have run: a front that was taken for gone
// comes back with calls that are open. The caller holds r.mu.
func (r *owner) forgetBelow(low uint64) {
	r.past, r.low = max(r.past, low), max(r.low, low)
}

// owes reports whether calls run or results wait here.
func (r *owner) owes() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.calls {
		if !one.spent {
			return true
		}
	}
	return false
}

// next returns the lowest number that may still come.
func (r *owner) next() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return max(r.low, r.seen+1)
}
