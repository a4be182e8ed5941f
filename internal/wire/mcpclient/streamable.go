package mcpclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/internal/wire/mcphttp"
	"github.com/exthost/exthost/internal/wire/sse"
	"github.com/exthost/exthost/protocol"
)

// Streamable is a [jsonrpc.Transport] over streamable HTTP, for legacy and modern versions. A
// request whose _meta has a protocol version is modern: headers repeat the method, the name and the
// mirrored arguments of the request, and closing its stream cancels it. All other messages belong
// to the legacy session opened by initialize. The session's standalone stream is kept open and
// resumed after the last received event.
type Streamable struct {
	client

	mu        sync.Mutex
	probe     *probe               // in progress, or nil
	trial     *probe               // in another session, in progress, or nil
	opening   []byte               // the initialize request of the session
	wrong     []string             // credentials that were refused in another session too
	rest      time.Time            // wrong is not tried in another session before this time
	lost      error                // why the session or the server is gone, or nil
	drained   chan struct{}        // closed when no request is in flight; nil unless lose waits for it
	session   string               // "" before initialize and for servers without sessions
	version   string               // of the session
	granted   bool                 // a GET has got a stream
	exchanges map[string]*exchange // by raw id
	mirrors   map[string][]mcphttp.Mirror
}

// exchange is a request in flight.
type exchange struct {
	id     json.RawMessage
	method string
	modern bool
	ctx    context.Context
	cancel context.CancelFunc

	refusal refusal // the error in its response
	settled bool    // its response has arrived, or it was refused; guarded by Streamable.mu
}

// NewStreamable returns a transport, which connects with its first message. It fails only if the
// URL is invalid.
func NewStreamable(o Options) (*Streamable, error) {
	s := &Streamable{exchanges: make(map[string]*exchange)}
	err := s.init(o)
	s.onLost, s.outlived = s.lose, s.isOutlived
	return s, err
}

// SetMirrors sets, by tool, the arguments that are repeated in the headers of a modern tools/call.
func (s *Streamable) SetMirrors(mirrors map[string][]mcphttp.Mirror) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mirrors = mirrors
}

// Write implements [jsonrpc.Transport]. For a request it returns once the request is written, for
// another message once the server has accepted it. After the last message of the handshake it also waits up to
// openTimeout for the standalone stream, and returns nil without it too.
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
			if x.modern {
				return nil
			}
		}
	}
	if err := s.postNotification(ctx, &m, body); err != nil {
		return err
	}
	if m.Method == protocol.MethodInitialized {
		s.open(ctx)
	}
	return nil
}

// request posts a request. Its answer is delivered later.
func (s *Streamable) request(ctx context.Context, m *jsonrpc.Message, body []byte) error {
	x := &exchange{id: bytes.Clone(m.ID), method: m.Method, modern: versionOf(m) != ""}
	x.ctx, x.cancel = context.WithCancel(s.ctx)
	r, err := s.newCall(ctx, x.ctx, x.cancel, s.url, body, s.header(m))
	if err != nil {
		return err
	}
	s.mu.Lock()
	lost := s.lost
	if lost == nil {
		s.exchanges[string(x.id)] = x
	}
	if x.method == protocol.MethodInitialize {
		s.opening = body
	}
	s.mu.Unlock()
	if lost != nil {
		x.cancel()
		return fmt.Errorf("%w: %w", jsonrpc.ErrClosed, lost)
	}
	return s.postRequest(ctx, x.ctx, r, x.id, func(resp *http.Response) error { return s.handle(x, resp) },
		func() { s.remove(x) })
}

// postNotification posts a notification or a response.
func (s *Streamable) postNotification(ctx context.Context, m *jsonrpc.Message, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, postTimeout)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	r, err := s.newRequest(ctx, http.MethodPost, s.url, body, s.header(m))
	if err != nil {
		return err
	}
	return s.post(ctx, r)
}

func (s *Streamable) exchange(id json.RawMessage) *exchange {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.exchanges[string(id)]
}

func (s *Streamable) remove(x *exchange) {
	x.cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.exchanges, string(x.id))
	s.drainLocked()
}

func (s *Streamable) header(m *jsonrpc.Message) http.Header {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := http.Header{"Accept": {"application/json, text/event-stream"}}
	mcphttp.SetTrace(h, m.Params)
	if version := versionOf(m); version != "" {
		h[mcphttp.VersionHeader] = []string{version}
		mcphttp.SetHeaders(h, m, s.mirrors)
		return h
	}
	s.setSessionLocked(h)
	return h
}

func (s *Streamable) setSessionLocked(h http.Header) {
	if s.session != "" {
		h[mcphttp.SessionHeader] = []string{s.session}
	}
	if s.version != "" {
		h[mcphttp.VersionHeader] = []string{s.version}
	}
}

// versionOf returns the protocol version in a modern message's _meta, or "".
func versionOf(m *jsonrpc.Message) string {
	text, _ := rawjson.Text(rawjson.Get(rawjson.Get(m.Params, "_meta"), protocol.MetaProtocolVersion))
	return text
}

// handle delivers the messages in the answer to x. It returns nil once the response is delivered.
func (s *Streamable) handle(x *exchange, resp *http.Response) error {
	inSession := resp.Request.Header.Get(mcphttp.SessionHeader) != ""
	if err := s.checkStatus(resp); err != nil {
		status, ok := errors.AsType[*StatusError](err)
		if !ok {
			return err
		}
		m, ok := x.errorResponse(resp, err)
		said := refusalOf(status.Code, &m)
		if !ok {
			m = jsonrpc.Message{ID: x.id, Invalid: err}
		}
		if inSession && status.RetryAfter == 0 && said.doubtful() {
			s.deliverRefusal(x, m, said, status.Text)
		} else {
			s.deliver(m)
		}
		return nil
	}
	if x.method == protocol.MethodInitialize {
		s.mu.Lock()
		s.session = resp.Header.Get(mcphttp.SessionHeader)
		s.mu.Unlock()
	}
	if err := s.handleBody(x, resp); err != nil {
		return err
	}
	if inSession && x.refusal.doubtful() {
		s.deliverRefusal(x, jsonrpc.Message{}, x.refusal, "the server refuses every request with: "+x.refusal.message)
	}
	return nil
}

// handleBody delivers the messages in a successful answer to x.
func (s *Streamable) handleBody(x *exchange, resp *http.Response) error {
	switch media := mediaType(resp); media {
	case "application/json":
		body, err := io.ReadAll(io.LimitReader(resp.Body, int64(s.o.MaxBytes)+1))
		switch {
		case err != nil:
			return &BrokenError{"the connection broke in the middle of the answer", err}
		case len(body) > s.o.MaxBytes:
			return &BrokenError{"the answer is too large for max_line_bytes", sse.ErrTooLarge}
		}
		return s.handleJSON(x, body)
	case "text/event-stream":
		return s.handleStream(x, resp)
	default:
		return &BrokenError{
			What: "the server answered with " + resp.Status + " and content type " + quoted(media) +
				", which is not MCP; check the url",
		}
	}
}

// handleJSON delivers the response in a body of JSON.
func (s *Streamable) handleJSON(x *exchange, body []byte) error {
	m, err := jsonrpc.Decode(body)
	if err != nil || m.Method != "" || !x.isAnsweredBy(&m) {
		return &BrokenError{"the server answered with something else than the answer", err}
	}
	s.deliverFor(x, m)
	return nil
}

// deliverFor delivers a message of the answer to x. The response to initialize sets the session's version before the
// reader sees it.
func (s *Streamable) deliverFor(x *exchange, m jsonrpc.Message) {
	if m.Method == "" {
		s.mu.Lock()
		x.settled = true
		if x.method == protocol.MethodInitialize && m.Error == nil {
			s.version, _ = rawjson.Text(rawjson.Get(m.Result, "protocolVersion"))
		}
		s.mu.Unlock()
		if m.Error != nil {
			x.refusal = refusalOf(http.StatusOK, &m)
		}
	}
	m.Of = x.id
	s.deliver(m)
}

// isAnsweredBy reports whether m, received in the HTTP answer to x, is the response to x. A server that refuses a
// request before it has read the id answers with a null id or none.
func (x *exchange) isAnsweredBy(m *jsonrpc.Message) bool {
	return string(m.ID) == string(x.id) || m.Error != nil && (m.ID == nil || string(m.ID) == "null")
}

// errorResponse returns the JSON-RPC error in the body of an error status, if any. That error is
// more specific than the status.
func (x *exchange) errorResponse(resp *http.Response, status error) (jsonrpc.Message, bool) {
	var e *StatusError
	if !errors.As(status, &e) || len(e.body) == 0 || mediaType(resp) != "application/json" {
		return jsonrpc.Message{}, false
	}
	m, err := jsonrpc.Decode(e.body)
	if err != nil || m.Error == nil || m.Invalid != nil || !x.isAnsweredBy(&m) {
		return jsonrpc.Message{}, false
	}
	m.Of = x.id
	return m, true
}

// EndSession tells the server that the session is over, and waits for the answer until ctx ends.
func (s *Streamable) EndSession(ctx context.Context) {
	s.mu.Lock()
	h := make(http.Header)
	s.setSessionLocked(h)
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
		_ = resp.Body.Close() // servers may refuse to end sessions
	}
}
