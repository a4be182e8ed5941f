package httpserver

import (
	"net/http"

	"github.com/exthost/exthost/protocol"
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
		mux.Handle(apiRoot+"/", operatorOnly(s.untilEnding(s.options.Admin)))
		mux.Handle("GET /ui/", dashboard())
	}
	if s.options.OAuth != nil {
		mux.Handle(metadataPath, s.metadata())
		mux.Handle(metadataPath+"/", s.metadata())
	}
	mux.HandleFunc("/", s.one)
	return mux
}

// readyz says whether requests would be served. What is the matter is for the
// log: its kind is all that leaves the machine.
func (s *Server) readyz(w http.ResponseWriter, _ *http.Request) {
	if s.options.Ready == nil {
		writeStatus(w, http.StatusOK, `{"status":"ready"}`)
		return
	}
	err := s.options.Ready()
	if err == nil {
		writeStatus(w, http.StatusOK, `{"status":"ready"}`)
		return
	}
	kind := protocol.KindOf(err)
	if kind == "" {
		kind = protocol.NotReady
	}
	s.options.Logger.Debug("not ready", "error", err)
	w.Header().Set("Retry-After", "1")
	writeStatus(w, http.StatusServiceUnavailable, `{"status":"not ready","kind":"`+string(kind)+`"}`)
}

func writeStatus(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body + "\n")) // nobody is left to tell
}
