package mcpclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/internal/wire/sse"
	"github.com/exthost/exthost/protocol"
)

// A restarted server no longer knows the session. MCP requires a 404; many servers send 400, 410, 503, or an error in
// a 200, in various words. The words are not interpreted: a refused request is followed by a ping in the same
// session. If the ping is refused in the same way, the session is gone, and the transport ends as after a 404. A 401
// may also be due to the credentials, so these are then tried in a new session, see isOutlived.

// pingTimeout bounds the ping after a refused request, and thereby the delay of the refusal.
const pingTimeout = 5 * time.Second

// refusal is the way in which a server refused a request.
type refusal struct {
	status  int    // HTTP status; 0: not refused
	code    int64  // code of the JSON-RPC error; 0 without one
	message string // message of that error; "" if status is an error
}

// refusalOf returns the refusal in an answer with the given status and the JSON-RPC message m.
func refusalOf(status int, m *jsonrpc.Message) refusal {
	r := refusal{status: status}
	var e jsonrpc.Error
	if m.Error != nil && json.Unmarshal(m.Error, &e) == nil {
		r.code = e.Code
		if status < http.StatusBadRequest {
			r.message = e.Message
		}
	}
	return r
}

// doubtful reports whether the end of the session may be the reason for r. That excludes statuses and codes with
// another meaning, and 401, which isOutlived has checked.
func (r refusal) doubtful() bool {
	switch r.status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired, http.StatusTooManyRequests:
		return false
	}
	return (r.status == http.StatusOK || r.status >= http.StatusBadRequest) && r.code != jsonrpc.CodeMethodNotFound &&
		r.code != jsonrpc.CodeInvalidParams
}

// unread reports whether the server did not act on the request, provided that its session is gone.
// That is true for every 4xx, also 408: the server did not get the whole request (RFC 9110,
// 15.5.9), and a part of it is not JSON that could be acted on. With another status, the server may
// have acted.
func (r refusal) unread() bool {
	return r.status >= http.StatusBadRequest && r.status < http.StatusInternalServerError
}

// probe is one ping, or one trial in another session. Requests that are refused while it is in
// progress share it.
type probe struct {
	done   chan struct{} // closed at the end of the probe
	answer refusal       // to the ping, set before done is closed; zero: not refused
	gone   bool          // the ping got a 404, or the trial showed that the session is gone
}

// deliverRefusal delivers m, the answer by which the server refused x, and ends the transport if the session is gone.
// A request that the server has certainly not acted on then gets ErrSessionGone.
func (s *Streamable) deliverRefusal(x *exchange, m jsonrpc.Message, said refusal, text string) {
	lost := s.lostAfter(x, said, text)
	if lost != nil && said.unread() {
		m = jsonrpc.Message{ID: x.id, Invalid: lost}
	}
	if said.status >= http.StatusBadRequest { // otherwise m is already delivered
		s.deliver(m)
	}
	if lost != nil {
		s.lose(lost)
	}
}

// lostAfter returns the ErrSessionGone that follows from said, or nil if the session still exists.
// Unless said is a 4xx, a server that refuses everything may still work on other requests: then the
// session is taken as gone only if no other request is in flight.
func (s *Streamable) lostAfter(x *exchange, said refusal, text string) error {
	s.mu.Lock()
	if s.lost != nil {
		defer s.mu.Unlock()
		return s.lost
	}
	p := s.beginLocked(&s.probe, func(p *probe) { p.answer, p.gone = s.ping() })
	x.settled = true
	s.mu.Unlock()
	select {
	case <-p.done:
	case <-x.ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case x.ctx.Err() != nil:
		return nil
	case p.gone, p.answer == said && (said.unread() || !s.worksLocked()):
		return fmt.Errorf("%w: %s", ErrSessionGone, text)
	}
	return nil
}

// worksLocked reports whether the server may work on a request: one without a response or a refusal. An answered one
// is still among the exchanges until its goroutine has ended.
func (s *Streamable) worksLocked() bool {
	for _, x := range s.exchanges {
		if !x.settled {
			return true
		}
	}
	return false
}

// beginLocked returns the probe *at, which is in progress, or starts one there.
func (s *Streamable) beginLocked(at **probe, run func(*probe)) *probe {
	if *at != nil {
		return *at
	}
	p := &probe{done: make(chan struct{})}
	started := s.tasks.Go(func() {
		run(p)
		s.mu.Lock()
		*at = nil
		s.mu.Unlock()
		close(p.done)
	})
	if *at = p; !started {
		close(p.done)
	}
	return p
}

// lose ends the transport because its session or server is gone: no more requests are sent, and those in flight get
// [Options].GoneGrace. Most of them will be refused like the first one, and their callers may then repeat them.
func (s *Streamable) lose(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost != nil {
		return
	}
	drained := make(chan struct{})
	s.lost, s.drained = cause, drained
	s.tasks.Go(func() {
		select {
		case <-drained:
		case <-time.After(s.o.GoneGrace):
		case <-s.ctx.Done():
		}
		s.fail(cause)
	})
	s.drainLocked()
}

// drainLocked signals lose if no request is in flight.
func (s *Streamable) drainLocked() {
	if s.drained != nil && len(s.exchanges) == 0 {
		close(s.drained)
		s.drained = nil
	}
}

// pingID is the id of pings; other ids are numbers.
var pingID = json.RawMessage(`"session"`)

// ping sends a ping in the session and returns how the server refused it, or the zero refusal if it was answered or
// timed out.
func (s *Streamable) ping() (said refusal, gone bool) {
	ctx, cancel := context.WithTimeout(s.ctx, pingTimeout)
	defer cancel()
	m := jsonrpc.Message{ID: pingID, Method: protocol.MethodPing}
	body, err := jsonrpc.Append(nil, &m)
	if err != nil {
		return refusal{}, false
	}
	r, err := s.newRequest(ctx, http.MethodPost, s.url, body, s.header(&m))
	if err != nil {
		return refusal{}, false
	}
	resp, err := s.do(r, func() {})
	if err != nil {
		return refusal{}, errors.Is(err, ErrSessionGone)
	}
	defer resp.Body.Close()
	if err := s.checkStatus(resp); err != nil {
		m, _ := (&exchange{id: pingID}).errorResponse(resp, err)
		return refusalOf(resp.StatusCode, &m), errors.Is(err, ErrSessionGone)
	}
	if m, ok := readResponse(resp, pingID); ok && m.Error != nil {
		return refusalOf(resp.StatusCode, &m), false
	}
	return refusal{}, false
}

// readResponse returns the response with the given id; ok is false if there is none.
func readResponse(resp *http.Response, id json.RawMessage) (m jsonrpc.Message, ok bool) {
	if mediaType(resp) != "text/event-stream" {
		body, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
		if err == nil {
			m, err = jsonrpc.Decode(body)
		}
		return m, err == nil
	}
	for events := sse.NewReader(resp.Body, maxErrorBody); ; {
		event, err := events.Next()
		if err != nil {
			return m, false
		}
		if m, ok = messageOf(&event); ok && m.Method == "" && string(m.ID) == string(id) {
			return m, true
		}
	}
}
