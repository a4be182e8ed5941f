package httpserver

import (
	"encoding/json"
	"net/http"
	"time"
)

const (
	streamWrite     = 30 * time.Second // how long one write to a reader may take
	streamKeepAlive = 20 * time.Second // the pause after which a silent stream says that it is alive
	streamBuffer    = 64               // what waits for a reader here; the rest waits where it comes from
)

// message is one server-sent event.
type message struct {
	event string
	data  any
}

// eventStream writes server-sent events to one reader.
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

// run writes until there are no more messages or the reader is gone. What comes at
// once is flushed at once.
func (s *eventStream) run(messages <-chan message) {
	alive := time.NewTicker(streamKeepAlive)
	defer alive.Stop()
	if s.write(": \n\n", true) != nil { // the reader learns that it is one
		return
	}
	for {
		select {
		case m, ok := <-messages:
			if !ok {
				return
			}
			data, err := json.Marshal(m.data)
			if err != nil || s.write("event: "+m.event+"\ndata: "+string(data)+"\n\n", len(messages) == 0) != nil {
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
