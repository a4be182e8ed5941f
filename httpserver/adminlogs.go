package httpserver

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/protocol"
)

// logs streams the log as server-sent events.
func (a *admin) logs(w http.ResponseWriter, r *http.Request) error {
	filter, err := logFilter(r)
	if err != nil {
		return err
	}
	return serveStream(w, r, func(ctx context.Context, send func(message) bool) { a.sendLogs(ctx, filter, send) })
}

func (a *admin) sendLogs(ctx context.Context, f exthost.LogFilter, send func(message) bool) {
	for record := range a.host.Admin().Logs(ctx, f) {
		if !send(message{"log", record}) {
			return
		}
	}
}

// logFilter reads extension, level (default info), last (default all that are
// kept) and follow.
func logFilter(r *http.Request) (f exthost.LogFilter, err error) {
	f.Extension = r.FormValue("extension")
	if level := r.FormValue("level"); level == "trace" {
		f.Level = slog.LevelDebug - 4
	} else if level != "" && f.Level.UnmarshalText([]byte(level)) != nil {
		return f, protocol.Errorf(protocol.InvalidArguments, "level is trace, debug, info, warn or error, not %q", level)
	}
	if f.Last, err = number(r, "last", 0); err != nil {
		return f, err
	}
	if f.Last == 0 && r.FormValue("last") != "" {
		f.Last = -1 // none, where 0 is all
	}
	f.Follow, err = boolean(r, "follow")
	return f, err
}
