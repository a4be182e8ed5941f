package mcpserver

import (
	"context"
	"net/http"

	"github.com/exthost/exthost/internal/jsonrpc"
	"github.com/exthost/exthost/internal/mcphttp"
	"github.com/exthost/exthost/mcpserver/internal/forward"
	"github.com/exthost/exthost/mcpserver/internal/wire"
)

// homeOf returns the home of an id if another server has made it, else "".
func (e *endpoint) homeOf(r *http.Request, id string) string {
	home := forward.Home(id)
	if e.options.Elsewhere == nil || home == e.options.Elsewhere.Home() || requesterOf(r.Context()).forwarded {
		return ""
	}
	return home
}

// forwarded carries a request to the server that has made id, if that is another one. It reports
// whether the request is answered.
func (e *endpoint) forwarded(w http.ResponseWriter, r *http.Request, id, endpoint string) bool {
	home := e.homeOf(r, id)
	if home == "" {
		return false
	}
	var body []byte
	if r.Method == http.MethodPost {
		var ok bool
		if body, ok = mcphttp.ReadBody(w, r, e.options.MaxBody); !ok {
			return true
		}
	}
	if err := e.forward(w, r, home, endpoint, body); forward.NoHome(err) {
		unknownSession(w)
	} else if err != nil {
		m, _ := mcphttp.Decode(body)
		refuseForwarded(w, &m, http.StatusOK, err)
	}
	return true
}

// refuseForwarded answers a request that another server has not answered.
func refuseForwarded(w http.ResponseWriter, m *jsonrpc.Message, status int, err error) {
	if m.ID == nil || m.Method == "" {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	refuse(w, status, m.ID, err)
}

// forward carries a request to another server. The error says that w is not written to; what ends
// in the middle is cut, or ends with the error where that can be said.
func (e *endpoint) forward(w http.ResponseWriter, r *http.Request, home, endpoint string, body []byte) error {
	by := requesterFrom(r)
	q := forward.Request{Extension: e.extension, Endpoint: endpoint, Method: r.Method, Query: r.URL.RawQuery, Client: r.RemoteAddr,
		Caller: by.caller, Toolset: by.toolset, ToolMode: by.toolMode}
	q.SetHeader(r, e.headers)
	began, err := e.options.Elsewhere.Forward(r.Context(), w, home, q.Encode(body))
	if err == nil || !began || r.Context().Err() != nil {
		return err
	}
	if forward.NoHome(err) {
		err = errGone
	}
	e.log.Warn("the response of another server is cut", "error", err)
	m, _ := mcphttp.Decode(body)
	forward.Cut(w, &m, wire.Response(m.ID, nil, err))
	return nil
}

// continueElsewhere carries the request m to the server that has the call which m continues.
func (e *endpoint) continueElsewhere(w http.ResponseWriter, r *http.Request, home string, m *jsonrpc.Message) {
	body, err := jsonrpc.Append(nil, m)
	if err == nil {
		err = e.forward(w, r, home, forward.EndpointMCP, body)
	}
	if forward.NoHome(err) {
		err = errGone
	}
	if err != nil {
		refuseForwarded(w, m, wire.Status(m.Method, err), err)
	}
}

// serveForwarded serves a request that another server got and carried here, which vouches for its
// caller: one of a session or a call that this server has begun. All others are answered 404.
func (s *Server) serveForwarded(ctx context.Context, w http.ResponseWriter, request []byte) {
	q, r, err := forward.Decode(ctx, request)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	e := &endpoint{s, q.Extension}
	r = r.WithContext(with(ctx, func(by *requester) {
		*by = requester{caller: q.Caller, toolset: q.Toolset, toolMode: q.ToolMode, remote: true, forwarded: true}
	}))
	switch q.Endpoint {
	case forward.EndpointMCP:
		e.serveHTTP(w, r)
	case forward.EndpointMessage:
		e.serveMessage(w, r)
	default:
		http.NotFound(w, r)
	}
}
