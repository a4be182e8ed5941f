package runtime

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/exthost/exthost/internal/jsonrpc"
	"github.com/exthost/exthost/protocol"
)

// pingTimeout is how long a ping may stay unanswered; health_interval, when it
// is shorter.
const pingTimeout = 5 * time.Second

// maxMisses in a row end the run.
const maxMisses = 2

// watchHealth pings the child, every health_interval and, with recycle_on_hang,
// after a call that timed out. Two misses in a row end the run; a child that
// wrote anything at all meanwhile has not missed.
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
	hung := c.hung
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

// silent reports whether the child let a ping time out and wrote nothing.
func (c *child) silent(ctx context.Context, timeout time.Duration) bool {
	method, params := c.dialect.ping()
	before := c.conn.Stats().BytesIn
	_, err := c.conn.Call(ctx, method, params, &jsonrpc.CallOptions{Timeout: timeout})
	return errors.Is(err, jsonrpc.ErrTimeout) && c.conn.Stats().BytesIn == before
}
