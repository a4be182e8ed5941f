package runtime

import (
	"fmt"
	"time"

	"github.com/exthost/exthost/internal/wire/ndjson"
)

// backlog returns what waits in the pipes to and from the child; ok is false if there are no pipes.
func (c *child) backlog() (b ndjson.Backlog, ok bool) {
	if l, isPipe := c.wire.(*processTransport); isPipe {
		return l.Backlog(), true
	}
	return b, false
}

// taken returns how many bytes the child has read from its stdin, as far as the system tells. One measurement may be
// too low while a caller writes, but never too high, so it takes the highest of several.
func (c *child) taken() (most int) {
	for range 3 {
		sent := int(c.conn.Stats().BytesOut) // before the pipe is measured
		b, _ := c.backlog()
		most = max(most, sent-max(b.Unread, 0))
	}
	return most
}

// culprit tells which side of a silent connection has stopped, and since when: the child's process, its reading, the
// host's reading, or the work in the child. It is "" for a remote server, or if the system does not tell.
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

// doubts tells why the host doubts that the child still works; "" if it does not.
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

// ended tells what happens to a child that is given up.
func (c *child) ended() string {
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
