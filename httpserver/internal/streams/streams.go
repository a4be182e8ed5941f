// Package streams writes responses that go on: server-sent events and lines.
package streams

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/exthost/exthost/internal/wire/sse"
)

// buffer is the number of events buffered for a slow reader before sources block.
const buffer = 64

// Message is one event of a stream.
type Message struct {
	Event string
	Data  any
}

// Source sends messages until it has no more, send returns false, or ctx ends.
type Source func(ctx context.Context, send func(Message) bool)

type endKey struct{}

// WithEnd makes the streams of next end with ending. Otherwise they would delay the server's shutdown, which waits
// for requests.
func WithEnd(ending context.Context, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), endKey{}, ending)))
	})
}

// Context returns the context of a stream: it ends when the client disconnects, the server shuts down, or the
// returned function is called, which callers must do.
func Context(r *http.Request) (context.Context, func()) {
	ctx, cancel := context.WithCancel(r.Context())
	ending, ok := ctx.Value(endKey{}).(context.Context)
	if !ok {
		return ctx, cancel
	}
	detach := context.AfterFunc(ending, cancel)
	return ctx, func() { detach(); cancel() }
}

// Serve writes the messages of the sources as server-sent events until all sources have ended or its [Context] ends.
// It waits for the sources.
func Serve(w http.ResponseWriter, r *http.Request, sources ...Source) error {
	ctx, cancel := Context(r)
	defer cancel()
	messages := make(chan Message, buffer)
	send := func(m Message) bool {
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

// Lines writes a response of JSON lines and flushes each write.
type Lines struct {
	w  http.ResponseWriter
	rc *http.ResponseController

	writing sync.Mutex // held during a write
	begun   bool       // guarded by writing

	mu     sync.Mutex // guards closed and changes of the deadline
	closed bool
}

// writeTimeout is the max time for one write of lines.
const writeTimeout = 30 * time.Second

// NewLines makes the response one of JSON lines.
func NewLines(w http.ResponseWriter) *Lines { return &Lines{w: w, rc: http.NewResponseController(w)} }

// Write implements [io.Writer].
func (l *Lines) Write(b []byte) (int, error) {
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

// extend sets the deadline of the next write. It returns false after Close.
func (l *Lines) extend() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		_ = l.rc.SetWriteDeadline(time.Now().Add(writeTimeout)) // some ResponseWriters have no deadlines
	}
	return !l.closed
}

// Close interrupts a write in progress and refuses later ones. It waits until the response is no longer used, so that
// the handler may return, and reports whether anything was written.
func (l *Lines) Close() (begun bool) {
	l.mu.Lock()
	l.closed = true
	interrupts := !l.writing.TryLock()
	if interrupts {
		_ = l.rc.SetWriteDeadline(time.Now())
	}
	l.mu.Unlock()
	if interrupts {
		l.writing.Lock()
		// Leave time for net/http to end the response.
		_ = l.rc.SetWriteDeadline(time.Now().Add(writeTimeout))
	}
	defer l.writing.Unlock()
	return l.begun
}

// writeMessages writes until messages is closed or a write fails. It flushes once for messages that arrive together.
func writeMessages(w http.ResponseWriter, messages <-chan Message) {
	events := sse.NewWriter(w, "no-store")
	alive := time.NewTicker(sse.KeepAlive)
	defer alive.Stop()
	for err := events.Comment(); err == nil; { // the first bytes make proxies pass on the headers
		select {
		case m, ok := <-messages:
			if !ok {
				return
			}
			err = events.Event(m.Event, func(b []byte) ([]byte, error) {
				data, err := json.Marshal(m.Data)
				return append(b, data...), err
			}, len(messages) == 0)
		case <-alive.C:
			err = events.Comment()
		}
	}
}
