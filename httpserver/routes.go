package httpserver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/httpserver/internal/dashboard"
	"github.com/exthost/exthost/httpserver/internal/metrics"
	"github.com/exthost/exthost/internal/mcphttp"
	"github.com/exthost/exthost/mcpserver"
	"github.com/exthost/exthost/protocol"
)

// Bridge manages destinations. [exthost.Bridge] implements it.
type Bridge interface {
	// Destinations yields the destinations, at once and after each change.
	Destinations(ctx context.Context) iter.Seq[[]exthost.Destination]
	// EnvHeaders returns the environment variables that headers set, see [exthost.Bridge].
	EnvHeaders(name string) map[string]string
	// Listens records the URL of a destination's own port; "" if it has none.
	Listens(name, address string)
	// Refuses returns why a request of s to s.Extension would be refused, or nil.
	Refuses(s *protocol.Session) error
}

var (
	_ Bridge  = (*exthost.Bridge)(nil)
	_ Clients = (*exthost.Clients)(nil)
)

func (s *Server) newRoutes() http.Handler {
	mux := http.NewServeMux()
	sse, message := s.mcp.SSE("")
	mux.Handle("/mcp", s.mcp.Handler(""))
	mux.Handle("/sse", sse)
	mux.Handle("/message", message)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeStatus(w, http.StatusOK, `{"status":"ok"}`)
	})
	mux.HandleFunc("GET /readyz", s.readyz)
	if s.options.Metrics != nil {
		mux.Handle("GET /metrics", s.options.Metrics)
	}
	if s.options.Admin != nil {
		mux.Handle(apiRoot+"/", operatorOnly(withStreamEnd(s.ending, s.options.Admin)))
		mux.Handle("GET /ui/", dashboard.Handler())
	}
	if s.options.OAuth != nil {
		mux.Handle(metadataPath, s.metadata())
		mux.Handle(metadataPath+"/", s.metadata())
	}
	mux.HandleFunc("/", s.serveByID)
	return mux
}

// readyz answers whether requests would be served. The client gets the kind of the
// error only, because the message may describe this machine.
func (s *Server) readyz(w http.ResponseWriter, _ *http.Request) {
	var err error
	if s.options.Ready != nil {
		err = s.options.Ready()
	}
	if err == nil {
		writeStatus(w, http.StatusOK, `{"status":"ready"}`)
		return
	}
	kind := cmp.Or(protocol.KindOf(err), protocol.NotReady)
	s.options.Logger.Debug("not ready", "error", err)
	w.Header().Set("Retry-After", "1")
	writeStatus(w, http.StatusServiceUnavailable, `{"status":"not ready","kind":"`+string(kind)+`"}`)
}

// Metrics returns a handler with the metrics of a host, for Prometheus. It reads the
// host's own counters at each scrape and costs nothing in between. Each label has its
// values from a closed set or from the configuration; tools beyond 4096 share one.
func Metrics(h *exthost.Host) http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(metrics.Collector{Host: h}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{MaxRequestsInFlight: 2})
}

func writeStatus(w http.ResponseWriter, status int, body string) {
	_ = writeJSON(w, status, json.RawMessage(body)) // raw JSON always encodes
}

// serveByID serves the paths below /{id}/. No extension has an id that would hide
// another route.
func (s *Server) serveByID(w http.ResponseWriter, r *http.Request) {
	id, name, ok := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if !ok || id == "" || s.options.Serves == nil || !s.options.Serves(id) {
		http.NotFound(w, r)
		return
	}
	s.serveExtension(w, r, id, name)
}

// serveExtension serves the endpoint mcp, sse or message of one extension or
// destination, whose tools have their own names there.
func (s *Server) serveExtension(w http.ResponseWriter, r *http.Request, id, endpoint string) {
	sse, message := s.mcp.SSE(id)
	var h http.Handler
	switch endpoint {
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
		env := envOf(r.Header, s.options.Bridge.EnvHeaders(id))
		if env != nil {
			r = r.WithContext(mcpserver.WithEnv(r.Context(), env))
		}
		if s.refused(w, r, id, env) {
			return
		}
	}
	h.ServeHTTP(w, r)
}

// refused answers a request to a destination that keeps failing with 503, Retry-After
// and the error. It returns false for all other requests.
func (s *Server) refused(w http.ResponseWriter, r *http.Request, id string, env map[string]string) bool {
	session := cmp.Or(r.Header.Get(mcphttp.SessionHeader), r.URL.Query().Get("sessionId"))
	err := s.options.Bridge.Refuses(&protocol.Session{ID: mcpserver.PublicID(session), Caller: mcpserver.CallerOf(r.Context()),
		Version: r.Header.Get(mcphttp.VersionHeader), Extension: id, Env: env})
	if err == nil {
		return false
	}
	e, ok := errors.AsType[*protocol.Error](err)
	if !ok {
		e = protocol.Errorf(protocol.NotReady, "%w", err)
	}
	body, _ := json.Marshal(e.Wire()) // Wire checks its data
	w.Header().Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(e.RetryAfter.Seconds())))))
	writeStatus(w, http.StatusServiceUnavailable, `{"jsonrpc":"2.0","id":null,"error":`+string(body)+`}`)
	return true
}

// envOf returns the environment variables that headers set, by the variable's name.
// net/http has rejected values that a variable cannot have.
func envOf(h http.Header, variables map[string]string) map[string]string {
	var env map[string]string
	for name, variable := range variables {
		value := h.Get(name)
		if value == "" {
			continue
		}
		if env == nil {
			env = make(map[string]string, len(variables))
		}
		env[variable] = value
	}
	return env
}
