package forward

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

// Servers reaches the other servers, see [mcpserver.Elsewhere].
type Servers interface {
	Home() string
	Homes() []string
	Forward(ctx context.Context, w http.ResponseWriter, home string, request []byte) (began bool, err error)
}

// Others forwards requests to the other servers. It is safe for concurrent use.
type Others struct {
	closing context.Context
	servers Servers
	maxBody int64
	log     *slog.Logger
	tasks   *tasks
}

// NewOthers returns an Others. Forwarded streams also end with closing. maxBody bounds the body of a request, in
// bytes.
func NewOthers(closing context.Context, s Servers, maxBody int64, log *slog.Logger) *Others {
	return &Others{closing, s, maxBody, log, newTasks()}
}

// HomeOf returns the home of the server that made id, or "" if this server made it.
func (o *Others) HomeOf(id string) string {
	home := ""
	if i := strings.LastIndexByte(id, '.'); i >= 0 {
		home = id[i+1:]
	}
	if home == o.servers.Home() {
		return ""
	}
	return home
}

// UnknownSession answers a request for an unknown session with 404, which makes the client initialize again.
func UnknownSession(w http.ResponseWriter) {
	http.Error(w, "no such session", http.StatusNotFound)
}

// Session forwards a session's request to the server named home. If that server is gone, it answers that the session
// is unknown.
func (o *Others) Session(w http.ResponseWriter, r *http.Request, q *Request, home string) {
	var body []byte
	if r.Method == http.MethodPost {
		var ok bool
		if body, ok = mcphttp.ReadBody(w, r, o.maxBody); !ok {
			return
		}
	}
	out := &response{ResponseWriter: w}
	if r.Method == http.MethodGet { // a stream, which does not end by itself
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(o.closing, cancel)()
		r = r.WithContext(ctx)
	}
	began, err := o.servers.Forward(r.Context(), out, home, q.encode(body))
	if err == nil {
		return
	}
	err = reason(r, err)
	m, _ := mcphttp.Decode(body)
	switch {
	case began:
		o.cut(out, r, &m, err)
	case isUnsent(err):
		UnknownSession(w)
	case m.ID == nil || m.Method == "":
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	default:
		// a failed write means that the client has disconnected
		_ = mcphttp.WriteJSON(w, http.StatusOK, wire.Response(m.ID, nil, err))
	}
}

// ErrGone is the error of a call that waited for input on a server that is gone.
var ErrGone = &protocol.Error{
	Kind:    protocol.NodeLost,
	Outcome: "unknown",
	Message: "the server that had the call is gone",
}

// Call forwards m, which continues a pending call, to the server named home.
func (o *Others) Call(w http.ResponseWriter, r *http.Request, q *Request, home string, m *jsonrpc.Message) {
	began, out := false, &response{ResponseWriter: w}
	body, err := jsonrpc.Append(nil, m)
	if err == nil {
		began, err = o.servers.Forward(r.Context(), out, home, q.encode(body))
	}
	if isUnsent(err) {
		err = ErrGone
	}
	o.failed(out, r, m, began, err)
}

// Task forwards m to the server that has the task m is about. It reports whether the request is answered.
func (o *Others) Task(w http.ResponseWriter, r *http.Request, q *Request, m *jsonrpc.Message) bool {
	body, err := jsonrpc.Append(nil, m)
	if err != nil {
		return false
	}
	id, _ := rawjson.Text(wire.Member(m.Params, "taskId"))
	request := q.encode(body)
	out := &response{ResponseWriter: w}
	found, err := o.tasks.serve(r.Context(), out, task{q.Caller, id}, len(request), o.servers.Homes(),
		func(ctx context.Context, w http.ResponseWriter, home string) (bool, error) {
			return o.servers.Forward(ctx, w, home, request)
		})
	o.failed(out, r, m, found, err)
	return found || err != nil
}

// failed answers m, a request of 2026-07-28, with err, unless that is nil.
func (o *Others) failed(w *response, r *http.Request, m *jsonrpc.Message, began bool, err error) {
	switch err = reason(r, err); {
	case err == nil:
	case began:
		o.cut(w, r, m, err)
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
func (o *Others) cut(w *response, r *http.Request, m *jsonrpc.Message, err error) {
	ended := r.Context().Err() != nil
	if !ended {
		o.log.Warn("the response of another node is cut", "error", err)
	}
	if isUnsent(err) {
		err = ErrGone
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
