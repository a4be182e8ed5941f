package quota

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// Counter is this host's part of a limit that hosts share. Its methods may be called by many
// goroutines at once.
type Counter struct {
	pool    *Pool
	claim   Claim         // without the lease
	turn    chan struct{} // holds a token while a lease is asked for
	lease   atomic.Pointer[lease]
	debt    atomic.Int64 // used when there was no lease
	filling atomic.Bool  // a lease is asked for ahead of need

	err   error     // a CounterError of the last that was asked; guarded by turn
	retry time.Time // with err: no lease is asked for before
}

// lease is what is left of the units of one window.
type lease struct {
	of, size int64
	ends     time.Time
	endsWall int64 // in nanoseconds since 1970
	left     atomic.Int64
	last     atomic.Bool // nobody gets more in this window
}

// over reports whether the window has ended. A machine that sleeps has its monotonic clock stand
// still, and one whose time is set has its other clock jump: the later one counts.
func (l *lease) over(now time.Time) bool { return !now.Before(l.ends) || now.UnixNano() >= l.endsWall }

// New returns a counter of the pool. Claim.Of and Claim.Held do not count.
func (p *Pool) New(c Claim) *Counter {
	c.Of, c.Held = 0, 0
	return &Counter{pool: p, claim: c, turn: make(chan struct{}, 1)}
}

// Taken are units that were taken and can be given back. Its zero value is none.
type Taken struct {
	from *lease
	n    int64
}

// Back gives the units back to this host.
func (t Taken) Back() {
	if t.from != nil {
		t.from.left.Add(t.n)
	}
}

// Take uses n units at once if one of them is left; more than one may be used beyond the limit. wait is
// 0, or without any left the time until the next window. An error says that the counter is needed
// and cannot be reached.
func (c *Counter) Take(ctx context.Context, now time.Time, n int64) (taken Taken, wait time.Duration, err error) {
	for {
		l := c.lease.Load()
		if l != nil && !l.over(now) {
			last := l.last.Load() // before what is left: it is said after the last units came
			if left, ok := l.take(n); ok {
				if left <= l.size/2 && !last {
					c.fillAhead()
				}
				return Taken{l, n}, 0, nil
			}
			if last {
				return Taken{}, l.ends.Sub(now), nil
			}
		}
		if err := c.fill(ctx, l); err != nil {
			return Taken{}, 0, err
		}
		now = time.Now()
	}
}

func (l *lease) take(n int64) (left int64, ok bool) {
	for {
		left = l.left.Load()
		if left <= 0 {
			return left, false
		}
		if l.left.CompareAndSwap(left, left-n) {
			return left - n, true
		}
	}
}

// Charge uses n units, also when none is left.
func (c *Counter) Charge(now time.Time, n int64) {
	l := c.lease.Load()
	if l == nil || l.over(now) {
		c.debt.Add(n)
		return
	}
	if left := l.left.Add(-n); left <= l.size/2 && !l.last.Load() {
		c.fillAhead()
	}
}

// over reports whether the counter may be forgotten: it has no units, or those of a window that has ended.
func (c *Counter) over(now time.Time) bool {
	l := c.lease.Load()
	return l == nil && len(c.turn) == 0 || l != nil && l.over(now)
}

// fillAhead asks for more before it is needed.
func (c *Counter) fillAhead() {
	if !c.filling.CompareAndSwap(false, true) {
		return
	}
	run := func() {
		defer c.filling.Store(false)
		ctx, cancel := context.WithTimeout(c.pool.closing, aheadTimeout)
		defer cancel()
		_ = c.fillWhere(ctx, func(l *lease) bool { return l.left.Load() <= l.size/2 }) // who needs it asks again
	}
	if !c.pool.ahead.Go(run) {
		c.filling.Store(false)
	}
}

// fill gets a lease for who found nothing in seen.
func (c *Counter) fill(ctx context.Context, seen *lease) error {
	return c.fillWhere(ctx, func(l *lease) bool { return l == seen && l.left.Load() <= 0 })
}

// fillWhere asks for a lease, unless another has got one while it waited and needs says so.
func (c *Counter) fillWhere(ctx context.Context, needs func(*lease) bool) error {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	l, claim := c.lease.Load(), c.claim
	claim.Debt = c.debt.Load()
	if l != nil {
		if !l.over(time.Now()) && (l.last.Load() || !needs(l)) {
			return nil
		}
		claim.Of, claim.Held = l.of, l.left.Load()
	}
	if c.err != nil && time.Now().Before(c.retry) {
		return c.err
	}
	got, err := c.pool.lease(ctx, claim)
	if err != nil {
		if one, ok := errors.AsType[*CounterError](err); ok {
			c.err, c.retry = one, time.Now().Add(retryAfter)
		}
		return err
	}
	c.err = nil
	units := got.Units - c.debt.Swap(0)
	if l != nil && l.of == got.Of && !l.over(time.Now()) {
		l.left.Add(units)
		l.last.Store(got.Last)
		return nil
	}
	next := &lease{of: got.Of, size: got.Size, ends: got.Ends, endsWall: got.Ends.UnixNano()}
	if l != nil && l.of == got.Of { // the end of the window has become known better
		units += l.left.Swap(0)
	}
	next.left.Store(units)
	next.last.Store(got.Last)
	c.lease.Store(next)
	return nil
}
