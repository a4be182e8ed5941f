package pair

import (
	"context"
	"maps"
	"sync/atomic"
	"time"

	"github.com/exthost/exthost/cluster/internal/wire"
	"github.com/exthost/exthost/protocol"
)

// owner is the state of the calls that a remote run makes at this node.
type owner struct {
	*channel
	asks       *asks
	calls      map[uint64]*run
	refused    map[uint64]struct{} // refused numbers from low on
	low        uint64              // numbers below are refused, except those in calls
	mayHaveRun uint64              // numbers below may have run, but their state is gone
	seen       uint64              // highest number seen

	unasked uint64    // the front no longer waits for calls below this number
	swept   uint64    // calls below this number have been ended
	sweptAt time.Time // time of the last sweep

	operations atomic.Int64 // running operations of the remote node's operators
}

// run is one incoming call.
type run struct {
	end     context.CancelFunc
	over    bool
	unasked bool   // nobody waits for the outcome
	failed  bool   // result is an error
	result  []byte // nil once dropped
	spent   bool   // the call may have run, and its result is dropped
	at      time.Time
	sent    time.Time // when the result was last sent
}

const (
	maxOperations  = 32        // running operations per remote run
	maxRefused     = 1 << 16   // individually refused numbers; beyond it, all numbers up to seen are refused
	maxUnconfirmed = 1 << 16   // calls that run, or whose results are unconfirmed
	maxNumber      = 1<<63 - 1 // larger numbers are refused, so that seen+1 does not overflow
)

// called handles a call.
func (r *owner) called(h *wire.Head, body []byte) {
	p := r.p
	running, most, full := &p.running, int64(p.o.MaxCalls),
		"the node has as many calls of others as cluster.max_calls allows"
	switch h.Extension {
	case "": // a forwarded HTTP request, which may wait long for its next event
		running, most, full = &p.streams, maxStreams,
			"the node answers as many requests of other nodes' clients as it can"
	// operations have their own limit, so that an approval is not blocked by the calls that wait for it
	case wire.Itself:
		running, most, full = &r.operations, maxOperations,
			"the node carries out as many operations of one node as it may"
	}
	if running.Add(1) > most {
		running.Add(-1)
		r.decline(h.N, full)
		return
	}
	// not derived from p.ctx, which would have to track all calls: endAll ends this context
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
		end() // endAll may have run before the call was added
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

// fresh reports whether call n may run. The caller holds r.mu.
func (r *owner) fresh(n uint64) bool {
	_, refused := r.refused[n]
	return n >= max(r.low, 1) && n <= maxNumber && !refused && r.calls[n] == nil && !r.forgotten
}

// decline refuses a call that has not run, with an error. Only its number is kept: if the error is lost, the answer to
// the next pulse reports the call as never received.
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

// ran sends the outcome of a call, and keeps it until the front confirms it.
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
			r.refuse(n) // the front may send the call again
		}
		r.mu.Unlock()
		return
	case one.spent: // the front was silent for so long that the call was canceled
		r.mu.Unlock()
		return
	}
	if one.spent = !r.p.kept.take(int64(len(result))); !one.spent {
		one.result = result
	}
	r.mu.Unlock()
	r.post(&wire.Head{Kind: wire.Result, N: n, Error: err != nil}, result, nil)
}

// drop discards the result of a call. The caller holds r.mu.
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
	if r.prune(); len(r.refused) > maxRefused/2 { // else pruning would be needed again soon
		r.low = r.seen + 1
		clear(r.refused)
	}
}

// prune removes refused numbers below low, which are refused anyway. The caller holds r.mu.
func (r *owner) prune() {
	maps.DeleteFunc(r.refused, func(n uint64, _ struct{}) bool { return n < r.low })
}

// sweep ends the calls that the front no longer waits for. As it visits all calls, it runs at most twice per
// pulse. The caller holds r.mu.
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

// cancelled handles a Cancel of a call.
func (r *owner) cancelled(h *wire.Head) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.heardFront = time.Now()
	r.unask(h.N)
}

// pulsed answers a pulse of the front.
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
		case one == nil && n < r.mayHaveRun:
			back.Spent = append(back.Spent, n)
		case one == nil && arriving[n], one != nil && leaving[n]: // on its way in parts, kept or not
		case one == nil:
			r.refuse(n)
			back.NotReceived = append(back.NotReceived, n)
		case one.spent:
			back.Spent = append(back.Spent, n)
		case one.over && now.Sub(one.sent) >= r.p.o.Pulse/2:
			one.sent = now
			again = append(again, outcome{n, one.failed, one.result})
		}
	}
	if len(back.NotReceived) > 0 {
		r.refuseBodies(func(call uint64) bool { return !r.fresh(call) })
	}
	r.mu.Unlock()
	_ = r.send(back, nil)
	for _, o := range again {
		_ = r.send(&wire.Head{Kind: wire.Result, N: o.n, Error: o.failed}, o.result)
	}
}

// overdue drops results that were not confirmed in time, and ends calls of a silent front. The caller holds
// r.mu.
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

// abandon ends the calls of a run that is gone.
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

// endAll ends all calls, because this node leaves.
func (r *owner) endAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.calls {
		one.end()
	}
}

// forgetBelow refuses all numbers below low and records that they may have run: a front that was considered
// gone may come back and ask for them. The caller holds r.mu.
func (r *owner) forgetBelow(low uint64) {
	r.mayHaveRun, r.low = max(r.mayHaveRun, low), max(r.low, low)
}

// owes reports whether calls are running or results are unconfirmed.
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

// next returns the lowest number that may still arrive.
func (r *owner) next() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return max(r.low, r.seen+1)
}
