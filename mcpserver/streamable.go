package mcpserver

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/exthost/exthost/internal/jsonrpc"
	"github.com/exthost/exthost/internal/mcphttp"
	"github.com/exthost/exthost/protocol"
)

// httpFront is a Server on one URL of HTTP.
type httpFront struct {
	*Server
	extension string // the one it is about; "" for all
}

// Handler returns the streamable HTTP front, both eras on one URL, of the named
// extension, or for "" of all of them. It checks what MCP lays down; hosts, origins
// and tokens are for the handler in front of it.
func (s *Server) Handler(extension string) http.Handler {
	return http.HandlerFunc((&httpFront{s, extension}).serveHTTP)
}

func (s *httpFront) serveHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		s.post(w, r)
		return
	}
	if v := r.Header.Get(mcphttp.VersionHeader); v != "" && !slices.Contains(legacy, v) {
		notAllowed(w, http.MethodPost) // from 2026-07-28 on there is nothing else
		return
	}
	switch r.Method {
	case http.MethodGet:
		s.get(w, r)
	case http.MethodDelete:
		if c := s.session(w, r); c != nil {
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

// post takes one message and finds out which era it belongs to.
func (s *httpFront) post(w http.ResponseWriter, r *http.Request) {
	body, ok := mcphttp.ReadBody(w, r, s.options.MaxBody)
	if !ok {
		return
	}
	m, err := mcphttp.Decode(body)
	if err != nil {
		refuse(w, http.StatusBadRequest, m.ID, err)
		return
	}
	mcphttp.JoinTrace(r.Header, &m)
	version := r.Header.Get(mcphttp.VersionHeader)
	if version == "" && m.Method != protocol.MethodInitialize && r.Header.Get(mcphttp.SessionHeader) == "" {
		if meta := readMeta(m.Params); meta.version != "" {
			s.postStateless(w, r, &m)
			return
		}
	}
	if version == "" || slices.Contains(legacy, version) {
		s.postSession(w, r, &m)
		return
	}
	s.postStateless(w, r, &m)
}

// postSession takes a message of a client that has initialized a session, or is
// about to.
func (s *httpFront) postSession(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message) {
	if m.Method == protocol.MethodInitialize && m.ID != nil && r.Header.Get(mcphttp.SessionHeader) == "" {
		s.postInitialize(w, r, m)
		return
	}
	c := s.session(w, r)
	if c == nil {
		return
	}
	switch {
	case m.Method == "":
		c.answered(m)
	case m.ID != nil:
		c.ready.Store(true)
		s.postRequest(w, r, c, m)
		return
	case m.Method == protocol.MethodCancelled:
		c.cancel(m.Params)
	case m.Method == protocol.MethodInitialized:
		c.ready.Store(true)
	default:
		s.tell(r.Context(), c.session, m)
	}
	w.WriteHeader(http.StatusAccepted)
}

// postRequest runs a request in the handler's own goroutine.
func (s *httpFront) postRequest(w http.ResponseWriter, r *http.Request, c *conversation, m *jsonrpc.Message) {
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
	result, err := s.serveLegacy(ctx, c.session, m, &requestClient{write: reply.Send, asks: c})
	c.release(m.ID)
	s.answer(reply, http.StatusOK, respond(m.ID, result, err))
}

// postInitialize opens a session.
func (s *httpFront) postInitialize(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message) {
	if !s.admit(w, r) {
		return
	}
	c, result, err := s.openSession(r.Context(), m.Params)
	if err != nil {
		refuse(w, http.StatusOK, m.ID, err)
		return
	}
	w.Header().Set(mcphttp.SessionHeader, c.id)
	if err := mcphttp.WriteJSON(w, http.StatusOK, respond(m.ID, result, nil)); err != nil {
		c.end(errEnded) // nobody knows its id
	}
}

// unusedTimeout is how long a session may live before its first request or
// stream: whoever only opens sessions must not lock others out for long.
const unusedTimeout = time.Minute

// openSession initializes a session, in the place that admit has taken for it, for a
// client that waits as long as ctx.
func (s *httpFront) openSession(ctx context.Context, params json.RawMessage) (*conversation, json.RawMessage, error) {
	outbox := mcphttp.NewOutbox()
	c := s.newConversation(context.Background(), rand.Text(), visitOf(ctx), s.extension, outbox.Offer)
	c.outbox = outbox
	c.onEnd = sync.OnceFunc(func() {
		outbox.Close()
		s.sessions.remove(c)
	})
	result, err := c.initialize(ctx, params) // which may wait for its extension to start
	c.mu.Lock()
	c.rested = time.Now()
	c.idle = time.AfterFunc(min(unusedTimeout, s.options.SessionIdle), c.idleEnd)
	c.mu.Unlock()
	s.sessions.add(c)
	if err == nil && s.closing.Err() != nil { // Close may have come before add
		err = protocol.Errorf(protocol.ShuttingDown, "the server is shutting down")
	}
	if err != nil {
		c.end(err)
		return nil, nil, err
	}
	return c, result, nil
}

// get serves the stream of what the session is told outside its requests. The
// newest stream of a session is the one that counts.
func (s *httpFront) get(w http.ResponseWriter, r *http.Request) {
	c := s.session(w, r)
	if c == nil {
		return
	}
	c.stream(1)
	defer c.stream(-1)
	if err := c.outbox.Serve(r.Context(), w, ""); err != nil && r.Context().Err() == nil {
		s.log.Debug("a client stopped reading its stream", "error", err)
	}
}

// session returns the session that r names. When there is none of that id, or not
// for this caller, it answers and returns nil.
func (s *httpFront) session(w http.ResponseWriter, r *http.Request) *conversation {
	id := r.Header.Get(mcphttp.SessionHeader)
	if id == "" {
		http.Error(w, "header "+mcphttp.SessionHeader+" is required; initialize gives one", http.StatusBadRequest)
		return nil
	}
	c := s.sessions.get(id, CallerOf(r.Context()), s.extension)
	if c == nil || c.outbox == nil {
		unknownSession(w)
		return nil
	}
	return c
}

// unknownSession tells the client to initialize anew.
func unknownSession(w http.ResponseWriter) {
	http.Error(w, "no such session", http.StatusNotFound)
}

// admit takes a place for something that lasts, at the cost of the session that has
// been idle longest if need be. When there is none it answers and returns false.
func (s *httpFront) admit(w http.ResponseWriter, r *http.Request) bool {
	if s.closing.Err() != nil {
		http.Error(w, "the server is shutting down", http.StatusServiceUnavailable)
		return false
	}
	if !s.sessions.take() && !(s.sessions.evict(CallerOf(r.Context())) && s.sessions.take()) {
		w.Header().Set("Retry-After", "30")
		http.Error(w, fmt.Sprintf("all %d sessions are in use; try again later", s.options.MaxSessions), http.StatusTooManyRequests)
		return false
	}
	return true
}

// refuse answers a request that was not run.
func refuse(w http.ResponseWriter, status int, id json.RawMessage, err error) {
	_ = mcphttp.WriteJSON(w, status, respond(id, nil, err)) // nobody is left to tell
}

func (s *httpFront) answer(reply *mcphttp.Reply, status int, m *jsonrpc.Message) {
	if err := reply.Answer(status, m); err != nil {
		s.log.Debug("a client did not take its answer", "error", err)
	}
}
