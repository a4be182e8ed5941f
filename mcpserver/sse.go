package mcpserver

import (
	"context"
	"crypto/rand"
	"net/http"
	"net/url"
	"path"
	"sync"

	"github.com/exthost/exthost/internal/jsonrpc"
	"github.com/exthost/exthost/internal/mcphttp"
)

// SSE returns the two handlers of HTTP with server-sent events, the transport of
// revision 2024-11-05, for the named extension, or for "" for all of them: a GET of
// the first is a session that lasts as long as its stream, and names the URL to POST
// to, "message" beside its own; the second takes those POSTs. Whatever is answered
// goes to the stream of the session that asked and to no other.
func (s *Server) SSE(extension string) (sse, message http.Handler) {
	f := &httpFront{s, extension}
	return http.HandlerFunc(f.serveSSE), http.HandlerFunc(f.serveMessage)
}

func (s *httpFront) serveSSE(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		notAllowed(w, http.MethodGet)
		return
	}
	if !s.admit(w, r) {
		return
	}
	outbox := mcphttp.NewOutbox()
	c := s.newConversation(r.Context(), rand.Text(), visitOf(r.Context()), s.extension, outbox.Put)
	c.onEnd = sync.OnceFunc(func() {
		outbox.Close()
		s.sessions.remove(c)
	})
	c.channel = &duplex{conversation: c, running: r.Context(), tell: func(m *jsonrpc.Message) {
		if session := c.channel.opened(); session != nil {
			s.tell(r.Context(), session, m)
		}
	}}
	s.sessions.add(c)
	if s.closing.Err() != nil { // Close may have come before add
		c.end(errEnded)
	}
	endpoint := url.URL{Path: path.Join(path.Dir(r.URL.Path), "message"), RawQuery: "sessionId=" + c.id}
	if err := outbox.Serve(r.Context(), w, endpoint.String()); err != nil && r.Context().Err() == nil {
		s.log.Debug("a client stopped reading its stream", "error", err)
	}
	c.end(errEnded)
	ctx, cancel := context.WithTimeout(context.Background(), stopWait)
	defer cancel()
	c.wait(ctx)
}

func (s *httpFront) serveMessage(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		notAllowed(w, http.MethodPost)
		return
	}
	c := s.sessions.get(r.URL.Query().Get("sessionId"), CallerOf(r.Context()), s.extension)
	if c == nil || c.channel == nil {
		unknownSession(w)
		return
	}
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
	c.channel.receive(&m, mcphttp.HoldBody(r.Context()))
	w.WriteHeader(http.StatusAccepted)
}
