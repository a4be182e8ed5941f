package runtime

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"

	"golang.org/x/time/rate"

	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/internal/wire/jsonrpc"
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
