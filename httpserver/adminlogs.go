package httpserver

import (
	"context"
	"encoding/json"
	"iter"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/protocol"
)

const (
	streamWrite     = 30 * time.Second // how long one write to a reader may take
	streamKeepAlive = 20 * time.Second // the pause after which a silent stream says that it is alive
)

// logs streams the log as server-sent events.
func (a *admin) logs(w http.ResponseWriter, r *http.Request) error {
	filter, err := logFilter(r)
	if err != nil {
		return err
	}
	streamEvents(r.Context(), w, "log", func(ctx context.Context) iter.Seq[exthost.LogRecord] { return a.host.Admin().Logs(ctx, filter) })
	return nil
}

// tap streams the frames on the wires of extensions as server-sent events.
func (a *admin) tap(w http.ResponseWriter, r *http.Request) error {
	id := r.FormValue("extension")
	streamEvents(r.Context(), w, "frame", func(ctx context.Context) iter.Seq[exthost.Frame] { return a.host.Admin().Tap(ctx, id) })
	return nil
}

// streamEvents sends what a sequence yields to one reader, until either ends.
func streamEvents[T any](ctx context.Context, w http.ResponseWriter, name string, events func(context.Context) iter.Seq[T]) {
	ctx, cancel := context.WithCancel(ctx)
	waiting := make(chan T, 64)
	go func() {
		defer close(waiting)
		for e := range events(ctx) {
			select {
			case waiting <- e:
			case <-ctx.Done():
				return
			}
		}
	}()
	runStream(newEventStream(w), name, waiting)
	cancel()
	for range waiting { // until the goroutine has ended
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

// eventStream writes events to one reader.
type eventStream struct {
	w  http.ResponseWriter
	rc *http.ResponseController
}

func newEventStream(w http.ResponseWriter) *eventStream {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	return &eventStream{w, http.NewResponseController(w)}
}

// runStream writes until there are no more events or the reader is gone. What comes
// at once is flushed at once.
func runStream[T any](s *eventStream, name string, events <-chan T) {
	alive := time.NewTicker(streamKeepAlive)
	defer alive.Stop()
	defer s.rc.SetWriteDeadline(time.Time{}) // which outlives the request
	if s.write(": \n\n", true) != nil {      // the reader learns that it is one
		return
	}
	for {
		select {
		case e, ok := <-events:
			if !ok {
				return
			}
			data, err := json.Marshal(e)
			if err != nil || s.write("event: "+name+"\ndata: "+string(data)+"\n\n", len(events) == 0) != nil {
				return
			}
		case <-alive.C:
			if s.write(": \n\n", true) != nil {
				return
			}
		}
	}
}

func (s *eventStream) write(event string, flush bool) error {
	_ = s.rc.SetWriteDeadline(time.Now().Add(streamWrite)) // not every ResponseWriter has deadlines
	if _, err := s.w.Write([]byte(event)); err != nil || !flush {
		return err
	}
	return s.rc.Flush()
}
