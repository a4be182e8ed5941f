package httpserver

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

const (
	kindStatus = "status" // the whole of [status.Status], again and again
	kindLog    = "log"    // a record of the log

	statusEvery = 2 * time.Second        // without a reason
	statusPause = 250 * time.Millisecond // between two, whatever the reason
)

// eventTypes are the data of the events of each kind.
func eventTypes() map[string]any {
	types := map[string]any{kindStatus: status.Status{}, kindLog: exthost.LogRecord{}}
	for _, kind := range status.EventKinds() {
		types[string(kind)] = status.Event{}
	}
	return types
}

// allKinds are the names of the events that there are.
func allKinds() []string { return slices.Sorted(maps.Keys(eventTypes())) }

// events streams what happens in the host as server-sent events.
func (a *admin) events(w http.ResponseWriter, r *http.Request) error {
	filter, err := logFilter(r)
	if err != nil {
		return err
	}
	filter.Follow = true
	kinds, err := wantedKinds(r.FormValue("kinds"))
	if err != nil {
		return err
	}
	changed := make(chan struct{}, 1)
	sources := []source{}
	if kinds[kindLog] {
		sources = append(sources, func(ctx context.Context, send func(message) bool) { a.sendLogs(ctx, filter, send) })
	}
	if kinds[kindStatus] {
		sources = append(sources, func(ctx context.Context, send func(message) bool) { a.sendStatus(ctx, changed, send) })
	}
	sources = append(sources, func(ctx context.Context, send func(message) bool) { a.sendEvents(ctx, kinds, changed, send) })
	return serveStream(w, r, sources...)
}

// wantedKinds reads a list with commas; "" is all kinds.
func wantedKinds(list string) (map[string]bool, error) {
	known := allKinds()
	wanted := known
	if list != "" {
		wanted = strings.Split(list, ",")
	}
	kinds := make(map[string]bool)
	for _, kind := range wanted {
		if !slices.Contains(known, kind) {
			return nil, protocol.Errorf(protocol.InvalidArguments, "there is no kind of event %q; the kinds are %s", kind, strings.Join(known, ", "))
		}
		kinds[kind] = true
	}
	return kinds, nil
}

// sendEvents sends the host's events of these kinds until the host is closed. It
// says when one may have changed the status, and closes changed in the end.
func (a *admin) sendEvents(ctx context.Context, kinds map[string]bool, changed chan<- struct{}, send func(message) bool) {
	defer close(changed)
	listen := []status.EventKind{status.EventState, status.EventBreaker, status.EventTools, status.EventReload}
	for _, kind := range []status.EventKind{status.EventCall, status.EventApprovals} {
		if kinds[string(kind)] {
			listen = append(listen, kind)
		}
	}
	for e := range a.host.Admin().Events(ctx, listen...) {
		if e.Kind != status.EventCall && e.Kind != status.EventApprovals {
			select {
			case changed <- struct{}{}:
			default: // it is known already
			}
		}
		if kinds[string(e.Kind)] && !send(message{string(e.Kind), e}) {
			return
		}
	}
}

// sendStatus sends the status at once, soon after each change and every now and
// then, until changed is closed.
func (a *admin) sendStatus(ctx context.Context, changed <-chan struct{}, send func(message) bool) {
	for more := true; more; {
		if !send(message{kindStatus, a.host.Admin().Status()}) || !pause(ctx, statusPause) {
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

// pause reports whether the time has passed before ctx ended.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// source sends messages until it has no more, send says no, or ctx ends.
type source func(ctx context.Context, send func(message) bool)

type endingKey struct{}

// untilEnding has the streams of next end when the server is about to: calls may
// finish then, and streams do not by themselves.
func (s *Server) untilEnding(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), endingKey{}, s.ending)))
	})
}

// serveStream writes what the sources send until all have ended, the reader is gone
// or the server is about to end. It waits for the sources.
func serveStream(w http.ResponseWriter, r *http.Request, sources ...source) error {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	if ending, ok := ctx.Value(endingKey{}).(context.Context); ok {
		defer context.AfterFunc(ending, cancel)()
	}
	messages := make(chan message, streamBuffer)
	send := func(m message) bool {
		select {
		case messages <- m:
			return true
		case <-ctx.Done():
			return false
		}
	}
	var sending sync.WaitGroup
	for _, from := range sources {
		sending.Go(func() { from(ctx, send) })
	}
	ended := make(chan struct{})
	go func() { sending.Wait(); close(messages); close(ended) }()
	newEventStream(w).run(messages)
	cancel()
	<-ended
	return nil
}
