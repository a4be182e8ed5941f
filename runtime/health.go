package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/internal/wire/ndjson"
	"github.com/exthost/exthost/protocol"
)

// pingTimeout bounds the answer to a ping. A shorter HealthInterval takes precedence.
const pingTimeout = 5 * time.Second

// maxMisses is how many missed pings in a row end the run.
const maxMisses = 2

// maxUnanswered is how many calls in a row without an answer cause pings. It equals the threshold of the breaker.
const maxUnanswered = 5

// health tracks whether the child must be pinged.
type health struct {
	mu       sync.Mutex // guards the fields below
	calls    int        // consecutive calls that ended without an answer
	answered uint64     // number of the child's answers when the latest such call ended
	doubt    *doubt     // not nil while the child is pinged
}

// doubt is the state of the child when pinging began.
type doubt struct {
	since    time.Time
	calls    int    // consecutive calls without an answer; 0 for regular pings
	answered uint64 // answers of the child so far
	taken    int    // bytes that the child had read from its stdin
	read     uint64 // bytes of its output that the host had read
	missed   int    // consecutive missed pings; guarded by health.mu
}

// unanswered counts a call without an answer and reports whether maxUnanswered is reached. answered is the number of
// the child's answers so far.
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

// begin records the doubt d. It returns false if a doubt is recorded already.
func (h *health) begin(d *doubt) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.doubt != nil {
		return false
	}
	h.doubt = d
	return true
}

// end removes the recorded doubt.
func (h *health) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.doubt = nil
}

// miss records the number of consecutive missed pings.
func (h *health) miss(d *doubt, n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	d.missed = n
}

// pingLimit returns how long an answer to a ping may take.
func (c *child) pingLimit() time.Duration {
	limit := cmp.Or(c.spec.pingTimeout, pingTimeout)
	if every := c.spec.Options.HealthInterval; every > 0 {
		limit = min(limit, every)
	}
	return limit
}

// watchHealth pings the child every HealthInterval.
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

// pingAfterTimeout pings the child after a call that timed out, if RecycleOnHang is set.
func (c *child) pingAfterTimeout() {
	if c.spec.Options.RecycleOnHang {
		c.suspect(c.pingLimit(), 1)
	}
}

// countUnanswered counts a call without an answer, and pings the child after maxUnanswered of them in a row. Without
// CallTimeout it never pings, as a call may take any time.
func (c *child) countUnanswered() {
	if c.health.unanswered(c.conn.Stats().Answered) && c.spec.Options.CallTimeout > 0 {
		c.suspect(c.patience()/maxMisses, maxUnanswered)
	}
}

// patience returns how long all pings together may take. A child that works on one call at a time answers a ping only
// after that call, so it may be silent for twice CallTimeout. A child that has answered calls out of order may be
// silent for CallTimeout.
func (c *child) patience() time.Duration {
	limit := c.spec.Options.CallTimeout
	quiet := limit
	if !c.conn.Stats().OutOfOrder {
		quiet *= 2
	}
	return max(maxMisses*cmp.Or(c.spec.pingTimeout, pingTimeout), min(limit, quiet-c.conn.Quiet()))
}

// suspect starts a task that pings the child, after a number of calls without an answer. limit bounds each ping.
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

// ping pings the child until it answers anything, or ends the run after maxMisses missed pings in a row. A ping does
// not count as missed if the child has meanwhile written a message or a part of one; other lines on stdout do not
// count, as a separate thread may write them. A child that answers nothing within MaxCallTimeout, the most that any
// call may take, is ended too.
func (c *child) ping(limit time.Duration, calls int) {
	d := c.newDoubt(calls)
	if method, _ := c.dialect.ping(); method == "" || !c.health.begin(d) {
		return
	}
	defer c.health.end()
	for misses := 0; misses < maxMisses; c.health.miss(d, misses) {
		before := c.conn.Stats().Signs
		switch err := c.sendPing(limit); {
		case errors.Is(err, jsonrpc.ErrClosed): // the run is ending anyway
			return
		case !errors.Is(err, context.DeadlineExceeded) || c.conn.Stats().Answered != d.answered:
			c.onRecovery(d, misses)
			return
		case c.conn.Stats().Signs == before:
			if misses++; misses == 1 {
				c.spec.Logger.Warn("extension does not answer: it missed a ping", "timeout", limit, "calls_unanswered",
					calls, "state", c.culprit(d))
			}
		case c.spec.Options.MaxCallTimeout > 0 && time.Since(d.since) >= c.spec.Options.MaxCallTimeout:
			c.end(protocol.Errorf(protocol.CallTimeout,
				"it wrote messages but answered nothing for %v, not even pings, and was %s",
				c.spec.Options.MaxCallTimeout, c.givenUp()))
			return
		default:
			misses = 0
		}
	}
	c.end(protocol.Errorf(protocol.CallTimeout, "it missed %d pings of %v and was %s%s", maxMisses, limit, c.givenUp(),
		prefixed(": ", c.culprit(d))))
}

// onRecovery handles an answer of a pinged child.
func (c *child) onRecovery(d *doubt, missed int) {
	if missed > 0 {
		c.spec.Logger.Info("extension answers again", "after", time.Since(d.since).Round(time.Millisecond))
	}
	if c.traits.mayIgnoreCanceled && c.owesAll() {
		c.conn.ForgetAbandoned()
	}
}

// sendPing sends a ping and waits for its answer. limit includes the time to write the ping: otherwise a child that
// reads slowly would never miss a ping that waits behind large requests.
func (c *child) sendPing(limit time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	method, params := c.dialect.ping()
	_, err := c.conn.Call(ctx, method, params, nil)
	return err
}

// backlog returns how much data waits in the pipes to and from the child; ok is false if there are no pipes.
func (c *child) backlog() (b ndjson.Backlog, ok bool) {
	if l, isPipe := c.wire.(*processTransport); isPipe {
		return l.Backlog(), true
	}
	return b, false
}

// taken returns how many bytes the child has read from its stdin, as far as the system tells. A measurement may be too
// low while a caller writes, but never too high, so the highest of several is returned.
func (c *child) taken() (most int) {
	for range 3 {
		sent := int(c.conn.Stats().BytesOut) // before the pipe is measured
		b, _ := c.backlog()
		most = max(most, sent-max(b.Unread, 0))
	}
	return most
}

// culprit describes which side of a silent connection has stopped, and since when: the child's process, its reading,
// the host's reading, or the work in the child. It returns "" for a remote server, or if the system does not show the
// state of the pipes.
func (c *child) culprit(d *doubt) string {
	b, ok := c.backlog()
	if !ok {
		return ""
	}
	waits := b.Unsent + max(b.Unread, 0)
	if p, ok := c.endpoint.(local); ok && p.Stopped() {
		return "its process is stopped, by a signal such as SIGSTOP or by a debugger"
	}
	quiet := time.Since(d.since)
	if d.calls > 0 {
		quiet = max(quiet, c.conn.Quiet())
	}
	quiet = quiet.Round(time.Millisecond)
	switch {
	case b.Output > 0 && c.conn.Stats().BytesIn == d.read: // otherwise the host is reading, just not all of it at once
		return fmt.Sprintf("%d bytes of its output wait in the pipe, which the host has not read", b.Output)
	case waits > 0 && c.taken() <= d.taken:
		return fmt.Sprintf("it has stopped reading its stdin, where %d bytes of requests wait, and has answered "+
			"nothing for %v", waits, quiet)
	case b.Unread < 0 && b.Unsent == 0:
		return ""
	}
	return fmt.Sprintf("it reads its stdin, but has answered nothing for %v", quiet)
}

// doubts returns why the host doubts that the child still works; "" if it does not doubt.
func (c *child) doubts() string {
	c.health.mu.Lock()
	d := c.health.doubt
	calls, missed := 0, 0
	if d != nil {
		calls, missed = d.calls, d.missed
	}
	c.health.mu.Unlock()
	if calls == 0 && missed == 0 { // a regular ping is no doubt until it is missed
		return ""
	}
	text := fmt.Sprintf("being pinged for %v", time.Since(d.since).Round(time.Second))
	if calls > 0 {
		text = fmt.Sprintf("%d calls in a row had no answer, %s", calls, text)
	}
	if missed > 0 {
		text += fmt.Sprintf(", missed %d of %d pings", missed, maxMisses)
	}
	return text + prefixed(": ", c.culprit(d))
}

// givenUp returns the word for what the host does to a child that no longer answers.
func (c *child) givenUp() string {
	if _, ok := c.endpoint.(local); ok {
		return "killed"
	}
	return "disconnected"
}

// prefixed returns prefix and text; "" if text is empty.
func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}
