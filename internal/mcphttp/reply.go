package mcphttp

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/exthost/exthost/internal/jsonrpc"
)

// ErrNoStream means that the client cannot be told anything here: it does not
// accept event streams, has none open, or has been answered.
var ErrNoStream = errors.New("mcphttp: the client has no event stream open here")

// Reply is the answer to one POSTed request. It is a plain JSON object when
// nothing was said before it; the first message that comes earlier, or 20 s of
// silence, makes it an event stream. Its methods may be called from any
// goroutine; a write takes at most 30 s.
type Reply struct {
	w       http.ResponseWriter
	accepts bool

	mu     sync.Mutex // held while writing: every write has a deadline
	events *eventWriter
	done   bool
	alive  *time.Timer
}

// NewReply returns the reply to r. Close must be called before the handler
// returns.
func NewReply(w http.ResponseWriter, r *http.Request) *Reply {
	p := &Reply{w: w, accepts: acceptsEvents(r.Header)}
	if p.accepts {
		p.mu.Lock()
		p.alive = time.AfterFunc(keepAlive, p.keepAlive)
		p.mu.Unlock()
	}
	return p
}

// Send sends m ahead of the answer. The error is ErrNoStream when that is not
// possible, otherwise that of the connection.
func (p *Reply) Send(_ context.Context, m *jsonrpc.Message) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done || !p.accepts {
		return ErrNoStream
	}
	return p.streamLocked().message(m)
}

// Answer ends the reply with the response m. The status counts only while the
// reply is still a plain JSON object.
func (p *Reply) Answer(status int, m *jsonrpc.Message) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done {
		return ErrNoStream
	}
	p.closeLocked()
	if p.events != nil {
		return p.events.message(m)
	}
	return WriteJSON(p.w, status, m)
}

// Close ends the reply; nothing is written after it. It is idempotent.
func (p *Reply) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closeLocked()
}

func (p *Reply) closeLocked() {
	p.done = true
	if p.alive != nil {
		p.alive.Stop()
	}
}

func (p *Reply) keepAlive() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done {
		return
	}
	if err := p.streamLocked().comment(); err == nil { // else the request's context ends too
		p.alive.Reset(keepAlive)
	}
}

func (p *Reply) streamLocked() *eventWriter {
	if p.events == nil {
		p.events = newEventWriter(p.w)
	}
	return p.events
}

// WriteJSON answers a request with m as a JSON object.
func WriteJSON(w http.ResponseWriter, status int, m *jsonrpc.Message) error {
	name, payload := `,"result":`, m.Result
	if m.Error != nil {
		name, payload = `,"error":`, m.Error
	}
	id := m.ID
	if id == nil {
		id = json.RawMessage("null")
	}
	// The payload is written as it is, between the two halves of its envelope.
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
