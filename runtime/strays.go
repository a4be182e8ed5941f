package runtime

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"

	"golang.org/x/time/rate"

	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/protocol"
)

// strays are a child's answers that belong to no call.
type strays struct {
	limit  *rate.Limiter // limits the log lines, also those about invalid answers
	last   atomic.Pointer[string]
	ending atomic.Bool // the child was asked to shut down, and may answer that request
}

// latest describes the latest stray answer in brackets, for an error text; "" if there was none.
func (s *strays) latest() string {
	if last := s.last.Load(); last != nil {
		return " (" + *last + ")"
	}
	return ""
}

// stray handles an answer with an unknown id, or an error without id. taken means that the error without id was used as
// the answer of a call.
func (c *child) stray(m *jsonrpc.Message, taken bool) {
	if c.strays.ending.Load() {
		return
	}
	id, message := cutLine(m.ID), ""
	if m.Error != nil {
		message, _ = rawjson.Text(rawjson.Get(m.Error, "message"))
		message = cutLine([]byte(message))
	}
	if !taken {
		latest := "the id " + id
		if message != "" {
			latest += fmt.Sprintf(", and the error %q", message)
		}
		c.strays.last.Store(&latest)
		if c.traits.oneCall {
			c.slot.failCall(wrongID(m))
		}
	}
	level := slog.LevelWarn
	if d, ok := c.dialect.(*mcp); ok && taken && d.discovering.Load() { // so do older servers refuse server/discover
		level = slog.LevelDebug
	}
	if c.strays.limit.Allow() {
		c.spec.Logger.Log(context.Background(), level, "the extension answered with an id that no call waits for",
			"id", display.Escape(id), "error", display.Escape(message), "taken_for_answer", taken,
			"line", display.Escape(cutLine(m.Raw)))
	}
}

// timedOut is the error of a call without an answer in time. It says what came that is no answer.
func (c *child) timedOut() *protocol.Error {
	fault := protocol.Errorf(protocol.CallTimeout,
		"it did not answer in time: call_timeout is %v, with progress max_call_timeout is %v; the call may have "+
			"been carried out",
		c.spec.Options.CallTimeout, c.spec.Options.MaxCallTimeout)
	if n := c.conn.Stats().Unknown; n > 0 {
		fault.Message += fmt.Sprintf("; %d of its answers had an id that was never sent%s: an answer repeats the "+
			"id of its request", n, c.strays.latest())
	}
	if line, why := c.unended(); why != "" {
		fault.Message += "; " + why
		fault.Evidence = &protocol.Evidence{Line: line}
	}
	return fault
}

// unended describes the message that the child has begun on stdout, in a line that it has not ended, and which is not
// read until then; why is "" if there is none.
func (c *child) unended() (line, why string) {
	w, ok := c.wire.(interface{ Partial() ([]byte, int) })
	if !ok {
		return "", ""
	}
	begin, n := w.Partial()
	if !bytes.HasPrefix(bytes.TrimSpace(begin), []byte("{")) { // text, such as the prompt of a program
		return "", ""
	}
	line = cutLine(begin)
	if len(begin) < n {
		line = display.Words(line)
	}
	return line, fmt.Sprintf("its last line on stdout has no line break yet (%d bytes): end each message with a line "+
		"break and flush it", n)
}
