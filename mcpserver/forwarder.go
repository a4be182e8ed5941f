package mcpserver

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/internal/wire/mcphttp"
	"github.com/exthost/exthost/internal/wire/sse"
	"github.com/exthost/exthost/mcpserver/internal/wire"
	"github.com/exthost/exthost/protocol"
)

// RemoteServers reaches the other servers behind the same address. Clients may send requests for a session to any of
// these servers.
type RemoteServers interface {
	// Home returns the suffix of the session and call ids that this server makes: letters and digits, unique among the
	// servers. The others find this server by it.
	Home() string
	// Forward sends a request to the server named home and streams the response to w. began reports whether anything
	// was written to w. The error, a *protocol.Error, says why the response is missing or incomplete. If no server has
	// that home, its kind is node_lost, and it has no outcome.
	Forward(ctx context.Context, w http.ResponseWriter, home string, request []byte) (began bool, err error)
	// Homes returns the homes of the other running servers.
	Homes() []string
	// ServeForwarded sets the function that serves requests forwarded to this server. It is called once. serve writes
	// the response to w; its ctx ends when the client disconnects.
	ServeForwarded(serve func(ctx context.Context, w http.ResponseWriter, request []byte))
}

// forwarder forwards requests to the other servers. It is safe for concurrent use.
type forwarder struct {
	closing context.Context
	servers RemoteServers
	maxBody int64
	log     *slog.Logger
	tasks   *taskFinder
}

// newForwarder returns a forwarder, whose streams end at the latest when closing ends. maxBody bounds the body of a
// request, in bytes.
func newForwarder(closing context.Context, s RemoteServers, maxBody int64, log *slog.Logger) *forwarder {
	return &forwarder{closing, s, maxBody, log, newTaskFinder()}
}

// homeOf returns the home of the server that made id, or "" if this server made it.
func (f *forwarder) homeOf(id string) string {
	home := ""
	if i := strings.LastIndexByte(id, '.'); i >= 0 {
		home = id[i+1:]
	}
	if home == f.servers.Home() {
		return ""
	}
	return home
}

// unknownSession answers a request for an unknown session with 404, which makes the client initialize again.
func unknownSession(w http.ResponseWriter) {
	http.Error(w, "no such session", http.StatusNotFound)
}

// session forwards a session's request to the server named home. If that server is gone, session answers that the
// session is unknown.
func (f *forwarder) session(w http.ResponseWriter, r *http.Request, q *forwardedRequest, home string) {
	var body []byte
	if r.Method == http.MethodPost {
		var ok bool
		if body, ok = mcphttp.ReadBody(w, r, f.maxBody); !ok {
			return
		}
	}
	out := &forwardedResponse{ResponseWriter: w}
	if r.Method == http.MethodGet { // a stream, which does not end by itself
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(f.closing, cancel)()
		r = r.WithContext(ctx)
	}
	began, err := f.servers.Forward(r.Context(), out, home, q.encode(body))
	if err == nil {
		return
	}
	err = reason(r, err)
	m, _ := mcphttp.Decode(body)
	switch {
	case began:
		f.cut(out, r, &m, err)
	case isUnsent(err):
		unknownSession(w)
	case m.ID == nil || m.Method == "":
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	default:
		// a failed write means that the client has disconnected
		_ = mcphttp.WriteJSON(w, http.StatusOK, wire.Response(m.ID, nil, err))
	}
}

// errServerGone is the error of a call that waited for input on a server that is gone.
var errServerGone = &protocol.Error{
	Kind:    protocol.NodeLost,
	Outcome: "unknown",
	Message: "the server that had the call is gone",
}

// call forwards m, which continues a pending call, to the server named home.
func (f *forwarder) call(w http.ResponseWriter, r *http.Request, q *forwardedRequest, home string, m *jsonrpc.Message) {
	began, out := false, &forwardedResponse{ResponseWriter: w}
	body, err := jsonrpc.Append(nil, m)
	if err == nil {
		began, err = f.servers.Forward(r.Context(), out, home, q.encode(body))
	}
	if isUnsent(err) {
		err = errServerGone
	}
	f.failed(out, r, m, began, err)
}

// task forwards m, a request about a task, to the server that has the task. It reports whether m has been answered.
func (f *forwarder) task(w http.ResponseWriter, r *http.Request, q *forwardedRequest, m *jsonrpc.Message) bool {
	body, err := jsonrpc.Append(nil, m)
	if err != nil {
		return false
	}
	id, _ := rawjson.Text(wire.Member(m.Params, "taskId"))
	request := q.encode(body)
	out := &forwardedResponse{ResponseWriter: w}
	found, err := f.tasks.serve(r.Context(), out, taskKey{q.Caller, id}, len(request), f.servers.Homes(),
		func(ctx context.Context, w http.ResponseWriter, home string) (bool, error) {
			return f.servers.Forward(ctx, w, home, request)
		})
	f.failed(out, r, m, found, err)
	return found || err != nil
}

// failed answers m, a request of 2026-07-28, with err, unless that is nil.
func (f *forwarder) failed(w *forwardedResponse, r *http.Request, m *jsonrpc.Message, began bool, err error) {
	switch err = reason(r, err); {
	case err == nil:
	case began:
		f.cut(w, r, m, err)
	default:
		_ = mcphttp.WriteJSON(w, wire.Status(m.Method, err), wire.Response(m.ID, nil, err))
	}
}

// reason returns err, or a canceled error if this server has ended r. (A client that has disconnected sees neither.)
func reason(r *http.Request, err error) error {
	if err == nil || r.Context().Err() == nil || isUnsent(err) {
		return err
	}
	return &protocol.Error{
		Kind:    protocol.Canceled,
		Outcome: "unknown",
		Message: "the server has ended the request, because the caller's token has ended or the server stops; the " +
			"call may have taken effect",
	}
}

// isUnsent reports whether err says that no server has the requested home.
func isUnsent(err error) bool {
	e, ok := errors.AsType[*protocol.Error](err)
	return ok && e.Kind == protocol.NodeLost && e.Outcome == ""
}

// cut ends an incomplete response. An event stream between two events gets an error as the answer to m. Any other
// response must not look complete: cut panics with http.ErrAbortHandler. A stream that answers no request just ends
// if this server has ended r, because the caller lost access or the server stops.
func (f *forwarder) cut(w *forwardedResponse, r *http.Request, m *jsonrpc.Message, err error) {
	ended := r.Context().Err() != nil
	if !ended {
		f.log.Warn("the response of another node is cut", "error", err)
	}
	if isUnsent(err) {
		err = errServerGone
	}
	if !w.isBetweenEvents() {
		panic(http.ErrAbortHandler)
	}
	if m.ID == nil || m.Method == "" {
		if ended {
			return
		}
		panic(http.ErrAbortHandler)
	}
	last := wire.Response(m.ID, nil, err)
	_ = sse.NewWriter(w, "no-cache").Event("message", func(b []byte) ([]byte, error) { return jsonrpc.Append(b, last) },
		true)
}
