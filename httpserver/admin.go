package httpserver

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/status"
)

// admin answers the operator.
type admin struct{ host *exthost.Host }

var logQuery = []parameter{
	{"extension", "only what is about this one"},
	{"level", "and above: trace, debug, info (default), warn or error"},
	{"last", "at most so many of the records that are kept; default all"},
}

// hostOperations are about the host as a whole.
var hostOperations = []operation{
	{method: "GET", path: "/status", summary: "What an operator wants to know at a glance",
		answer: status.Status{}, handle: (*admin).status},
	{method: "POST", path: "/reload", summary: "Bring the host to what its files hold now",
		query:  []parameter{{"dry_run", "true: only say what would change"}},
		answer: status.Change{}, handle: (*admin).reload},
	{method: "GET", path: "/watch", summary: "Whether, and how, the host looks for changes on disk",
		answer: status.Watch{}, handle: (*admin).watchStatus},
	{method: "POST", path: "/watch", summary: "Have the host look for changes on disk, or not",
		query:  []parameter{{"mode", "on (default): as configured; off, log or reload"}},
		answer: status.Watch{}, handle: (*admin).watch},
	{method: "GET", path: "/tap", summary: "What passes between the host and its extensions, from now on",
		query:  []parameter{{"extension", "only this one"}},
		events: map[string]any{"frame": exthost.Frame{}}, handle: (*admin).tap},
	{method: "GET", path: "/logs", summary: "The latest records of the log, and with follow the new ones",
		query:  append(logQuery, parameter{"follow", "true: go on with new records"}),
		events: map[string]any{kindLog: exthost.LogRecord{}}, handle: (*admin).logs},
	{method: "GET", path: "/events", summary: "What happens from now on, after the status, the questions that wait and the log so far",
		query:  append(logQuery, parameter{"kinds", "which, with commas: " + strings.Join(allKinds(), ", ") + "; default all"}),
		events: eventTypes(), handle: (*admin).events},
	{method: "GET", path: "/openapi.json", summary: "This document",
		answer: json.RawMessage{}, handle: (*admin).openapi},
}

func (a *admin) status(w http.ResponseWriter, _ *http.Request) error {
	return writeJSON(w, http.StatusOK, a.host.Admin().Status())
}

func (a *admin) reload(w http.ResponseWriter, r *http.Request) error {
	dry, err := boolean(r, "dry_run")
	if err != nil {
		return err
	}
	act := a.host.Admin().Reload
	if dry {
		act = a.host.Admin().Plan
	}
	change, err := act(r.Context())
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, change)
}

func (a *admin) watchStatus(w http.ResponseWriter, _ *http.Request) error {
	return writeJSON(w, http.StatusOK, a.host.Admin().WatchStatus())
}

func (a *admin) watch(w http.ResponseWriter, r *http.Request) error {
	s, err := a.host.Admin().Watch(r.Context(), cmp.Or(r.FormValue("mode"), "on"))
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, s)
}

// tap streams the frames on the wires of extensions as server-sent events.
func (a *admin) tap(w http.ResponseWriter, r *http.Request) error {
	id := r.FormValue("extension")
	return serveStream(w, r, func(ctx context.Context, send func(message) bool) {
		for frame := range a.host.Admin().Tap(ctx, id) {
			if !send(message{"frame", frame}) {
				return
			}
		}
	})
}

//go:generate go test -run ^TestOpenAPIIsCurrent$ -update .

//go:embed openapi.json
var openAPI json.RawMessage

func (*admin) openapi(w http.ResponseWriter, _ *http.Request) error {
	return writeJSON(w, http.StatusOK, openAPI)
}
