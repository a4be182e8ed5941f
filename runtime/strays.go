package runtime

import (
	"fmt"
	"sync/atomic"

	"golang.org/x/time/rate"

	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/internal/wire/jsonrpc"
)

// strays are the answers of a child that are not for a call.
type strays struct {
	limit  *rate.Limiter // of the log
	last   atomic.Pointer[string]
	ending atomic.Bool // the child was asked to shut down, and answers that under an id that no call has
}

// latest returns what the latest one was, in brackets, for an error text; "" if there was none.
func (s *strays) latest() string {
	if said := s.last.Load(); said != nil {
		return " (" + *said + ")"
	}
	return ""
}

// stray handles an answer that no call waits for, or an error without an id, which taken says is
// the answer of a call.
func (c *child) stray(m *jsonrpc.Message, taken bool) {
	if c.strays.ending.Load() {
		return
	}
	id, said := cutLine(m.ID), ""
	if m.Error != nil {
		said, _ = rawjson.Text(rawjson.Get(m.Error, "message"))
		said = cutLine([]byte(said))
	}
	if !taken {
		latest := "the id " + id
		if said != "" {
			latest += fmt.Sprintf(", and the error %q", said)
		}
		c.strays.last.Store(&latest)
		if c.traits.oneCall {
			c.slot.failCall(wrongID(m))
		}
	}
	if c.strays.limit.Allow() {
		c.spec.Logger.Warn("the extension answered with an id that no call waits for",
			"id", display.Escape(id), "error", display.Escape(said), "taken_for_answer", taken)
	}
}
