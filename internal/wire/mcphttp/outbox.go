package mcphttp

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/internal/wire/sse"
)

// Outbox queues messages for a client's standalone event stream, as opposed to the reply to a request. While no
// stream is open, a bounded number of messages waits for the next one.
type Outbox struct {
	queue  chan *jsonrpc.Message
	unsent chan *jsonrpc.Message // failed writes, which are sent first on the next stream
	closed chan struct{}

	mu      sync.Mutex
	waiting int           // bytes of messages not yet written
	current chan struct{} // closed to end the current stream; nil if there is none
	ended   bool
}

const (
	outboxSize   = 64       // max messages queued for one client
	outboxBytes  = 64 << 20 // max bytes queued by Put, including messages that wait for room
	offeredBytes = 1 << 20  // max bytes queued by Offer
)

// NewOutbox returns an empty outbox.
func NewOutbox() *Outbox {
	return &Outbox{
		queue:  make(chan *jsonrpc.Message, outboxSize),
		unsent: make(chan *jsonrpc.Message, outboxSize),
		closed: make(chan struct{}),
	}
}

// Offer queues m without waiting. It returns ErrNoStream if the queue is full or would exceed 1 MiB, if m is a
// request and no stream is open, or if the outbox is closed.
func (o *Outbox) Offer(_ context.Context, m *jsonrpc.Message) error {
	if m.Method != "" && m.ID != nil && !o.isOpen() || !o.offered(size(m)) {
		return ErrNoStream
	}
	select {
	case o.queue <- m:
		return nil
	default:
		o.count(-size(m))
		return ErrNoStream
	}
}

// offered counts a message of the given size, and returns false if there is no room. While a stream is open, an empty
// queue has room for any message.
func (o *Outbox) offered(size int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended || o.waiting+size > offeredBytes && (o.waiting > 0 || o.current == nil) {
		return false
	}
	o.waiting += size
	return true
}

// Put queues m, waiting for room until ctx ends or the outbox is closed. If more than 64 MiB would be queued, an
// answer is replaced by an error, and any other message is dropped with ErrNoStream.
func (o *Outbox) Put(ctx context.Context, m *jsonrpc.Message) error {
	if m = o.reserve(m); m == nil {
		return ErrNoStream
	}
	err := o.put(ctx, m)
	if err != nil {
		o.count(-size(m))
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

// reserve counts m and returns it, or the error that replaces it, or nil if there is no room.
func (o *Outbox) reserve(m *jsonrpc.Message) *jsonrpc.Message {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.waiting > 0 && o.waiting+size(m) > outboxBytes {
		if m.Method != "" {
			return nil
		}
		m = &jsonrpc.Message{ID: m.ID, Error: tooManyAnswers}
	}
	o.waiting += size(m)
	return m
}

func (o *Outbox) count(bytes int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waiting += bytes
}

func size(m *jsonrpc.Message) int { return len(m.Result) + len(m.Error) + len(m.Params) }

var tooManyAnswers = json.RawMessage(
	`{"code":-32016,"message":"the answer was dropped: ` +
		`more than 64 MiB of answers wait for this client to read them",` +
		`"data":{"kind":"overloaded","outcome":"unknown"}}`)

// Close ends the current stream once the queue is written, and later streams at once. It is idempotent and does not
// wait.
func (o *Outbox) Close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.ended {
		o.ended = true
		close(o.closed)
	}
}

// Serve answers a request with an event stream of the queue. The stream begins with the endpoint
// event of MCP 2024-11-05 unless endpoint is "". Serve blocks until ctx ends, the outbox is closed,
// a write fails, or a later Serve replaces this one. A message whose write fails is repeated on the
// next stream.
func (o *Outbox) Serve(ctx context.Context, w http.ResponseWriter, endpoint string) error {
	replaced := o.replaceStream()
	defer o.endStream(replaced)
	events := sse.NewWriter(w, cacheControl)
	if err := writeFirst(events, endpoint); err != nil {
		return err
	}
	alive := time.NewTicker(sse.KeepAlive)
	defer alive.Stop()
	for {
		select { // a stream that has ended must leave the messages to the next one
		case <-ctx.Done():
			return ctx.Err()
		case <-replaced:
			return nil
		default:
		}
		var err error
		queue := o.queue
		if len(o.unsent) > 0 {
			queue = nil
		}
		select {
		case m := <-o.unsent:
			err = o.write(events, m)
		case m := <-queue:
			err = o.write(events, m)
		case <-alive.C:
			err = events.Comment()
		case <-ctx.Done():
		case <-replaced:
		case <-o.closed:
			return o.drain(events)
		}
		if err != nil {
			return err
		}
	}
}

// write writes a message, or keeps it for the next stream if the write fails. A client that received it nevertheless
// gets it twice.
func (o *Outbox) write(events *sse.Writer, m *jsonrpc.Message) error {
	err := writeEvent(events, m)
	if err != nil {
		if _, broken := jsonrpc.Append(nil, m); broken == nil {
			select {
			case o.unsent <- m: // at most one per ended stream
				return err
			default:
			}
		}
	}
	o.count(-size(m))
	return err
}

// writeFirst opens a stream. Proxies pass on the headers only with the first bytes.
func writeFirst(events *sse.Writer, endpoint string) error {
	if endpoint == "" {
		return events.Comment()
	}
	return events.Event("endpoint", func(b []byte) ([]byte, error) { return append(b, endpoint...), nil }, true)
}

// drain writes the messages that are still queued.
func (o *Outbox) drain(events *sse.Writer) error {
	for {
		var m *jsonrpc.Message
		select {
		case m = <-o.unsent:
		default:
			select {
			case m = <-o.queue:
			default:
				return nil
			}
		}
		if err := o.write(events, m); err != nil {
			return err
		}
	}
}

// replaceStream ends the current stream and registers a new one. The returned channel is closed when the new one is
// replaced.
func (o *Outbox) replaceStream() chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.current != nil {
		close(o.current)
	}
	o.current = make(chan struct{})
	return o.current
}

func (o *Outbox) endStream(replaced chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.current == replaced {
		o.current = nil
	}
}

func (o *Outbox) isOpen() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.current != nil && !o.ended
}
