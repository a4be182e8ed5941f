package quota

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// Counter is this host's share of a cluster-wide limit. Its methods may be called concurrently.
type Counter struct {
	pool    *Pool
	claim   Claim         // without Of, Held and Debt
	turn    chan struct{} // holds a token during a request for a lease
	lease   atomic.Pointer[lease]
	debt    atomic.Int64 // units used without a lease
	filling atomic.Bool  // a lease is requested ahead of need

	err   error     // CounterError of the last request; guarded by turn
	retry time.Time // with err: no request before this time
}

// lease holds the remaining units of one window.
type lease struct {
	of, size int64
	ends     time.Time
	endsWall int64 // Unix nanoseconds
	left     atomic.Int64
	last     atomic.Bool // no units are left for anybody in this window
}

// over reports whether the window has ended, by either clock: the monotonic clock stops while the machine is
// suspended, and the wall clock can be set.
func (l *lease) over(now time.Time) bool { return !now.Before(l.ends) || now.UnixNano() >= l.endsWall }

// New returns a counter of the pool. It ignores Claim.Of and Claim.Held.
func (p *Pool) New(c Claim) *Counter {
	c.Of, c.Held = 0, 0
	return &Counter{pool: p, claim: c, turn: make(chan struct{}, 1)}
}

// Taken holds units that can be given back. Its zero value holds none.
type Taken struct {
	from *lease
	n    int64
}

// Back returns the units to the lease they were taken from.
func (t Taken) Back() {
	if t.from != nil {
		t.from.left.Add(t.n)
	}
}

// Take takes n units if at least one is left, so the total may exceed the limit by n-1. If none is
// left, it takes none, and wait is the time until the next window. It fails if the counter cannot
// be reached.
func (c *Counter) Take(ctx context.Context, now time.Time, n int64) (taken Taken, wait time.Duration, err error) {
	for {
		l := c.lease.Load()
		if l != nil && !l.over(now) {
			last := l.last.Load() // read before take, because fillWhere sets last after it has added the last units
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

// Charge takes n units, even if fewer are left.
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

// over reports whether the counter can be dropped: it has no lease, or only one of an earlier window.
func (c *Counter) over(now time.Time) bool {
	l := c.lease.Load()
	return l == nil && len(c.turn) == 0 || l != nil && l.over(now)
}

// fillAhead requests a lease in the background.
func (c *Counter) fillAhead() {
	if !c.filling.CompareAndSwap(false, true) {
		return
	}
	run := func() {
		defer c.filling.Store(false)
		ctx, cancel := context.WithTimeout(c.pool.closing, aheadTimeout)
		defer cancel()
		_ = c.fillWhere(ctx, func(l *lease) bool { return l.left.Load() <= l.size/2 }) // Take tries again
	}
	if !c.pool.ahead.Go(run) {
		c.filling.Store(false)
	}
}

// fill requests a lease after seen, the current one, was found empty.
func (c *Counter) fill(ctx context.Context, seen *lease) error {
	return c.fillWhere(ctx, func(l *lease) bool { return l == seen && l.left.Load() <= 0 })
}

// fillWhere requests a lease, unless needs returns false for the current lease, which a concurrent
// request may have filled.
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
	c.add(l, got)
	return nil
}

// add adds the units of got to l, the current lease, or replaces l if its window is over.
func (c *Counter) add(l *lease, got Lease) {
	units := got.Units - c.debt.Swap(0)
	if l != nil && l.of == got.Of && !l.over(time.Now()) {
		l.left.Add(units)
		l.last.Store(got.Last)
		return
	}
	next := &lease{of: got.Of, size: got.Size, ends: got.Ends, endsWall: got.Ends.UnixNano()}
	if l != nil && l.of == got.Of { // the estimate of the window's end has improved
		units += l.left.Swap(0)
	}
	next.left.Store(units)
	next.last.Store(got.Last)
	c.lease.Store(next)
}
