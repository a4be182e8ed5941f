package httpserver

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// Admin returns the handler of the operator's API of a host, below /api/v1. The OpenAPI document at
// /api/v1/openapi.json describes the API. A failed operation answers {"error": [Fault]}. Admin checks no token:
// middleware in front of it must. Without desk, nothing waits to be trusted and the configuration is not changed.
func Admin(h *exthost.Host, desk Desk) http.Handler {
	mux := http.NewServeMux()
	for _, o := range operations(desk) {
		mux.HandleFunc(o.method+" "+apiRoot+o.path, func(w http.ResponseWriter, r *http.Request) {
			if err := o.serve(h, w, r); err != nil {
				fault := FaultOf(err)
				_ = writeJSON(w, faultStatus(fault.Kind), failure{fault}) // always encodes
			}
		})
	}
	return mux
}

// serve answers a request. If it returns an error, nothing has been written.
func (o *operation) serve(h *exthost.Host, w http.ResponseWriter, r *http.Request) error {
	if o.write != nil {
		return o.write(h, w, r)
	}
	if o.stream != nil {
		sources, err := o.stream(h, r)
		if err != nil {
			return err
		}
		return serveStream(w, r, sources...)
	}
	answer, err := o.handle(h, r)
	switch {
	case err != nil:
		return err
	case answer == nil:
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return writeJSON(w, http.StatusOK, answer)
}

// operations returns all operations in the order of the OpenAPI document.
func operations(desk Desk) []operation {
	return slices.Concat(hostOperations, extensionOperations, toolOperations, policyOperations, historyOperations,
		trustOperations(desk), accessOperations(access{desk}))
}

var hostOperations = []operation{
	{
		method:  "GET",
		path:    "/status",
		summary: "The state of the host, its extensions, destinations and policies",
		answer:  status.Status{},
		handle:  func(h *exthost.Host, _ *http.Request) (any, error) { return h.Admin().Status(), nil },
	},
	{
		method:  "POST",
		path:    "/reload",
		summary: "Apply the current configuration and manifest files",
		query: []parameter{
			{"dry_run", "true: return the changes and apply none"},
			{"only", "the id of an extension: apply only its changes; not with dry_run"},
		},
		answer: status.Change{},
		handle: reload,
	},
	{
		method:  "POST",
		path:    "/clients/reload",
		summary: "Apply the named clients of the configuration, and nothing else: removed clients are refused at once",
		handle:  func(h *exthost.Host, _ *http.Request) (any, error) { return nil, h.Clients().Reload() },
	},
	{
		method:  "GET",
		path:    "/hooks",
		summary: "The hooks, by event and in the order in which they run",
		answer:  hookList{},
		handle: func(h *exthost.Host, _ *http.Request) (any, error) {
			return hookList{h.Admin().Hooks()}, nil
		},
	},
	{
		method:  "GET",
		path:    "/watch",
		summary: "How the host watches the disk for changes",
		answer:  status.Watch{},
		handle:  func(h *exthost.Host, _ *http.Request) (any, error) { return h.Admin().WatchStatus(), nil },
	},
	{
		method:  "POST",
		path:    "/watch",
		summary: "Set how the host watches the disk for changes",
		query:   []parameter{{"mode", "on (default): as configured; off, log or reload"}},
		answer:  status.Watch{},
		handle:  setWatch,
	},
	{
		method:  "GET",
		path:    "/tap",
		summary: "The frames between the host and its extensions, from now on",
		query:   []parameter{{"extension", "only this extension"}},
		events:  map[string]any{"frame": status.Frame{}},
		stream:  streamTap,
	},
	{
		method: "GET",
		path:   "/record",
		summary: "A cassette, line by line: all messages between the host and its extensions from now on, " +
			"with secrets masked",
		query: []parameter{{"id", "a name for /record/stop"},
			{"extension", "only this extension; may be repeated; default all"},
			{"for", "duration, such as 30s; default until it is stopped"}, {"max_bytes", "max size; default 1 GiB"}},
		write: writeRecording,
	},
	{
		method:  "POST",
		path:    "/record/stop",
		summary: "Stop a recording and complete its cassette",
		query:   []parameter{{"id", "of the recording"}},
		handle: func(h *exthost.Host, r *http.Request) (any, error) {
			return nil, h.Recordings().Stop(r.FormValue("id"))
		},
	},
	{
		method:  "GET",
		path:    "/logs",
		summary: "The latest records of the log and, with follow, the new ones",
		query:   append(logQuery, parameter{"follow", "true: continue with new records"}),
		events:  map[string]any{kindLog: status.LogRecord{}},
		stream:  streamLogs,
	},
	{
		method:  "GET",
		path:    "/events",
		summary: "Events from now on, after the status, the pending approval requests and the log so far",
		query: append(logQuery,
			parameter{
				"kinds",
				"kinds of events, separated by commas: " + strings.Join(allKinds(), ", ") + "; default all",
			}),
		events: eventTypes(),
		stream: streamEvents,
	},
	{
		method:  "GET",
		path:    "/openapi.json",
		summary: "This document",
		answer:  json.RawMessage{},
		handle:  func(*exthost.Host, *http.Request) (any, error) { return openAPI, nil },
	},
}

type hookList struct {
	Hooks []status.Hook `json:"hooks"`
}

func reload(h *exthost.Host, r *http.Request) (any, error) {
	dry, err := boolean(r, "dry_run")
	if err != nil {
		return nil, err
	}
	if dry {
		return h.Admin().Plan(r.Context())
	}
	return h.Nodes().Reload(r.Context(), r.FormValue("only"), operator(r))
}

func setWatch(h *exthost.Host, r *http.Request) (any, error) {
	return h.Admin().Watch(r.Context(), cmp.Or(r.FormValue("mode"), "on"))
}

// streamTap streams the frames between the host and its extensions.
func streamTap(h *exthost.Host, r *http.Request) ([]source, error) {
	id := r.FormValue("extension")
	now := h.Status()
	if err := now.NotHere(id, "logs --wire"); err != nil {
		return nil, err
	}
	return []source{func(ctx context.Context, send func(message) bool) {
		for frame := range h.Admin().Tap(ctx, id) {
			if !send(message{"frame", frame}) {
				return
			}
		}
	}}, nil
}

// writeRecording writes a cassette until the client disconnects or the recording ends.
func writeRecording(h *exthost.Host, w http.ResponseWriter, r *http.Request) (err error) {
	o := exthost.RecordOptions{ID: r.FormValue("id"), Extensions: r.Form["extension"]}
	if text := r.FormValue("for"); text != "" {
		if o.For, err = time.ParseDuration(text); err != nil || o.For <= 0 {
			return protocol.Errorf(protocol.InvalidArguments, "for is a time such as 30s, not %q", text)
		}
	}
	most, err := number(r, "max_bytes", 0)
	if err != nil {
		return err
	}
	o.MaxBytes = int64(most)
	ctx, cancel := streamContext(r)
	defer cancel()
	lines := newJSONLines(w)
	// Close, because the recording may have ended without waiting for its last write.
	if err = h.Recordings().Record(ctx, o, lines); lines.Close() {
		return nil // the end of the cassette states the error
	}
	return err
}

//go:generate go test -run ^TestOpenAPIIsCurrent$ -update .

//go:embed openapi.json
var openAPI json.RawMessage
