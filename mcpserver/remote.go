package mcpserver

import (
	"context"
	"net/http"
	"strings"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/mcpserver/internal/wire"
)

// homeOf returns the home of the server that made id, or "" if this server made it.
func (e *endpoint) homeOf(r *http.Request, id string) string {
	if e.forwarder == nil || requesterOf(r.Context()).forwarded {
		return ""
	}
	return e.forwarder.homeOf(id)
}

// homeOfCall returns the home of the server where the call that m continues is pending, or "" if it is here or the
// requestState is not one of exthost's.
func (e *endpoint) homeOfCall(r *http.Request, m *jsonrpc.Message) string {
	state, _ := rawjson.Text(wire.Member(m.Params, "requestState"))
	if !strings.HasPrefix(state, statePrefix) {
		return ""
	}
	return e.homeOf(r, state)
}

// forwardable returns the head with which r is forwarded to another server.
func (e *endpoint) forwardable(r *http.Request, endpoint string) *forwardedRequest {
	by := requesterFrom(r)
	q := &forwardedRequest{
		Extension: e.extension,
		Endpoint:  endpoint,
		Method:    r.Method,
		Query:     r.URL.RawQuery,
		Client:    r.RemoteAddr,
		Caller:    by.caller,
		Toolset:   by.toolset,
		ToolMode:  by.toolMode,
	}
	q.setHeader(r, e.headers)
	return q
}

// forwarded forwards a request to the server that made the session id, if that is another server. It reports whether
// the request is answered.
func (e *endpoint) forwarded(w http.ResponseWriter, r *http.Request, id, endpoint string) bool {
	home := e.homeOf(r, id)
	if home != "" {
		e.forwarder.session(w, r, e.forwardable(r, endpoint), home)
	}
	return home != ""
}

// serveForwarded serves a request that another server received, authenticated and forwarded here. Only requests for
// sessions, calls and tasks of this server are served; others get 404.
func (s *Server) serveForwarded(ctx context.Context, w http.ResponseWriter, request []byte) {
	q, r, err := decodeForwarded(ctx, request)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r, release := s.bodies.Meter(r)
	defer release()
	e := &endpoint{s, q.Extension}
	r = r.WithContext(with(r.Context(), func(by *requester) {
		*by = requester{caller: q.Caller, toolset: q.Toolset, toolMode: q.ToolMode, remote: true, forwarded: true}
	}))
	switch q.Endpoint {
	case endpointMCP:
		e.serveHTTP(w, r)
	case endpointMessage:
		e.serveMessage(w, r)
	default:
		http.NotFound(w, r)
	}
}
