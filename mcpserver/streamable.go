package mcpserver

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/internal/wire/mcphttp"
	"github.com/exthost/exthost/mcpserver/internal/wire"
	"github.com/exthost/exthost/protocol"
)

// endpoint is a Server at one URL: the whole server or one extension.
type endpoint struct {
	*Server
	extension string // the extension served; "" for all
}

// Handler returns the streamable HTTP endpoint, legacy and modern, of the named extension, or of all if extension is
// "". It checks only MCP's own rules; Host, Origin and tokens are for middleware.
func (s *Server) Handler(extension string) http.Handler {
	return http.HandlerFunc((&endpoint{s, extension}).serveHTTP)
}

func (e *endpoint) serveHTTP(w http.ResponseWriter, r *http.Request) {
	if r = mcphttp.WithPolicyHeaders(w, r, e.headers); r == nil {
		return
	}
	if r.Method == http.MethodGet {
		ctx, cancel := whileValid(r.Context())
		defer cancel()
		r = r.WithContext(ctx)
	}
	v := r.Header.Get(mcphttp.VersionHeader)
	legacy := v == "" || slices.Contains(wire.Legacy, v)
	if legacy && e.forwarded(w, r, r.Header.Get(mcphttp.SessionHeader), endpointMCP) {
		return
	}
	if r.Method == http.MethodPost {
		e.post(w, r)
		return
	}
	if !legacy {
		notAllowed(w, http.MethodPost) // modern clients only POST
		return
	}
	switch r.Method {
	case http.MethodGet:
		e.get(w, r)
	case http.MethodDelete:
		if c := e.session(w, r); c != nil {
			c.end(errEnded)
			w.WriteHeader(http.StatusNoContent)
		}
	default:
		notAllowed(w, "GET, POST, DELETE")
	}
}

func notAllowed(w http.ResponseWriter, allow string) {
	w.Header().Set("Allow", allow)
	http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
}

// read reads the message in a request's body. It answers invalid requests itself and returns ok false.
func (e *endpoint) read(w http.ResponseWriter, r *http.Request) (m jsonrpc.Message, ok bool) {
	body, ok := mcphttp.ReadBody(w, r, e.options.MaxBody)
	if !ok {
		return m, false
	}
	m, err := mcphttp.Decode(body)
	if err != nil {
		refuse(w, http.StatusBadRequest, m.ID, err)
		return m, false
	}
	mcphttp.JoinTrace(r.Header, &m)
	return m, true
}

// post handles one message. The protocol version is in the version header, else it follows from the session header or
// initialize, else it is in _meta.
func (e *endpoint) post(w http.ResponseWriter, r *http.Request) {
	m, ok := e.read(w, r)
	if !ok {
		return
	}
	version := r.Header.Get(mcphttp.VersionHeader)
	legacy := version == "" || slices.Contains(wire.Legacy, version)
	if version == "" && m.Method != protocol.MethodInitialize && r.Header.Get(mcphttp.SessionHeader) == "" {
		legacy = wire.ReadMeta(m.Params).Version == ""
	}
	if legacy {
		e.postLegacy(w, r, &m)
	} else {
		e.postModern(w, r, &m)
	}
}

// postLegacy handles a message of a session, or the initialize that opens one.
func (e *endpoint) postLegacy(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message) {
	if m.Method == protocol.MethodInitialize && m.ID != nil && r.Header.Get(mcphttp.SessionHeader) == "" {
		e.postInitialize(w, r, m)
		return
	}
	c := e.session(w, r)
	if c == nil {
		return
	}
	switch {
	case m.Method == "":
		c.toClient.deliver(m)
	case m.ID != nil:
		c.ready.Store(true)
		e.postRequest(w, r, c, m)
		return
	case m.Method == protocol.MethodCancelled:
		c.cancel(m.Params)
	case m.Method == protocol.MethodInitialized:
		c.ready.Store(true)
	default:
		e.notify(r.Context(), c.info.Load(), m)
	}
	w.WriteHeader(http.StatusAccepted)
}

// postRequest runs a request in the goroutine of the HTTP handler.
func (e *endpoint) postRequest(w http.ResponseWriter, r *http.Request, c *clientSession, m *jsonrpc.Message) {
	// On this node, no middleware cancels a forwarded request when the caller's token ends, so it is done here.
	if until := c.requester.until; until != nil && requesterOf(r.Context()).forwarded {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(until, cancel)()
		r = r.WithContext(ctx)
	}
	ctx, err := c.begin(r.Context(), m.ID)
	if errors.Is(err, errEnded) {
		unknownSession(w)
		return
	}
	if err != nil {
		refuse(w, http.StatusOK, m.ID, err)
		return
	}
	defer c.finish()
	reply := mcphttp.NewReply(w, r)
	defer reply.Close()
	result, err := e.serveLegacy(ctx, c.info.Load(), m, &requestPeer{write: reply.Send, requests: c})
	c.release(m.ID)
	e.answer(reply, http.StatusOK, wire.Response(m.ID, result, err))
}

func (e *endpoint) postInitialize(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message) {
	if requesterOf(r.Context()).forwarded { // a forwarded request never opens a session here
		unknownSession(w)
		return
	}
	if !e.admit(w, r) {
		return
	}
	c, result, err := e.openSession(r.Context(), requesterFrom(r), m.Params)
	if err != nil {
		status := http.StatusOK
		if fault, ok := errors.AsType[*protocol.Error](err); ok && fault.RetryAfter > 0 {
			status = http.StatusServiceUnavailable
			mcphttp.RetryAfter(w, fault.RetryAfter)
		}
		refuse(w, status, m.ID, err)
		return
	}
	w.Header().Set(mcphttp.SessionHeader, c.id)
	if err := mcphttp.WriteJSON(w, http.StatusOK, wire.Response(m.ID, result, nil)); err != nil {
		c.end(errEnded) // the client does not know the id
	}
}

// unusedTimeout is how long a session may stay without any request or stream, so that a client that only opens sessions
// does not hold slots for long.
const unusedTimeout = time.Minute

// openSession initializes a session in a slot taken by admit. ctx ends when the client no longer waits.
func (e *endpoint) openSession(ctx context.Context, by requester, params json.RawMessage,
) (*clientSession, json.RawMessage, error) {
	outbox := mcphttp.NewOutbox()
	c := e.newSession(cmp.Or(by.until, context.Background()), e.withHome(rand.Text()),
		protocol.FrontHTTP, by, e.extension, outbox.Offer)
	c.outbox = outbox
	c.onEnd = sync.OnceFunc(func() {
		outbox.Close()
		e.sessions.remove(c)
	})
	result, err := c.initialize(ctx, params) // may wait for the extension to start
	c.mu.Lock()
	c.idle.since, c.idle.limit = time.Now(), min(unusedTimeout, e.options.SessionIdle)
	c.idle.expiry = time.AfterFunc(c.idle.limit, c.expire)
	c.mu.Unlock()
	e.sessions.add(c)
	context.AfterFunc(c.attached, func() { c.end(nil) }) // the context may end with the caller's access
	if err == nil && e.closing.Err() != nil {            // Close may have run before add
		err = protocol.Errorf(protocol.ShuttingDown, "the server is shutting down")
	}
	if err != nil {
		c.end(err)
		return nil, nil, err
	}
	return c, result, nil
}

// get serves a session's standalone stream. A new stream replaces the previous one.
func (e *endpoint) get(w http.ResponseWriter, r *http.Request) {
	c := e.session(w, r)
	if c == nil {
		return
	}
	c.addStreams(1)
	defer c.addStreams(-1)
	if err := c.outbox.Serve(r.Context(), w, ""); err != nil && r.Context().Err() == nil {
		e.log.Debug("a client stopped reading its stream", "error", err)
	}
}

// session returns the session named in r's header. If the id is missing or unknown to this caller, it answers r and
// returns nil.
func (e *endpoint) session(w http.ResponseWriter, r *http.Request) *clientSession {
	id := r.Header.Get(mcphttp.SessionHeader)
	if id == "" {
		http.Error(w, "header "+mcphttp.SessionHeader+" is required; initialize gives one", http.StatusBadRequest)
		return nil
	}
	c := e.sessions.get(id, requesterOf(r.Context()), e.extension)
	if c == nil || c.outbox == nil {
		unknownSession(w)
		return nil
	}
	return c
}

// admit takes a slot for a session or subscription, evicting an idle session if all slots are taken. Without a free
// slot it answers r and returns false.
func (e *endpoint) admit(w http.ResponseWriter, r *http.Request) bool {
	if e.closing.Err() != nil {
		http.Error(w, "the server is shutting down", http.StatusServiceUnavailable)
		return false
	}
	if !e.sessions.acquire() && !(e.sessions.evict(CallerOf(r.Context())) && e.sessions.acquire()) {
		w.Header().Set("Retry-After", "30")
		http.Error(w, fmt.Sprintf("all %d sessions are in use; try again later", e.options.MaxSessions),
			http.StatusTooManyRequests)
		return false
	}
	return true
}

// refuse answers a request that is not run.
func refuse(w http.ResponseWriter, status int, id json.RawMessage, err error) {
	// a failed write means that the client has disconnected
	_ = mcphttp.WriteJSON(w, status, wire.Response(id, nil, err))
}

func (e *endpoint) answer(reply *mcphttp.Reply, status int, m *jsonrpc.Message) {
	if err := reply.Answer(status, m); err != nil {
		e.log.Debug("a client did not take its answer", "error", err)
	}
}
