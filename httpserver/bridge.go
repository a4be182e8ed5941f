package httpserver

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/mcphttp"
	"github.com/exthost/exthost/mcpserver"
	"github.com/exthost/exthost/protocol"
)

// Bridge is what there is to know of destinations; [exthost.Bridge] is one.
type Bridge interface {
	// Destinations yields the destinations, and again whenever there are others.
	Destinations(ctx context.Context) iter.Seq[[]exthost.Destination]
	// EnvHeaders returns the variables that headers become, see [exthost.Bridge].
	EnvHeaders(name string) map[string]string
	// Listens notes where a destination has its own port; "" nowhere.
	Listens(name, address string)
	// Refuses returns why a request of s to s.Extension would be refused, if it would.
	Refuses(s *protocol.Session) error
}

var _ Bridge = (*exthost.Bridge)(nil)

// one serves what is below /{id}/. Ids that would hide another route are not given
// to extensions.
func (s *Server) one(w http.ResponseWriter, r *http.Request) {
	id, front, ok := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if !ok || id == "" || s.options.Serves == nil || !s.options.Serves(id) {
		http.NotFound(w, r)
		return
	}
	s.serveOne(w, r, id, front)
}

// serveOne serves mcp, sse and message of a single extension or destination under
// its own names.
func (s *Server) serveOne(w http.ResponseWriter, r *http.Request, id, front string) {
	sse, message := s.mcp.SSE(id)
	var h http.Handler
	switch front {
	case "mcp":
		h = s.mcp.Handler(id)
	case "sse":
		h = sse
	case "message":
		h = message
	default:
		http.NotFound(w, r)
		return
	}
	if s.options.Bridge != nil && r.Method != http.MethodDelete {
		env := environ(s.options.Bridge.EnvHeaders(id), r.Header)
		if env != nil {
			r = r.WithContext(mcpserver.WithEnv(r.Context(), env))
		}
		if s.refused(w, r, id, env) {
			return
		}
	}
	h.ServeHTTP(w, r)
}

// refused answers a request to a destination that keeps failing with 503, when to
// try again, and what is known of why.
func (s *Server) refused(w http.ResponseWriter, r *http.Request, id string, env map[string]string) bool {
	session := r.Header.Get(mcphttp.SessionHeader)
	if session == "" {
		session = r.URL.Query().Get("sessionId")
	}
	err := s.options.Bridge.Refuses(&protocol.Session{ID: session, Caller: mcpserver.CallerOf(r.Context()),
		Version: r.Header.Get(mcphttp.VersionHeader), Extension: id, Env: env})
	if err == nil {
		return false
	}
	e, ok := errors.AsType[*protocol.Error](err)
	if !ok {
		e = protocol.Errorf(protocol.NotReady, "%w", err)
	}
	body, _ := json.Marshal(e.Wire()) // its data has been checked
	w.Header().Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(e.RetryAfter.Seconds())))))
	writeStatus(w, http.StatusServiceUnavailable, `{"jsonrpc":"2.0","id":null,"error":`+string(body)+`}`)
	return true
}

// environ are the variables that a request's headers become. What could not be one's
// value, net/http has refused.
func environ(wanted map[string]string, h http.Header) map[string]string {
	var env map[string]string
	for name, variable := range wanted {
		value := h.Get(name)
		if value == "" {
			continue
		}
		if env == nil {
			env = make(map[string]string, len(wanted))
		}
		env[variable] = value
	}
	return env
}
