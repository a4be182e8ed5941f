package httpserver

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/exthost/exthost/internal/wire/mcphttp"
	"github.com/exthost/exthost/mcpserver"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

func (s *Server) newRoutes() http.Handler {
	mux := http.NewServeMux()
	for _, name := range []string{"mcp", "sse", "message"} {
		mux.Handle("/"+name, s.endpoint("", name))
	}
	mux.Handle("/mcp/{$}", s.endpoint("", "mcp")) // many clients append a slash
	mux.HandleFunc("/t/{toolset}/{endpoint}", s.serveToolset)
	mux.HandleFunc("/t/{toolset}/mcp/{$}", s.serveToolset)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeStatus(w, http.StatusOK, `{"status":"ok"}`)
	})
	mux.HandleFunc("GET "+readyPath, s.readyz)
	if s.options.Metrics != nil {
		mux.Handle("GET "+metricsPath, s.toolsets.unrestrictedOnly(s.options.Metrics))
	}
	if s.options.Admin != nil {
		mux.Handle(apiRoot+"/", operatorOnly(withStreamEnd(s.ending, s.options.Admin)))
		mux.Handle("GET /ui/", dashboardHandler())
	}
	if o := s.options.OAuth; o != nil {
		metadata := o.metadata(s.options.MCP.Name)
		mux.Handle(metadataPath, metadata)
		mux.Handle(metadataPath+"/", metadata)
	}
	mux.HandleFunc("/", s.serveByID)
	return s.confined(mux)
}

// confined gives the default toolset to clients that have none, except for the operator.
func (s *Server) confined(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, operator := r.Context().Value(operatorKey{}).(string)
		scoped := r.Context().Value(scopedKey{}) != nil
		next.ServeHTTP(w, s.toolsets.withDefault(r, operator || scoped))
	})
}

// serveToolset serves the endpoint mcp, sse or message of a toolset.
func (s *Server) serveToolset(w http.ResponseWriter, r *http.Request) {
	h := s.endpoint("", cmp.Or(r.PathValue("endpoint"), "mcp"))
	if h == nil {
		http.NotFound(w, r)
	} else if r = s.toolsets.withChosen(w, r, r.PathValue("toolset")); r != nil {
		h.ServeHTTP(w, r)
	}
}

// endpoint returns the handler of the endpoint mcp, sse or message of an extension; of all extensions if id is "". It
// returns nil for other names.
func (s *Server) endpoint(id, name string) http.Handler {
	sse, message := s.mcp.SSE(id)
	switch name {
	case "mcp", "mcp/":
		return s.mcp.Handler(id)
	case "sse":
		return sse
	case "message":
		return message
	}
	return nil
}

// readyz answers whether requests would be served. Only the operator gets the verdict about the host. Other clients get
// the kind of the error, because the message may describe this machine. Whoever shows no token gets the status alone.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	var answer struct {
		Status  string          `json:"status"`
		Kind    protocol.Kind   `json:"kind,omitempty"`
		Verdict *status.Verdict `json:"verdict,omitempty"`
	}
	code := http.StatusOK
	answer.Status = "ready"
	if s.options.Ready != nil {
		if err := s.options.Ready(); err != nil {
			code, answer.Status = http.StatusServiceUnavailable, "not ready"
			answer.Kind = cmp.Or(protocol.KindOf(err), protocol.NotReady)
			s.options.Logger.Debug("not ready", "error", err)
		}
	}
	if r.Context().Value(strangerKey{}) != nil {
		w.WriteHeader(code)
		return
	}
	if _, operator := r.Context().Value(operatorKey{}).(string); operator && s.options.Verdict != nil {
		v := s.options.Verdict()
		answer.Verdict = &v
	}
	if code != http.StatusOK {
		w.Header().Set("Retry-After", "1")
	}
	_ = writeJSON(w, code, answer) // the error is that of the connection
}

func writeStatus(w http.ResponseWriter, status int, body string) {
	_ = writeJSON(w, status, json.RawMessage(body)) // raw JSON always encodes
}

// serveByID serves the paths below /{id}/. No extension has an id that would hide another route.
func (s *Server) serveByID(w http.ResponseWriter, r *http.Request) {
	id, name, ok := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if !ok || id == "" || s.options.Serves == nil || !s.options.Serves(id) || !s.toolsets.servesExtension(r, id) {
		http.NotFound(w, r)
		return
	}
	s.serveExtension(w, r, id, name)
}

// serveExtension serves the endpoint mcp, sse or message of one extension or destination, where its tools have their
// own names.
func (s *Server) serveExtension(w http.ResponseWriter, r *http.Request, id, endpoint string) {
	h := s.endpoint(id, endpoint)
	if h == nil {
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

// refused answers a request to a destination that keeps failing: with 503, Retry-After and the error. It returns false
// for all other requests, including those for sessions of other servers, where the destination may work.
func (s *Server) refused(w http.ResponseWriter, r *http.Request, id string, env map[string]string) bool {
	session := cmp.Or(r.Header.Get(mcphttp.SessionHeader), r.URL.Query().Get("sessionId"))
	if o := s.options.MCP.Remote; o != nil && session != "" && !strings.HasSuffix(session, "."+o.Home()) {
		return false
	}
	err := s.options.Bridge.Refuses(&protocol.Session{
		ID:        mcpserver.PublicID(session),
		Caller:    mcpserver.CallerOf(r.Context()),
		Version:   r.Header.Get(mcphttp.VersionHeader),
		Extension: id,
		Env:       env,
	})
	if err == nil {
		return false
	}
	e, ok := errors.AsType[*protocol.Error](err)
	if !ok {
		e = protocol.Errorf(protocol.NotReady, "%w", err)
	}
	body, _ := json.Marshal(e.Wire()) // Wire checks its data
	mcphttp.RetryAfter(w, e.RetryAfter)
	writeStatus(w, http.StatusServiceUnavailable, `{"jsonrpc":"2.0","id":null,"error":`+string(body)+`}`)
	return true
}

// envOf returns the environment variables set by headers, by name. net/http has rejected values that a variable
// cannot have.
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
