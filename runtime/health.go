package runtime

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/protocol"
)

// pingTimeout bounds the answer to a ping. A shorter health_interval takes its place.
const pingTimeout = 5 * time.Second

// maxMisses is the number of unanswered pings in a row that ends the run.
const maxMisses = 2

// maxUnanswered is the number of calls in a row without an answer after which the child is
// pinged. It is the threshold of the breaker.
const maxUnanswered = 5

// health knows whether the child must be pinged.
type health struct {
	mu       sync.Mutex // guards what follows
	calls    int        // in a row that ended without an answer
	answered uint64     // answers of the child until the latest such call
	doubt    *doubt     // while the child is pinged, of which there is one at a time
}

// doubt is how the child was when the pings began.
type doubt struct {
	since    time.Time
	calls    int    // in a row without an answer; 0: the pings come of health_interval
	answered uint64 // answers of the child
	taken    int    // bytes that it had read from its stdin
	read     uint64 // bytes of its output that the host had read
	missed   int    // pings in a row; guarded by health.mu
}

// unanswered counts a call without an answer, and reports whether it was the last of
// maxUnanswered. answered is the number of the child's answers so far.
func (h *health) unanswered(answered uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if answered != h.answered {
		h.calls, h.answered = 0, answered
	}
	if h.calls++; h.calls < maxUnanswered {
		return false
	}
	h.calls = 0
	return true
}

// begin notes the doubt d, and reports false if there is one already.
func (h *health) begin(d *doubt) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.doubt != nil {
		return false
	}
	h.doubt = d
	return true
}

// end ends the doubt.
func (h *health) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.doubt = nil
}

// miss notes how many pings in a row have been missed.
func (h *health) miss(d *doubt, n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	d.missed = n
}

// pingLimit returns the longest time that an answer to a ping may take.
func (c *child) pingLimit() time.Duration {
	limit := cmp.Or(c.spec.pingTimeout, pingTimeout)
	if every := c.spec.Options.HealthInterval; every > 0 {
		limit = min(limit, every)
	}
	return limit
}

// watchHealth pings the child every health_interval, if there is one.
func (c *child) watchHealth(ctx context.Context) {
	ticker := time.NewTicker(c.spec.Options.HealthInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			c.ping(c.pingLimit(), 0)
		}
	}
}

// hangs has the child pinged after a call that timed out, with recycle_on_hang.
func (c *child) hangs() {
	if c.spec.Options.RecycleOnHang {
		c.suspect(c.pingLimit(), 1)
	}
}

// leavesUnanswered counts a call without an answer. After maxUnanswered of them the child is
// pinged. Without call_timeout a call may take any time.
func (c *child) leavesUnanswered() {
	if c.health.unanswered(c.conn.Stats().Answered) && c.spec.Options.CallTimeout > 0 {
		c.suspect(c.patience()/maxMisses, maxUnanswered)
	}
}

// patience returns the time that all pings take together. A child that works on one call at
// a time answers a ping behind a call that takes call_timeout. So it may answer nothing for
// twice that time, and a child that has answered calls out of order for call_timeout.
func (c *child) patience() time.Duration {
	limit := c.spec.Options.CallTimeout
	quiet := limit
	if !c.conn.Stats().OutOfOrder {
		quiet *= 2
	}
	return max(maxMisses*cmp.Or(c.spec.pingTimeout, pingTimeout), min(limit, quiet-c.conn.Quiet()))
}

// suspect pings the child in a task, after calls without an answer. A child that is healthy
// has no goroutine for pings.
func (c *child) suspect(limit time.Duration, calls int) {
	if c.handshake.Load() != nil {
		c.tasks.Go(func() { c.ping(limit, calls) })
	}
}

// newDoubt returns a doubt that begins now.
func (c *child) newDoubt(calls int) *doubt {
	stats := c.conn.Stats()
	return &doubt{since: time.Now(), calls: calls, answered: stats.Answered, taken: c.taken(), read: stats.BytesIn}
}

// ping pings the child until it answers anything or has missed maxMisses pings, which ends
// the run. A ping is not missed if the child wrote messages meanwhile, or is in the middle of
// one; but a child that does not answer within max_call_timeout, the longest that any call may
// take, ends too. Lines that are no messages do not count: a thread of its own may write them.
func (c *child) ping(limit time.Duration, calls int) {
	d := c.newDoubt(calls)
	if method, _ := c.dialect.ping(); method == "" || !c.health.begin(d) {
		return
	}
	defer c.health.end()
	for misses := 0; misses < maxMisses; c.health.miss(d, misses) {
		before := c.conn.Stats().Signs
		switch err := c.sendPing(limit); {
		case errors.Is(err, jsonrpc.ErrClosed): // something else ends the run
			return
		case !errors.Is(err, context.DeadlineExceeded) || c.conn.Stats().Answered != d.answered:
			c.recovers(d, misses)
			return
		case c.conn.Stats().Signs == before:
			if misses++; misses == 1 {
				c.spec.Logger.Warn("extension does not answer: it missed a ping", "timeout", limit, "calls_unanswered",
					calls, "state", c.culprit(d))
			}
		case c.spec.Options.MaxCallTimeout > 0 && time.Since(d.since) >= c.spec.Options.MaxCallTimeout:
			c.end(protocol.Errorf(protocol.CallTimeout,
				"it wrote messages but answered nothing for %v, not even pings, and was %s",
				c.spec.Options.MaxCallTimeout, c.ended()))
			return
		default:
			misses = 0
		}
	}
	c.end(protocol.Errorf(protocol.CallTimeout, "it missed %d pings of %v and was %s%s", maxMisses, limit, c.ended(),
		prefixed(": ", c.culprit(d))))
}

// recovers is called when a child that was pinged has answered.
func (c *child) recovers(d *doubt, missed int) {
	if missed > 0 {
		c.spec.Logger.Info("extension answers again", "after", time.Since(d.since).Round(time.Millisecond))
	}
	if c.traits.mayIgnoreCanceled && c.owesAll() {
		c.conn.ForgetAbandoned()
	}
}

// sendPing pings the child. The limit holds also for the writing: a child that reads little by
// little would otherwise never miss a ping that waits behind large requests.
func (c *child) sendPing(limit time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	method, params := c.dialect.ping()
	_, err := c.conn.Call(ctx, method, params, nil)
	return err
}
