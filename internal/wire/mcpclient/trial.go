package mcpclient

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/internal/wire/mcphttp"
	"github.com/exthost/exthost/protocol"
)

// A server may answer 401 because it does not know the session, or because the session was opened with another token.
// Other credentials would not help then, and no user should be asked to sign in. So before a 401 is attributed to the
// credentials, they are tried in another session.

// trialRest is how long credentials are not tried again after another session has refused them too.
// Without it every call with wrong credentials would take five requests, and could leave a session
// open on the server.
const trialRest = 10 * time.Second

// isOutlived reports whether a 401 to r is due to the end of r's session: the server also refuses a
// ping in that session, but answers a ping in a new session with the same credentials. That the
// server opens a session is not enough, because some servers check credentials only afterwards.
func (s *Streamable) isOutlived(r *http.Request) bool {
	if r.Method == http.MethodDelete || r.Header.Get(mcphttp.SessionHeader) == "" {
		return false
	}
	credentials := r.Header["Authorization"]
	s.mu.Lock()
	if s.lost != nil {
		defer s.mu.Unlock()
		return errors.Is(s.lost, ErrSessionGone)
	}
	if slices.Equal(s.wrong, credentials) && time.Now().Before(s.rest) {
		defer s.mu.Unlock()
		return false
	}
	p := s.beginLocked(&s.trial, func(p *probe) { p.gone = s.tryAnother(credentials) })
	s.mu.Unlock()
	select {
	case <-p.done:
		return p.gone
	case <-r.Context().Done():
		return false
	}
}

// tryAnother reports whether credentials are refused in the session but work in another one. Credentials that are
// refused in both are recorded in s.wrong.
func (s *Streamable) tryAnother(credentials []string) bool {
	ctx, cancel := context.WithTimeout(s.ctx, pingTimeout)
	defer cancel()
	ping := jsonrpc.Message{ID: pingID, Method: protocol.MethodPing}
	body, err := jsonrpc.Append(nil, &ping)
	if err != nil {
		return false
	}
	h := s.header(&ping)
	if said := s.ask(ctx, credentials, body, h); said.status != http.StatusUnauthorized {
		return false
	}
	said := s.askAnother(ctx, credentials, body, h)
	if said.status == http.StatusUnauthorized {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.wrong, s.rest = credentials, time.Now().Add(trialRest)
	}
	return said.ok
}

// askAnother opens another session with these credentials, posts a request with the headers h in
// that session, and ends the session.
func (s *Streamable) askAnother(ctx context.Context, credentials []string, body []byte, h http.Header) reply {
	s.mu.Lock()
	opening := s.opening
	s.mu.Unlock()
	opened := s.ask(ctx, credentials, opening, http.Header{"Accept": h["Accept"]})
	h.Del(mcphttp.SessionHeader)
	if opened.session != "" {
		h.Set(mcphttp.SessionHeader, opened.session)
		defer func() {
			ctx, cancel := context.WithTimeout(s.ctx, pingTimeout) // ctx may have ended
			defer cancel()
			s.ask(ctx, credentials, nil, h)
		}()
	}
	if !opened.ok {
		return opened
	}
	return s.ask(ctx, credentials, body, h)
}

// reply is the answer to one request of a trial.
type reply struct {
	status  int    // HTTP status; 0: no answer
	session string // the session opened, or ""
	ok      bool   // the answer is a result
}

// ask posts a request with exactly these credentials. Without a body it ends the session named in h.
func (s *Streamable) ask(ctx context.Context, credentials []string, body []byte, h http.Header) (said reply) {
	method := http.MethodPost
	if body == nil {
		method = http.MethodDelete
	}
	r, err := s.newRequest(ctx, method, s.url, body, h)
	if err != nil {
		return said
	}
	r.Header.Del("Authorization")
	if credentials != nil {
		r.Header["Authorization"] = credentials
	}
	resp, err := s.send(r, func() {})
	if err != nil {
		return said
	}
	defer resp.Body.Close()
	said.status, said.session = resp.StatusCode, resp.Header.Get(mcphttp.SessionHeader)
	if resp.StatusCode == http.StatusOK {
		m, ok := readResponse(resp, rawjson.Get(body, "id"))
		said.ok = ok && m.Result != nil
	}
	return said
}
