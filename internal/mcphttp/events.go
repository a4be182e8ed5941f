package mcphttp

import (
	"net/http"
	"time"

	"github.com/exthost/exthost/internal/jsonrpc"
)

const (
	// writeTimeout is how long one write to a client may take. Streams have no
	// other: they live as long as somebody reads them.
	writeTimeout = 30 * time.Second
	// keepAlive is the pause after which a silent stream says that it is alive.
	keepAlive = 20 * time.Second
)

// eventWriter writes server-sent events to a response. One goroutine at a time.
type eventWriter struct {
	w   http.ResponseWriter
	rc  *http.ResponseController
	buf []byte
}

func newEventWriter(w http.ResponseWriter) *eventWriter {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no")
	return &eventWriter{w: w, rc: http.NewResponseController(w)}
}

// message writes m as one event.
func (e *eventWriter) message(m *jsonrpc.Message) error {
	event, err := jsonrpc.Append(append(e.buf[:0], "event: message\ndata: "...), m)
	if err != nil {
		return err
	}
	return e.flush(append(event, "\n\n"...))
}

// endpoint writes the event that opens a stream of revision 2024-11-05.
func (e *eventWriter) endpoint(url string) error {
	return e.flush(append(append(append(e.buf[:0], "event: endpoint\ndata: "...), url...), "\n\n"...))
}

// comment writes what clients skip and proxies count as life.
func (e *eventWriter) comment() error {
	return e.flush(append(e.buf[:0], ": \n\n"...))
}

func (e *eventWriter) flush(event []byte) error {
	e.buf = event[:0]
	if cap(e.buf) > maxKept {
		e.buf = nil
	}
	_ = e.rc.SetWriteDeadline(time.Now().Add(writeTimeout)) // not every ResponseWriter has deadlines
	if _, err := e.w.Write(event); err != nil {
		return err
	}
	return e.rc.Flush()
}

// maxKept is the largest buffer a stream holds on to between events.
const maxKept = 64 << 10
