package mcphttp

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/exthost/exthost/internal/jsonrpc"
)

const (
	firstRetry = time.Second // before a stream is asked for again, unless the server says otherwise
	lastRetry  = 30 * time.Second
	// maxFailures in a row to get a stream are the end of the server, or of the call
	// whose stream it was.
	maxFailures = 4
)

// cursor is where a stream stands.
type cursor struct {
	id    string        // of the last event; "" when its events have none
	retry time.Duration // what the server wants to be waited for
	taken bool          // the last request for the stream was granted
}

// stream brings the messages of the answer to x. A stream that ends too early is
// taken up again, by a GET that states the last event, if its events can be named.
func (s *Streamable) stream(x *exchange, resp *http.Response) error {
	var at cursor
	over, err := s.events(resp, &at, x)
	for failures := 0; !over; {
		if at.id == "" || x.stateless || errors.Is(err, ErrTooLarge) {
			return &BrokenError{"the stream ended before the answer", err}
		}
		if at.taken {
			failures = 0
		}
		if failures++; failures > maxFailures {
			return &BrokenError{"the stream ended before the answer and could not be taken up again", err}
		}
		if !s.pause(x.ctx, at.delay(failures)) {
			return context.Cause(x.ctx)
		}
		if over, err = s.get(x.ctx, &at, x); errors.Is(err, ErrSessionGone) {
			return err
		}
	}
	return nil
}

// listen keeps the standalone stream of the session open.
func (s *Streamable) listen() {
	var at cursor
	for failures := 0; ; {
		_, err := s.get(s.ctx, &at, nil)
		var status *StatusError
		switch {
		case s.ctx.Err() != nil:
			return
		case errors.Is(err, ErrSessionGone):
			s.fail(err)
			return
		case errors.As(err, &status) && status.Code < 500 && status.Code != http.StatusTooManyRequests:
			if at.id == "" {
				return // it has no such stream, as it may
			}
			at.id = "" // it has forgotten that event
		}
		if at.taken {
			failures = 0
		}
		if failures++; err != nil && failures > maxFailures {
			s.lost(err)
			return
		}
		if !s.pause(s.ctx, at.delay(failures)) {
			return
		}
	}
}

// get asks for a stream, of x or standalone, and brings what comes of it.
func (s *Streamable) get(ctx context.Context, at *cursor, x *exchange) (over bool, err error) {
	h := http.Header{"Accept": {"text/event-stream"}}
	s.mu.Lock()
	s.sessionLocked(h)
	s.mu.Unlock()
	if at.id != "" {
		h["Last-Event-Id"] = []string{at.id}
	}
	at.taken = false
	r, err := s.newRequest(ctx, http.MethodGet, s.url, nil, h)
	if err != nil {
		return false, err
	}
	resp, err := s.do(r, func() {})
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	if err := s.accepted(resp); err != nil {
		return false, err
	}
	if media := mediaType(resp); media != "text/event-stream" {
		return false, &StatusError{Code: http.StatusMethodNotAllowed, Text: "the server answered a GET with content type " + quoted(media)}
	}
	at.taken = true
	return s.events(resp, at, x)
}

// events brings the messages of one connection. over says that the answer to x
// was among them.
func (s *Streamable) events(resp *http.Response, at *cursor, x *exchange) (over bool, err error) {
	events := newEventReader(resp.Body, s.o.MaxBytes)
	events.id, events.retry = at.id, at.retry
	for {
		e, err := events.next()
		at.id, at.retry = events.id, events.retry
		if err != nil {
			return false, err
		}
		m, ok := e.message()
		switch {
		case !ok:
		case x == nil:
			s.deliver(m)
		default:
			s.arrived(x, m)
			if m.Method == "" && string(m.ID) == string(x.id) {
				return true, nil
			}
		}
	}
}

// message returns the message that an event holds. One that is broken costs the
// call it answers, if it can be told; nobody else.
func (e *serverEvent) message() (jsonrpc.Message, bool) {
	if len(e.data) == 0 || e.name != "" && e.name != "message" {
		return jsonrpc.Message{}, false
	}
	m, err := jsonrpc.Decode(e.data)
	return m, err == nil
}

// delay is how long to wait after a number of failures in a row: what the server
// asks for, more each time, and a part at random.
func (c *cursor) delay(failures int) time.Duration {
	d := firstRetry
	if c.retry > 0 {
		d = c.retry
	}
	d = min(d<<min(failures-1, 5), lastRetry)
	return d/2 + rand.N(d/2+1)
}

func quoted(text string) string { return strconv.Quote(text) }
