package mcphttp

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/internal/wire/sse"
)

// ErrNoStream means that a message cannot be sent to the client: the client accepts no event streams, has none open,
// or already has its answer.
var ErrNoStream = errors.New("mcphttp: the client has no event stream open here")

const (
	// writeTimeout is the max time for writing a JSON answer.
	writeTimeout = 30 * time.Second
	// cacheControl is the Cache-Control of MCP's event streams.
	cacheControl = "no-cache, no-transform"
)

// Reply is the answer to one POST. It is a JSON object, unless a message is sent before the answer or 20 s pass: then
// it becomes an event stream. It is safe for concurrent use; a write takes at most 30 s.
type Reply struct {
	w       http.ResponseWriter
	r       *http.Request
	accepts bool // the client accepts event streams

	mu        sync.Mutex // held while writing; every write has a deadline
	events    *sse.Writer
	done      bool
	detaches  bool // see MayDetach
	keepAlive *time.Timer
}

// NewReply returns the reply to r. Close must be called before the handler returns.
func NewReply(w http.ResponseWriter, r *http.Request) *Reply {
	p := &Reply{w: w, r: r, accepts: acceptsEvents(r.Header)}
	if p.accepts {
		p.mu.Lock()
		p.keepAlive = time.AfterFunc(sse.KeepAlive, p.sendKeepAlive)
		p.mu.Unlock()
	}
	return p
}

// Send sends m ahead of the answer. The error is ErrNoStream or the connection's.
func (p *Reply) Send(_ context.Context, m *jsonrpc.Message) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done || !p.accepts {
		return ErrNoStream
	}
	return writeEvent(p.streamLocked(), m)
}

// Answer ends the reply with the response m. status applies only if the reply is
// still a plain JSON object.
func (p *Reply) Answer(status int, m *jsonrpc.Message) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done {
		return ErrNoStream
	}
	p.closeLocked()
	if p.events != nil {
		return writeEvent(p.events, m)
	}
	return WriteJSON(p.w, status, m)
}

// Close ends the reply; nothing is written after it. It is idempotent.
func (p *Reply) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closeLocked()
	p.w, p.r, p.events = nil, nil, nil // the runtime keeps a stopped timer, and so p, for a while
}

func (p *Reply) closeLocked() {
	p.done = true
	if p.keepAlive != nil {
		p.keepAlive.Stop()
	}
}

func (p *Reply) sendKeepAlive() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done {
		return
	}
	if err := p.streamLocked().Comment(); err == nil { // a failed write also ends the request's context
		p.keepAlive.Reset(sse.KeepAlive)
	}
}

func (p *Reply) streamLocked() *sse.Writer {
	if p.events == nil {
		if p.detaches {
			p.w.Header()["Connection"] = []string{"close"}
		}
		p.events = sse.NewWriter(p.w, cacheControl)
	}
	return p.events
}

func writeEvent(w *sse.Writer, m *jsonrpc.Message) error {
	return w.Event("message", func(b []byte) ([]byte, error) { return jsonrpc.Append(b, m) }, true)
}

// WriteJSON answers a request with the response m as a JSON object.
func WriteJSON(w http.ResponseWriter, status int, m *jsonrpc.Message) error {
	name, payload := `,"result":`, m.Result
	if m.Error != nil {
		name, payload = `,"error":`, m.Error
	}
	id := m.ID
	if id == nil {
		id = json.RawMessage("null")
	}
	// Three writes avoid a copy of the payload, which may be large.
	head := make([]byte, 0, 64)
	head = append(append(append(head, `{"jsonrpc":"2.0","id":`...), id...), name...)
	h := w.Header()
	h["Content-Type"] = jsonType
	h["Content-Length"] = []string{strconv.Itoa(len(head) + len(payload) + 1)}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout))
	w.WriteHeader(status)
	for _, part := range [][]byte{head, payload, closing} {
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	return nil
}

var (
	jsonType = []string{"application/json"}
	closing  = []byte("}")
)
