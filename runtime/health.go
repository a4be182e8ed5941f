package runtime

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/exthost/exthost/internal/jsonrpc"
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
	pinging atomic.Bool

	mu      sync.Mutex // guards what follows
	calls   int        // in a row that ended without an answer while the child wrote nothing
	bytesIn uint64     // that the child had written at the latest such call
}

// unanswered counts a call without an answer, and reports whether it was the last of
// maxUnanswered. bytesIn is what the child has written so far.
func (h *health) unanswered(bytesIn uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if bytesIn != h.bytesIn {
		h.calls, h.bytesIn = 0, bytesIn
	}
	if h.calls++; h.calls < maxUnanswered {
		return false
	}
	h.calls = 0
	return true
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
			c.ping(c.pingLimit())
		}
	}
}

// hangs has the child pinged after a call that timed out, with recycle_on_hang.
func (c *child) hangs() {
	if c.spec.Options.RecycleOnHang {
		c.suspect(c.pingLimit())
	}
}

// leavesUnanswered counts a call without an answer. After maxUnanswered of them the child is
// pinged. The pings take call_timeout together, because a child that works on one call at a
// time may be busy for that long. Without call_timeout a call may take any time.
func (c *child) leavesUnanswered() {
	if c.health.unanswered(c.conn.Stats().BytesIn) && c.spec.Options.CallTimeout > 0 {
		c.suspect(max(cmp.Or(c.spec.pingTimeout, pingTimeout), c.spec.Options.CallTimeout/maxMisses))
	}
}

// suspect pings the child in a task. A child that is healthy has no goroutine for pings.
func (c *child) suspect(limit time.Duration) {
	if c.handshake.Load() != nil {
		c.tasks.Go(func() { c.ping(limit) })
	}
}

// ping pings the child until it answers or has missed maxMisses pings, which ends the run. A
// ping is not missed if the child wrote anything meanwhile. Of pings at the same time there
// is one.
func (c *child) ping(limit time.Duration) {
	if method, _ := c.dialect.ping(); method == "" || !c.health.pinging.CompareAndSwap(false, true) {
		return
	}
	defer c.health.pinging.Store(false)
	for range maxMisses {
		if !c.silent(context.Background(), limit) { // the end of the connection ends it too
			return
		}
	}
	c.end(protocol.Errorf(protocol.CallTimeout, "it missed %d pings of %v and was killed", maxMisses, limit))
}

// silent pings the child and reports whether the child wrote nothing until the timeout.
func (c *child) silent(ctx context.Context, timeout time.Duration) bool {
	method, params := c.dialect.ping()
	before := c.conn.Stats().BytesIn
	_, err := c.conn.Call(ctx, method, params, &jsonrpc.CallOptions{Timeout: timeout})
	return errors.Is(err, jsonrpc.ErrTimeout) && c.conn.Stats().BytesIn == before
}
