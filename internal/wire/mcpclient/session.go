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

// A server that was restarted no longer knows the session. MCP has it answer 404; many answer 400,
// 410 or 503, or an error in a 200, each in its own words. No wording decides here: a refused
// request is followed by a ping in the same session. When the ping is refused in the same way, the
// session is gone, and the transport ends, as after a 404. A 401 may as well be about the credentials,
// so the same ones then have to work in a new session, see isOutlived.

// pingTimeout bounds the ping after a refused request, and so the delay of that refusal.
const pingTimeout = 5 * time.Second

// refusal is how a server refused a request.
type refusal struct {
	status  int    // of HTTP; 0: there was no refusal
	code    int64  // of the JSON-RPC error; 0 without one
	message string // of that error; "" beside a status that says enough
}

// refusalOf returns the refusal in an answer with that status and the JSON-RPC message m.
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

// doubtful reports whether a lost session may be the reason of r: the statuses and codes that name
// another reason are left out, and 401, which has been looked into.
func (r refusal) doubtful() bool {
	switch r.status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired, http.StatusTooManyRequests:
		return false
	}
	return (r.status == http.StatusOK || r.status >= http.StatusBadRequest) && r.code != jsonrpc.CodeMethodNotFound &&
		r.code != jsonrpc.CodeInvalidParams
}

// unread reports whether r means that the server did not act on the request, given that its session
// is gone. After other statuses the server may have carried the request out. 408 is no exception: it says that the
// server did not get the whole request (RFC 9110, 15.5.9), and a part of one is no JSON that could be acted on.
func (r refusal) unread() bool {
	return r.status >= http.StatusBadRequest && r.status < http.StatusInternalServerError
}

// probe is one ping, or one trial of another session. Requests that are refused while it is under way share it.
type probe struct {
	done   chan struct{} // closed when the probe has ended
	answer refusal       // of the ping, set before that; zero: it was not refused
	gone   bool          // the ping got a 404, or the trial found that the session is gone
}

// deliverRefusal delivers m, the answer with which the server refused x, and ends the transport when
// the session is gone. A request that the server has surely not acted on then gets ErrSessionGone.
func (s *Streamable) deliverRefusal(x *exchange, m jsonrpc.Message, said refusal, text string) {
	lost := s.lostAfter(x, said, text)
	if lost != nil && said.unread() {
		m = jsonrpc.Message{ID: x.id, Invalid: lost}
	}
	if said.status >= http.StatusBadRequest { // else the caller has its answer
		s.deliver(m)
	}
	if lost != nil {
		s.lose(lost)
	}
}

// lostAfter returns the ErrSessionGone that said means, nil while the session exists. A server that
// answers nothing properly may still work on other requests: only without any of these does its
// session count as gone.
func (s *Streamable) lostAfter(x *exchange, said refusal, text string) error {
	s.mu.Lock()
	if s.lost != nil {
		defer s.mu.Unlock()
		return s.lost
	}
	p := s.beginLocked(&s.probe, func(p *probe) { p.answer, p.gone = s.ping() })
	s.doubting++
	s.mu.Unlock()
	select {
	case <-p.done:
	case <-x.ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	others := len(s.exchanges) - s.doubting
	s.doubting--
	switch {
	case x.ctx.Err() != nil:
		return nil
	case p.gone, p.answer == said && (said.unread() || others <= 0):
		return fmt.Errorf("%w: %s", ErrSessionGone, text)
	}
	return nil
}

// beginLocked returns the probe that is under way in at, or begins one.
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

// lose ends the transport because its session or its server is gone: no request is sent from now on,
// and those in flight get [Options.GoneGrace]. Most are about to be refused as the first was: their
// callers may send them again.
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

// drainLocked tells lose when no request is in flight.
func (s *Streamable) drainLocked() {
	if s.drained != nil && len(s.exchanges) == 0 {
		close(s.drained)
		s.drained = nil
	}
}

// pingID is the id of pings; those of other requests are numbers.
var pingID = json.RawMessage(`"session"`)

// ping sends a ping in the session and returns how the server refused it; the zero refusal when it
// was answered, or not in time.
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
		m, _ := errorResponse(&exchange{id: pingID}, resp, err)
		return refusalOf(resp.StatusCode, &m), errors.Is(err, ErrSessionGone)
	}
	if m, ok := readResponse(resp, pingID); ok && m.Error != nil {
		return refusalOf(resp.StatusCode, &m), false
	}
	return refusal{}, false
}

// readResponse returns the response to the request with an id. ok is false when there is none.
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
