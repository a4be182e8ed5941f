package httpserver

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/protocol"
)

const (
	streamWrite     = 30 * time.Second // how long one write to a reader of the log may take
	streamKeepAlive = 20 * time.Second // the pause after which a silent stream says that it is alive
)

// logs streams the log as server-sent events.
func (a *admin) logs(w http.ResponseWriter, r *http.Request) error {
	filter, err := logFilter(r)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(r.Context())
	records := make(chan exthost.LogRecord, 64)
	go func() {
		defer close(records)
		for record := range a.host.Admin().Logs(ctx, filter) {
			select {
			case records <- record:
			case <-ctx.Done():
				return
			}
		}
	}()
	newLogStream(w).run(records)
	cancel()
	for range records { // until the goroutine has ended
	}
	return nil
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

// logStream writes records to one reader.
type logStream struct {
	w  http.ResponseWriter
	rc *http.ResponseController
}

func newLogStream(w http.ResponseWriter) *logStream {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	return &logStream{w, http.NewResponseController(w)}
}

// run writes until there are no more records or the reader is gone. What comes at
// once is flushed at once.
func (s *logStream) run(records <-chan exthost.LogRecord) {
	alive := time.NewTicker(streamKeepAlive)
	defer alive.Stop()
	defer s.rc.SetWriteDeadline(time.Time{}) // which outlives the request
	if s.write(": \n\n", true) != nil {      // the reader learns that it is one
		return
	}
	for {
		select {
		case r, ok := <-records:
			if !ok {
				return
			}
			data, err := json.Marshal(r)
			if err != nil || s.write("event: log\ndata: "+string(data)+"\n\n", len(records) == 0) != nil {
				return
			}
		case <-alive.C:
			if s.write(": \n\n", true) != nil {
				return
			}
		}
	}
}

func (s *logStream) write(event string, flush bool) error {
	_ = s.rc.SetWriteDeadline(time.Now().Add(streamWrite)) // not every ResponseWriter has deadlines
	if _, err := s.w.Write([]byte(event)); err != nil || !flush {
		return err
	}
	return s.rc.Flush()
}
