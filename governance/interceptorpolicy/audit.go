package interceptorpolicy

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/exthost/exthost/governance"
)

// Interceptors in mode audit are asked beside the exchange, which must not wait for what has no effect.
const (
	// patience is how long a decision waits for answers in mode audit, so that those of an interceptor
	// in health are in its trace. One that has exceeded it is not waited for until it answers in time.
	patience = 100 * time.Millisecond
	// maxAudits bounds the invocations of one interceptor that are under way, and maxAllAudits those of
	// all: a process takes 64 at once, of which those that decide need some.
	maxAudits, maxAllAudits = 16, 32
	// maxAudit bounds an invocation in an exchange without a deadline.
	maxAudit = time.Minute
)

// audits is what is known of the invocations of an interceptor in mode audit.
type audits struct {
	underWay atomic.Int64
	late     atomic.Bool  // an answer did not come in time, and none has since
	missed   atomic.Int64 // exchanges about which it was not asked, since it answered in time
}

// asked is an invocation in mode audit.
type asked struct {
	answer chan answer // has the answer once there is one; nil: the interceptor was not asked
	over   atomic.Bool // the decision waits no more, or the answer is there
}

// watch asks an interceptor in mode audit, on a goroutine that [Policy.Close] waits for.
func (r *run) watch(i *interceptor) *asked {
	p, a := r.p, new(asked)
	if !p.admits(i) {
		i.audits.missed.Add(1)
		return a
	}
	limit := maxAudit
	if deadline, ok := r.ctx.Deadline(); ok {
		limit = time.Until(deadline)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), limit)
	unhook := context.AfterFunc(p.ctx, cancel)
	// When the answer comes, the payload of the run may be another one.
	params, flow, exchange, began := r.params(i, limit), r.flow, r.x.ID, time.Now()
	answers := make(chan answer, 1)
	if p.asking.Go(func() {
		got := p.invoke(ctx, i, flow, params)
		unhook()
		cancel()
		p.release(i)
		if got.err == nil && time.Since(began) <= patience && i.audits.late.CompareAndSwap(true, false) {
			p.o.Log.Info("an interceptor in mode audit answers in time again", "interceptor", i.name,
				"exchanges_not_seen", i.audits.missed.Swap(0))
		}
		answers <- got
		if a.over.Swap(true) {
			p.tooLate(i, exchange, &got)
		}
	}) {
		a.answer = answers
		return a
	}
	unhook()
	cancel()
	p.release(i)
	return a
}

// patience returns for how long the decision waits for answers in mode audit: half of the time that is left
// where that is shorter, so that the decision does not end with it.
func (r *run) patience() time.Duration {
	if deadline, ok := r.ctx.Deadline(); ok {
		return min(patience, time.Until(deadline)/2)
	}
	return patience
}

// admits reports whether one more invocation of i may be under way, and counts it.
func (p *Policy) admits(i *interceptor) bool {
	own, all := i.audits.underWay.Add(1), p.audits.Add(1)
	if own <= maxAudits && all <= maxAllAudits {
		return true
	}
	p.release(i)
	return false
}

func (p *Policy) release(i *interceptor) {
	i.audits.underWay.Add(-1)
	p.audits.Add(-1)
}

// taken returns the answer to an invocation in mode audit. It waits for it until impatient is closed,
// unless earlier answers were late. Without an answer it says so.
func (r *run) taken(i *interceptor, a *asked, impatient <-chan struct{}) answer {
	if a.answer == nil {
		return answer{reason: fmt.Sprintf("%s was not asked: too many of its invocations are under way", i.name)}
	}
	if !i.audits.late.Load() {
		select {
		case got := <-a.answer:
			return got
		case <-impatient:
		case <-r.ctx.Done():
		}
	}
	if a.over.Swap(true) { // it has come meanwhile
		return <-a.answer
	}
	if r.ctx.Err() == nil && i.audits.late.CompareAndSwap(false, true) {
		r.p.o.Log.Warn("an interceptor in mode audit does not answer in time: exchanges go on without waiting for it",
			"interceptor", i.name,
			"next", "have it answer sooner, or leave it out of interceptors")
	}
	return answer{reason: i.name + " has not answered yet"}
}

// tooLate notes an answer in mode audit that no decision waits for any more.
func (p *Policy) tooLate(i *interceptor, exchange string, a *answer) {
	const would = "an interceptor in mode audit has answered too late for the trace of the exchange"
	switch {
	case p.ctx.Err() != nil:
	case a.err != nil:
		p.passedOver(i, fmt.Errorf("interceptor %s: %w", i.name, a.err))
	case a.blocks:
		p.o.Log.Info(would, "interceptor", i.name, "decision", exchange, "would", governance.Deny, "reason", a.reason)
	case a.payload != nil:
		p.o.Log.Info(would, "interceptor", i.name, "decision", exchange, "would", governance.Modify)
	}
}
