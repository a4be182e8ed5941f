package runtime

import (
	"cmp"
	"context"
	"errors"
	"sync"
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

// unanswered counts calls that ended without an answer while the child wrote nothing.
type unanswered struct {
	many chan struct{} // holds a token when there were maxUnanswered such calls

	mu      sync.Mutex
	calls   int
	bytesIn uint64 // that the child had written at the latest such call
}

func newUnanswered() *unanswered { return &unanswered{many: make(chan struct{}, 1)} }

// add counts a call. bytesIn is what the child has written so far.
func (u *unanswered) add(bytesIn uint64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if bytesIn != u.bytesIn {
		u.calls, u.bytesIn = 0, bytesIn
	}
	if u.calls++; u.calls == maxUnanswered {
		u.calls = 0
		signal(u.many)
	}
}

// watchHealth pings the child every health_interval, with recycle_on_hang after a call that
// timed out, and always after maxUnanswered calls without an answer. Two unanswered pings
// in a row end the run. A ping does not count as unanswered if the child wrote anything
// meanwhile. Unless the operator asked for haste, the pings take call_timeout together: a
// child that works on one call at a time may be busy for that long.
func (c *child) watchHealth(ctx context.Context) {
	if method, _ := c.dialect.ping(); method == "" {
		return
	}
	o, timeout := &c.spec.Options, cmp.Or(c.spec.pingTimeout, pingTimeout)
	patient := max(timeout, o.CallTimeout/maxMisses)
	var tick <-chan time.Time
	if every := o.HealthInterval; every > 0 {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		tick, timeout = ticker.C, min(timeout, every)
	}
	var hung <-chan struct{}
	if o.RecycleOnHang {
		hung = c.callTimedOut
	}
	many := c.unanswered.many
	if o.CallTimeout <= 0 { // a call may take any time
		many = nil
	}
	for {
		limit := timeout
		select {
		case <-ctx.Done():
			return
		case <-tick:
		case <-hung:
		case <-many:
			limit = patient
		}
		misses := 0
		for misses < maxMisses && c.silent(ctx, limit) {
			misses++
		}
		if misses == maxMisses {
			c.end(protocol.Errorf(protocol.CallTimeout, "it missed %d pings of %v and was killed", misses, limit))
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
