package mcphttp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"

	"github.com/exthost/exthost/internal/jsonrpc"
	"github.com/exthost/exthost/internal/rawjson"
	"github.com/exthost/exthost/protocol"
)

// Streamable is a [jsonrpc.Transport] over the streamable HTTP of MCP, as its
// client, of both eras. A request whose _meta states a protocol version is of the
// stateless one: headers repeat what it says, and to cancel it is to close its
// stream. All else belongs to the session that initialize opened; its standalone
// stream is kept open, and taken up where it broke off.
type Streamable struct {
	client

	mu      sync.Mutex
	session string               // "" before initialize, and with a server that has none
	version string               // the session's
	asked   map[string]*exchange // by raw id
	mirrors map[string][]Mirror  // by tool
}

// exchange is a request that has not been answered.
type exchange struct {
	id        json.RawMessage
	method    string
	stateless bool
	ctx       context.Context
	cancel    context.CancelFunc
}

// NewStreamable returns a transport that connects when it is used. The error is a
// URL that is none.
func NewStreamable(o ClientOptions) (*Streamable, error) {
	s := &Streamable{asked: make(map[string]*exchange)}
	return s, s.init(o)
}

// Mirror has the headers of a stateless tools/call repeat arguments of it, by the
// name of the tool.
func (s *Streamable) Mirror(mirrors map[string][]Mirror) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mirrors = mirrors
}

// Write implements [jsonrpc.Transport]. It returns once a request is written and
// once anything else is accepted.
func (s *Streamable) Write(ctx context.Context, m jsonrpc.Message) error {
	body, err := jsonrpc.Append(nil, &m)
	switch {
	case err != nil:
		return err
	case m.Method != "" && m.ID != nil:
		return s.request(ctx, &m, body)
	case m.Method == protocol.MethodCancelled:
		if x := s.exchange(rawjson.Get(m.Params, "requestId")); x != nil {
			defer x.cancel()
			if x.stateless {
				return nil
			}
		}
	}
	if err := s.notice(ctx, &m, body); err != nil {
		return err
	}
	if m.Method == protocol.MethodInitialized {
		s.start(s.listen)
	}
	return nil
}

// request posts a request, whose answer arrives on its own.
func (s *Streamable) request(ctx context.Context, m *jsonrpc.Message, body []byte) error {
	x := &exchange{id: bytes.Clone(m.ID), method: m.Method, stateless: versionOf(m) != ""}
	x.ctx, x.cancel = context.WithCancel(s.ctx)
	r, err := s.newRequest(x.ctx, http.MethodPost, s.url, body, s.header(m))
	if err != nil {
		x.cancel()
		return err
	}
	s.mu.Lock()
	s.asked[string(x.id)] = x
	s.mu.Unlock()
	return s.ask(ctx, x.ctx, r, x.id, func(resp *http.Response) error { return s.answered(x, resp) }, func() { s.forget(x) })
}

// notice posts a notification or an answer.
func (s *Streamable) notice(ctx context.Context, m *jsonrpc.Message, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, noticeTimeout)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	r, err := s.newRequest(ctx, http.MethodPost, s.url, body, s.header(m))
	if err != nil {
		return err
	}
	return s.tell(ctx, r)
}

func (s *Streamable) exchange(id json.RawMessage) *exchange {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[string(id)]
}

func (s *Streamable) forget(x *exchange) {
	x.cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.asked, string(x.id))
}

// header returns the headers that say which era, session and method m is of.
func (s *Streamable) header(m *jsonrpc.Message) http.Header {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := http.Header{"Accept": {"application/json, text/event-stream"}}
	nameTrace(h, m.Params)
	if version := versionOf(m); version != "" {
		h[VersionHeader] = []string{version}
		mirror(h, m, s.mirrors)
		return h
	}
	s.sessionLocked(h)
	return h
}

func (s *Streamable) sessionLocked(h http.Header) {
	if s.session != "" {
		h[SessionHeader] = []string{s.session}
	}
	if s.version != "" {
		h[VersionHeader] = []string{s.version}
	}
}

// versionOf is the protocol version that a message of the stateless era states.
func versionOf(m *jsonrpc.Message) string {
	text, _ := rawjson.Text(rawjson.Get(rawjson.Get(m.Params, "_meta"), protocol.MetaProtocolVersion))
	return text
}

// answered brings what resp holds to the reader. It returns nil once that was the
// answer.
func (s *Streamable) answered(x *exchange, resp *http.Response) error {
	if err := s.accepted(resp); err != nil {
		if m, ok := s.refusal(x, resp, err); ok {
			s.deliver(m)
			return nil
		}
		return err
	}
	if x.method == protocol.MethodInitialize {
		s.mu.Lock()
		s.session = resp.Header.Get(SessionHeader)
		s.mu.Unlock()
	}
	switch media := mediaType(resp); media {
	case "application/json":
		body, err := io.ReadAll(io.LimitReader(resp.Body, int64(s.o.MaxBytes)+1))
		switch {
		case err != nil:
			return &BrokenError{"the connection broke in the middle of the answer", err}
		case len(body) > s.o.MaxBytes:
			return &BrokenError{"the answer is too large for max_line_bytes", ErrTooLarge}
		}
		return s.message(x, body)
	case "text/event-stream":
		return s.stream(x, resp)
	default:
		return &BrokenError{What: "the server answered with " + resp.Status + " and content type " + quoted(media) + ", which is not MCP; check the url"}
	}
}

// message brings the one message that is the whole answer.
func (s *Streamable) message(x *exchange, body []byte) error {
	m, err := jsonrpc.Decode(body)
	if err != nil || m.Method != "" || string(m.ID) != string(x.id) {
		return &BrokenError{"the server answered with something else than the answer", err}
	}
	s.arrived(x, m)
	return nil
}

// arrived brings a message of x's own stream, and notes what an answer to
// initialize settles before anybody can act on it.
func (s *Streamable) arrived(x *exchange, m jsonrpc.Message) {
	if x.method == protocol.MethodInitialize && m.Method == "" && m.Error == nil {
		s.mu.Lock()
		s.version, _ = rawjson.Text(rawjson.Get(m.Result, "protocolVersion"))
		s.mu.Unlock()
	}
	m.Of = x.id
	s.deliver(m)
}

// refusal is the answer that the body of an error status may hold: MCP's own error
// says more than the status.
func (s *Streamable) refusal(x *exchange, resp *http.Response, status error) (jsonrpc.Message, bool) {
	var e *StatusError
	if !errors.As(status, &e) || len(e.body) == 0 || mediaType(resp) != "application/json" {
		return jsonrpc.Message{}, false
	}
	m, err := jsonrpc.Decode(e.body)
	if err != nil || m.Error == nil || m.Invalid != nil || string(m.ID) != string(x.id) && m.ID != nil && string(m.ID) != "null" {
		return jsonrpc.Message{}, false
	}
	m.ID = x.id
	return m, true
}

// Hangup tells the server that the session is over, for as long as ctx lets it.
func (s *Streamable) Hangup(ctx context.Context) {
	s.mu.Lock()
	h := make(http.Header)
	s.sessionLocked(h)
	none := s.session == ""
	s.mu.Unlock()
	if none {
		return
	}
	r, err := s.newRequest(ctx, http.MethodDelete, s.url, nil, h)
	if err != nil {
		return
	}
	if resp, err := s.do(r, func() {}); err == nil {
		_ = resp.Body.Close() // a courtesy; servers may refuse it
	}
}
