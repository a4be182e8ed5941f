package mcphttp

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/exthost/exthost/internal/jsonrpc"
)

// Outbox holds the messages that wait for a client's event stream: its own
// stream, not the reply to one of its requests. What is put in while no stream
// is open is there for the next one, as far as there is room.
type Outbox struct {
	queue  chan *jsonrpc.Message
	closed chan struct{}

	mu      sync.Mutex
	waiting int           // bytes of the messages that no stream has written
	current chan struct{} // closed to end the stream being served; nil when there is none
	ended   bool
}

const (
	outboxSize  = 64       // messages that wait for one client
	outboxBytes = 64 << 20 // of what they and those that wait for room hold
)

// NewOutbox returns an empty outbox.
func NewOutbox() *Outbox {
	return &Outbox{queue: make(chan *jsonrpc.Message, outboxSize), closed: make(chan struct{})}
}

// Offer takes m if there is room and never waits. It refuses, with ErrNoStream,
// what there is no room for and a request when no stream is open to ask on.
func (o *Outbox) Offer(_ context.Context, m *jsonrpc.Message) error {
	if m.Method != "" && m.ID != nil && !o.open() {
		return ErrNoStream
	}
	o.count(weight(m))
	select {
	case o.queue <- m:
		return nil
	default:
		o.count(-weight(m))
		return ErrNoStream
	}
}

// Put takes m, waiting for room until ctx ends or the outbox is closed. An answer
// that would have a client that does not read hold more than 64 MiB becomes an error.
func (o *Outbox) Put(ctx context.Context, m *jsonrpc.Message) error {
	m = o.reserve(m)
	err := o.put(ctx, m)
	if err != nil {
		o.count(-weight(m))
	}
	return err
}

func (o *Outbox) put(ctx context.Context, m *jsonrpc.Message) error {
	select {
	case <-o.closed:
		return ErrNoStream
	default:
	}
	select {
	case o.queue <- m:
		return nil
	case <-o.closed:
		return ErrNoStream
	case <-ctx.Done():
		return ctx.Err()
	}
}

// reserve counts m, or what takes its place.
func (o *Outbox) reserve(m *jsonrpc.Message) *jsonrpc.Message {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.waiting > 0 && o.waiting+weight(m) > outboxBytes && m.Method == "" {
		m = &jsonrpc.Message{ID: m.ID, Error: unread}
	}
	o.waiting += weight(m)
	return m
}

func (o *Outbox) count(bytes int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waiting += bytes
}

func weight(m *jsonrpc.Message) int { return len(m.Result) + len(m.Error) + len(m.Params) }

var unread = json.RawMessage(`{"code":-32016,"message":"the answer was dropped: more than 64 MiB of answers wait for this client to read them","data":{"kind":"overloaded","outcome":"unknown"}}`)

// Close ends the stream being served, once it has delivered what is waiting, and
// every later one at once. It is idempotent and does not wait.
func (o *Outbox) Close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.ended {
		o.ended = true
		close(o.closed)
	}
}

// Serve answers a request with the stream of what comes out of the box, opened
// by the endpoint event unless endpoint is "". It blocks until ctx ends, the box
// is closed, the client stops reading, or another Serve takes its place.
func (o *Outbox) Serve(ctx context.Context, w http.ResponseWriter, endpoint string) error {
	stop := o.take()
	defer o.leave(stop)
	e := newEventWriter(w)
	hello := e.comment // so that proxies pass the headers on
	if endpoint != "" {
		hello = func() error { return e.endpoint(endpoint) }
	}
	if err := hello(); err != nil {
		return err
	}
	alive := time.NewTicker(keepAlive)
	defer alive.Stop()
	for {
		var err error
		select {
		case m := <-o.queue:
			err = e.message(m)
			o.count(-weight(m))
		case <-alive.C:
			err = e.comment()
		case <-ctx.Done():
			return ctx.Err()
		case <-stop:
			return nil
		case <-o.closed:
			return o.deliver(e)
		}
		if err != nil {
			return err
		}
	}
}

// deliver writes what is still waiting.
func (o *Outbox) deliver(e *eventWriter) error {
	for {
		select {
		case m := <-o.queue:
			err := e.message(m)
			o.count(-weight(m))
			if err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

// take ends the stream that was there and announces a new one.
func (o *Outbox) take() chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.current != nil {
		close(o.current)
	}
	o.current = make(chan struct{})
	return o.current
}

func (o *Outbox) leave(stop chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.current == stop {
		o.current = nil
	}
}

func (o *Outbox) open() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.current != nil && !o.ended
}
