package pair

import (
	"context"
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

// maxRefused bounds the numbers that are refused one by one. Beyond, all below the highest are.
const maxRefused = 1 << 16

// called takes a call.
func (r *owner) called(h *wire.Head, body []byte) {
	p := r.p
	ctx, end := p.ctx, context.CancelFunc(nil)
	if h.LeftMS > 0 {
		ctx, end = context.WithTimeout(ctx, time.Duration(h.LeftMS)*time.Millisecond)
	} else {
		ctx, end = context.WithCancel(ctx)
	}
	one := &run{end: end}
	r.mu.Lock()
	r.heardFront, r.used = time.Now(), time.Now()
	_, refused := r.refused[h.N]
	if h.N < max(r.low, 1) || refused || r.calls[h.N] != nil {
		r.mu.Unlock()
		end()
		return
	}
	r.calls[h.N], r.seen = one, max(r.seen, h.N)
	r.mu.Unlock()
	refuse := func(kind protocol.Kind, text string) {
		end()
		r.ran(h.N, one, nil, protocol.Errorf(kind, "%s", text))
	}
	switch running := p.running.Add(1); {
	case p.leaving.Load():
		p.running.Add(-1)
		refuse(protocol.ShuttingDown, "the node leaves the cluster")
	case running > int64(p.o.MaxCalls):
		p.running.Add(-1)
		refuse(protocol.Overloaded, "the node has as many calls of others as cluster.max_calls allows")
	case !p.work.Go(func() {
		defer end()
		result, err := p.o.Node.Run(ctx, r.to, h, body, r.asks.caller(h.N))
		p.running.Add(-1)
		r.ran(h.N, one, result, err)
	}):
		p.running.Add(-1)
		refuse(protocol.ShuttingDown, "the node leaves the cluster")
	}
}

// ran takes the outcome of a call, sends it, and keeps it until the front has it.
func (r *owner) ran(n uint64, one *run, result []byte, err error) {
	if limit := r.p.o.MaxBody(r.to); err == nil && int64(len(result)) > limit {
		result, err = nil, &protocol.Error{Kind: protocol.LineTooLong, Outcome: outcomeUnknown, Message: "the result is longer than the caller's node takes; the tool should return less"}
	}
	if err != nil {
		result = writeError(err)
	}
	r.mu.Lock()
	one.over, one.failed, one.at, one.sent = true, err != nil, time.Now(), time.Now()
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
	if r.p.kept.Add(int64(len(result))) > maxKept {
		r.p.kept.Add(-int64(len(result)))
		one.spent = true
	} else {
		one.result = result
	}
	r.mu.Unlock()
	_ = r.send(&wire.Head{Kind: wire.Result, N: n, Error: err != nil}, result, "")
}

// drop forgets the result of a call. The caller holds r.mu.
func (r *owner) drop(one *run) {
	r.p.kept.Add(-int64(len(one.result)))
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
	if n < r.low {
		return
	}
	if len(r.refused) >= maxRefused {
		r.raise(r.seen + 1)
	}
	r.refused[n] = struct{}{}
	r.seen = max(r.seen, n)
}

// raise refuses all numbers below low. The caller holds r.mu.
func (r *owner) raise(low uint64) {
	r.low = max(r.low, low)
	for n := range r.refused {
		if n < r.low {
			delete(r.refused, n)
		}
	}
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
	if h.Low > r.low {
		for n := range r.calls {
			if n < h.Low {
				r.unask(n)
			}
		}
		r.raise(h.Low)
	}
	for _, n := range h.Open {
		switch one := r.calls[n]; {
		case one == nil && n < r.past:
			back.Spent = append(back.Spent, n)
		case one == nil && r.arrives(n, now):
		case one == nil:
			r.refuseBody(n)
			r.refuse(n)
			back.Strange = append(back.Strange, n)
		case one.spent:
			back.Spent = append(back.Spent, n)
		case one.over && now.Sub(one.sent) >= r.p.o.Pulse/2 && !r.leaves(n, now):
			one.sent = now
			again = append(again, outcome{n, one.failed, one.result})
		}
	}
	r.mu.Unlock()
	_ = r.send(back, nil, "")
	for _, o := range again {
		r.p.counts.resent.Add(1)
		_ = r.send(&wire.Head{Kind: wire.Result, N: o.n, Error: o.failed}, o.result, "")
	}
}

// overdue drops results that nobody has confirmed for too long, and ends calls of a front that is
// silent. The caller holds r.mu.
func (r *owner) overdue(now time.Time, paused time.Duration) {
	r.heardFront = r.heardFront.Add(paused)
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

// forgetBelow refuses all numbers below low, some of which have run: a front that was taken for gone
// comes back with calls that are open. The caller holds r.mu.
func (r *owner) forgetBelow(low uint64) {
	r.past = max(r.past, low)
	r.raise(low)
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
