package mcpserver

import (
	"context"
	"crypto/rand"
	"net/http"
	"net/url"
	"path"
	"sync"

	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/internal/wire/mcphttp"
	"github.com/exthost/exthost/protocol"
)

// SSE returns the two handlers of HTTP with server-sent events (MCP 2024-11-05) for the named extension, or for all if
// extension is "". A GET of sse opens a session that lasts as long as its stream, and sends the client the URL for
// POSTs: "message" beside the URL of sse. message serves these POSTs. All messages to a client go to its session's
// stream.
func (s *Server) SSE(extension string) (sse, message http.Handler) {
	e := &endpoint{s, extension}
	return http.HandlerFunc(e.serveSSE), http.HandlerFunc(e.serveMessage)
}

func (e *endpoint) serveSSE(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		notAllowed(w, http.MethodGet)
		return
	}
	if r = mcphttp.WithPolicyHeaders(w, r, e.headers); r == nil || !e.admit(w, r) {
		return
	}
	ctx, cancel := whileValid(r.Context())
	defer cancel()
	r = r.WithContext(ctx)
	outbox := mcphttp.NewOutbox()
	c := e.newSession(r.Context(), e.withHome(rand.Text()), protocol.FrontSSE, requesterFrom(r),
		e.extension, outbox.Put)
	c.onEnd = sync.OnceFunc(func() {
		outbox.Close()
		e.sessions.remove(c)
	})
	c.stream = &streamSession{
		clientSession: c,
		running:       r.Context(),
		notify: func(m *jsonrpc.Message) {
			if session := c.stream.initialized(); session != nil {
				e.notify(r.Context(), session, m)
			}
		},
	}
	e.sessions.add(c)
	if e.closing.Err() != nil { // Close may have run before add
		c.end(errEnded)
	}
	message := url.URL{Path: path.Join(path.Dir(r.URL.Path), "message"), RawQuery: "sessionId=" + c.id}
	if err := outbox.Serve(r.Context(), w, message.String()); err != nil && r.Context().Err() == nil {
		e.log.Debug("a client stopped reading its stream", "error", err)
	}
	c.end(errEnded)
	grace, stop := context.WithTimeout(context.Background(), cancelGrace)
	defer stop()
	c.wait(grace)
}

func (e *endpoint) serveMessage(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		notAllowed(w, http.MethodPost)
		return
	}
	id := r.URL.Query().Get("sessionId")
	if e.forwarded(w, r, id, endpointMessage) {
		return
	}
	c := e.sessions.get(id, requesterOf(r.Context()), e.extension)
	if c == nil || c.stream == nil {
		unknownSession(w)
		return
	}
	m, ok := e.read(w, r)
	if !ok {
		return
	}
	c.stream.receive(&m, mcphttp.HoldBody(r.Context()))
	w.WriteHeader(http.StatusAccepted)
}
