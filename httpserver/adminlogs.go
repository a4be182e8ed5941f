package httpserver

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"

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
	} else if level != "" {
		err = f.Level.UnmarshalText([]byte(level))
	}
	if last := r.FormValue("last"); last != "" && err == nil {
		if f.Last, err = strconv.Atoi(last); f.Last == 0 {
			f.Last = -1 // none
		}
	}
	if follow := r.FormValue("follow"); follow != "" && err == nil {
		f.Follow, err = strconv.ParseBool(follow)
	}
	if err != nil {
		return f, protocol.Errorf(protocol.InvalidArguments, "%w", err)
	}
	return f, nil
}
