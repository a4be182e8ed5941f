// Package eventstream streams events of several sources to a reader over HTTP.
package eventstream

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/exthost/exthost/internal/sse"
)

// buffer bounds the events that wait for a slow reader. Sources wait beyond it.
const buffer = 64

// Message is one event of a stream.
type Message struct {
	Event string
	Data  any
}

// Source sends messages until it has no more, send returns false, or ctx ends.
type Source func(ctx context.Context, send func(Message) bool)

type endKey struct{}

// WithEnd makes the streams of next end with ending. Without it they would delay
// the server's shutdown, which waits for requests.
func WithEnd(ending context.Context, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), endKey{}, ending)))
	})
}

// Serve writes the messages of the sources as server-sent events, until all
// sources have ended, the reader has disconnected, or the server is about to end. It
// waits for the sources.
func Serve(w http.ResponseWriter, r *http.Request, sources ...Source) error {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	if ending, ok := ctx.Value(endKey{}).(context.Context); ok {
		defer context.AfterFunc(ending, cancel)()
	}
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

// writeMessages writes until messages is closed or a write fails. It flushes once for
// messages that arrive together.
func writeMessages(w http.ResponseWriter, messages <-chan Message) {
	events := sse.NewWriter(w, "no-store")
	alive := time.NewTicker(sse.KeepAlive)
	defer alive.Stop()
	for err := events.Comment(); err == nil; { // the first bytes make proxies pass the headers on
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
