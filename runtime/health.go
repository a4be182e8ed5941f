package runtime

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/exthost/exthost/internal/jsonrpc"
	"github.com/exthost/exthost/protocol"
)

// pingTimeout bounds the answer to a ping. A shorter health_interval takes its place.
const pingTimeout = 5 * time.Second

// maxMisses is the number of unanswered pings in a row that ends the run.
const maxMisses = 2

// watchHealth pings the child every health_interval and, with recycle_on_hang, after a
// call that timed out. Two unanswered pings in a row end the run. A ping does not count as
// unanswered if the child wrote anything meanwhile.
func (c *child) watchHealth(ctx context.Context) {
	method, _ := c.dialect.ping()
	every, timeout := c.spec.Options.HealthInterval, cmp.Or(c.spec.pingTimeout, pingTimeout)
	if method == "" || every <= 0 && !c.spec.Options.RecycleOnHang {
		return
	}
	var tick <-chan time.Time
	if every > 0 {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		tick, timeout = ticker.C, min(timeout, every)
	}
	hung := c.callTimedOut
	if !c.spec.Options.RecycleOnHang {
		hung = nil
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick:
		case <-hung:
		}
		misses := 0
		for misses < maxMisses && c.silent(ctx, timeout) {
			misses++
		}
		if misses == maxMisses {
			c.end(protocol.Errorf(protocol.CallTimeout, "it missed %d pings of %v and was killed", misses, timeout))
			return
		}
	}
}

// silent pings the child and reports whether the child wrote nothing until the timeout.
func (c *child) silent(ctx context.Context, timeout time.Duration) bool {
	method, params := c.dialect.ping()
	before := c.conn.Stats().BytesIn
	_, err := c.conn.Call(ctx, method, params, &jsonrpc.CallOptions{Timeout: timeout})
	return errors.Is(err, jsonrpc.ErrTimeout) && c.conn.Stats().BytesIn == before
}
