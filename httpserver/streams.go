package httpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/exthost/exthost/internal/wire/sse"
)

// streamBuffer is the number of events buffered for a slow reader before sources block.
const streamBuffer = 64

// message is one event of a stream.
type message struct {
	event string
	data  any
}

// source sends messages until it has no more, send returns false, or ctx ends.
type source func(ctx context.Context, send func(message) bool)

type streamEndKey struct{}

// withStreamEnd makes the streams of next end with ending. Otherwise they would delay the server's shutdown, which
// waits for requests.
func withStreamEnd(ending context.Context, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), streamEndKey{}, ending)))
	})
}

// streamContext returns the context of a stream: it ends when the client disconnects, the server shuts down, or the
// returned function is called, which callers must do.
func streamContext(r *http.Request) (context.Context, func()) {
	ctx, cancel := context.WithCancel(r.Context())
	ending, ok := ctx.Value(streamEndKey{}).(context.Context)
	if !ok {
		return ctx, cancel
	}
	detach := context.AfterFunc(ending, cancel)
	return ctx, func() { detach(); cancel() }
}

// serveStream writes the messages of the sources as server-sent events until all sources have ended or the
// [streamContext] of r ends. It waits for the sources.
func serveStream(w http.ResponseWriter, r *http.Request, sources ...source) error {
	ctx, cancel := streamContext(r)
	defer cancel()
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
	writeMessages(w, messages)
	cancel()
	<-ended
	return nil
}

// jsonLines writes a response of JSON lines and flushes each write.
type jsonLines struct {
	w  http.ResponseWriter
	rc *http.ResponseController

	writing sync.Mutex // held during a write
	begun   bool       // guarded by writing

	mu     sync.Mutex // guards closed and changes of the deadline
	closed bool
}

// lineTimeout is the max time for one write of lines.
const lineTimeout = 30 * time.Second

// newJSONLines returns a writer for a response of JSON lines.
func newJSONLines(w http.ResponseWriter) *jsonLines {
	return &jsonLines{w: w, rc: http.NewResponseController(w)}
}

// Write implements [io.Writer].
func (l *jsonLines) Write(b []byte) (int, error) {
	l.writing.Lock()
	defer l.writing.Unlock()
	if !l.extend() {
		return 0, http.ErrServerClosed
	}
	if !l.begun {
		l.begun = true
		l.w.Header().Set("Content-Type", "application/x-ndjson")
		l.w.Header().Set("Cache-Control", "no-store")
	}
	n, err := l.w.Write(b)
	if err != nil {
		return n, err
	}
	return n, l.rc.Flush()
}

// write writes v as a line.
func (l *jsonLines) write(v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b) // writes no newline but the last one
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := l.Write(b.Bytes())
	return err
}

// extend sets the deadline of the next write. It returns false after Close.
func (l *jsonLines) extend() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		_ = l.rc.SetWriteDeadline(time.Now().Add(lineTimeout)) // some ResponseWriters have no deadlines
	}
	return !l.closed
}

// Close interrupts a write in progress and refuses later ones. It waits until the response is no longer used, so that
// the handler may return, and reports whether anything was written.
func (l *jsonLines) Close() (begun bool) {
	l.mu.Lock()
	l.closed = true
	interrupts := !l.writing.TryLock()
	if interrupts {
		_ = l.rc.SetWriteDeadline(time.Now())
	}
	l.mu.Unlock()
	if interrupts {
		l.writing.Lock()
		// net/http still has to end the response
		_ = l.rc.SetWriteDeadline(time.Now().Add(lineTimeout))
	}
	defer l.writing.Unlock()
	return l.begun
}

// writeMessages writes until messages is closed or a write fails. It flushes once for messages that arrive together.
func writeMessages(w http.ResponseWriter, messages <-chan message) {
	events := sse.NewWriter(w, "no-store")
	alive := time.NewTicker(sse.KeepAlive)
	defer alive.Stop()
	for err := events.Comment(); err == nil; { // the first bytes make proxies pass on the headers
		select {
		case m, ok := <-messages:
			if !ok {
				return
			}
			err = events.Event(m.event, func(b []byte) ([]byte, error) {
				data, err := json.Marshal(m.data)
				return append(b, data...), err
			}, len(messages) == 0)
		case <-alive.C:
			err = events.Comment()
		}
	}
}
