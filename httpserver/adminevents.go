package httpserver

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

const (
	kindStatus = "status" // the whole [status.Status]
	kindLog    = "log"    // a record of the log

	statusEvery = 2 * time.Second        // max time between two status messages
	statusPause = 250 * time.Millisecond // min time between two status messages
)

// eventTypes returns, by kind of event, a value of the type of its data.
func eventTypes() map[string]any {
	types := map[string]any{kindStatus: status.Status{}, kindLog: status.LogRecord{}}
	for _, kind := range status.EventKinds() {
		types[string(kind)] = status.Event{}
	}
	return types
}

func allKinds() []string { return slices.Sorted(maps.Keys(eventTypes())) }

// streamEvents streams the host's events, status and log.
func streamEvents(h *exthost.Host, r *http.Request) (sources []source, err error) {
	filter, err := logFilter(r)
	if err != nil {
		return nil, err
	}
	filter.Follow = true
	kinds, err := parseKinds(r.FormValue("kinds"))
	if err != nil {
		return nil, err
	}
	changed := make(chan struct{}, 1)
	if kinds[kindLog] {
		sources = append(sources,
			func(ctx context.Context, send func(message) bool) { sendLogs(ctx, h, filter, send) })
	}
	if kinds[kindStatus] {
		sources = append(sources,
			func(ctx context.Context, send func(message) bool) { sendStatus(ctx, h, changed, send) })
	}
	return append(sources, func(ctx context.Context, send func(message) bool) {
		sendEvents(ctx, h, kinds, changed, send)
	}), nil
}

// parseKinds parses a list of kinds separated by commas; "" means all.
func parseKinds(list string) (map[string]bool, error) {
	known := allKinds()
	wanted := known
	if list != "" {
		wanted = strings.Split(list, ",")
	}
	kinds := make(map[string]bool)
	for _, kind := range wanted {
		if !slices.Contains(known, kind) {
			return nil, protocol.Errorf(protocol.InvalidArguments, "there is no kind of event %q; the kinds are %s",
				kind, strings.Join(known, ", "))
		}
		kinds[kind] = true
	}
	return kinds, nil
}

// sendEvents sends the host's events of the given kinds until the host is closed. It sends to changed after each event
// that may change the status, and closes changed at the end.
func sendEvents(ctx context.Context, h *exthost.Host, kinds map[string]bool, changed chan<- struct{},
	send func(message) bool) {
	defer close(changed)
	listen := []status.EventKind{status.EventState, status.EventBreaker, status.EventTools, status.EventReload}
	for _, kind := range []status.EventKind{status.EventCall, status.EventApprovals} {
		if kinds[string(kind)] {
			listen = append(listen, kind)
		}
	}
	for e := range h.Admin().Events(ctx, listen...) {
		if e.Kind != status.EventCall && e.Kind != status.EventApprovals {
			select {
			case changed <- struct{}{}:
			default: // already signalled
			}
		}
		if kinds[string(e.Kind)] && !send(message{string(e.Kind), e}) {
			return
		}
	}
}

// sendStatus sends the status at once, soon after each change and at least every statusEvery, until changed is
// closed.
func sendStatus(ctx context.Context, h *exthost.Host, changed <-chan struct{}, send func(message) bool) {
	for more := true; more; {
		if !send(message{kindStatus, h.Admin().Status()}) || !pause(ctx, statusPause) {
			return
		}
		due := time.NewTimer(statusEvery - statusPause)
		select {
		case <-ctx.Done():
		case _, more = <-changed:
		case <-due.C:
		}
		due.Stop()
	}
}

// pause waits for d. It returns false if ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// logQuery are the parameters that select log records, see logFilter.
var logQuery = []parameter{
	{"extension", "only records about this extension"},
	{"level", "the lowest level: trace, debug, info (default), warn or error"},
	{"last", "at most this many of the stored records; default all"},
}

func streamLogs(h *exthost.Host, r *http.Request) ([]source, error) {
	filter, err := logFilter(r)
	return []source{
		func(ctx context.Context, send func(message) bool) { sendLogs(ctx, h, filter, send) },
	}, err
}

func sendLogs(ctx context.Context, h *exthost.Host, f status.LogFilter, send func(message) bool) {
	for record := range h.Admin().Logs(ctx, f) {
		if !send(message{kindLog, record}) {
			return
		}
	}
}

// logFilter reads the parameters of logQuery, and the parameter follow.
func logFilter(r *http.Request) (f status.LogFilter, err error) {
	f.Extension = r.FormValue("extension")
	if level := r.FormValue("level"); level == "trace" {
		f.Level = slog.LevelDebug - 4
	} else if level != "" && f.Level.UnmarshalText([]byte(level)) != nil {
		return f, protocol.Errorf(protocol.InvalidArguments, "level is trace, debug, info, warn or error, not %q",
			level)
	}
	if f.Last, err = number(r, "last", 0); err != nil {
		return f, err
	}
	if f.Last == 0 && r.FormValue("last") != "" {
		f.Last = -1 // none; 0 means all
	}
	f.Follow, err = boolean(r, "follow")
	return f, err
}
