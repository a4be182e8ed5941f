// Package sse reads and writes streams of server-sent events (HTML Living Standard,
// 9.2).
package sse

import (
	"net/http"
	"time"
)

// KeepAlive is the silence after which the owner of a stream should send a comment.
const KeepAlive = 20 * time.Second

const (
	// writeTimeout bounds one write to a client. The stream as a whole has no deadline.
	writeTimeout = 30 * time.Second
	// maxKept is the largest buffer that a writer keeps between events.
	maxKept = 64 << 10
)

// Writer writes an event stream to a response. It is not safe for concurrent use.
type Writer struct {
	w   http.ResponseWriter
	rc  *http.ResponseController
	buf []byte
}

// NewWriter makes the response an event stream with the given Cache-Control.
func NewWriter(w http.ResponseWriter, cacheControl string) *Writer {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", cacheControl)
	h.Set("X-Accel-Buffering", "no")
	return &Writer{w: w, rc: http.NewResponseController(w)}
}

// Event writes one event. appendData appends its data, without line breaks, to a buffer. Without flush the event may
// be buffered until the next one.
func (w *Writer) Event(name string, appendData func([]byte) ([]byte, error), flush bool) error {
	event, err := AppendEvent(w.buf[:0], name, appendData)
	if err != nil {
		return err
	}
	return w.write(event, flush)
}

// AppendEvent appends one event to b; appendData appends the event's data.
func AppendEvent(b []byte, name string, appendData func([]byte) ([]byte, error)) ([]byte, error) {
	b, err := appendData(append(append(append(b, "event: "...), name...), "\ndata: "...))
	if err != nil {
		return nil, err
	}
	return append(b, "\n\n"...), nil
}

// Comment writes a line that clients ignore, so that proxies see traffic.
func (w *Writer) Comment() error {
	return w.write(append(w.buf[:0], ": \n\n"...), true)
}

func (w *Writer) write(event []byte, flush bool) error {
	w.buf = event[:0]
	if cap(w.buf) > maxKept {
		w.buf = nil
	}
	_ = w.rc.SetWriteDeadline(time.Now().Add(writeTimeout)) // some ResponseWriters have no deadlines
	if _, err := w.w.Write(event); err != nil || !flush {
		return err
	}
	return w.rc.Flush()
}
