package mcphttp

import (
	"context"
	"fmt"
	"sync"

	"github.com/exthost/exthost/internal/jsonrpc"
)

// inbox collects what the streams of one transport bring, for its one reader, and
// owns their goroutines.
type inbox struct {
	messages chan jsonrpc.Message
	ctx      context.Context // of all requests; its cause is why the transport ended
	cancel   context.CancelCauseFunc

	mu    sync.Mutex // guards the start of tasks against the end
	tasks sync.WaitGroup
}

func (b *inbox) init() {
	b.messages = make(chan jsonrpc.Message)
	b.ctx, b.cancel = context.WithCancelCause(context.Background())
}

// Read implements [jsonrpc.Transport].
func (b *inbox) Read() (jsonrpc.Message, error) {
	select {
	case m := <-b.messages:
		return m, nil
	case <-b.ctx.Done():
		return jsonrpc.Message{}, context.Cause(b.ctx)
	}
}

// deliver hands m to the reader; false after the end.
func (b *inbox) deliver(m jsonrpc.Message) bool {
	select {
	case b.messages <- m:
		return true
	case <-b.ctx.Done():
		return false
	}
}

// start runs f in a goroutine that the end of the transport waits for; false
// after the end.
func (b *inbox) start(f func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ctx.Err() != nil {
		return false
	}
	b.tasks.Go(f)
	return true
}

// fail ends the transport for the given reason. The first one counts.
func (b *inbox) fail(cause error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cancel(cause)
}

// over is the error of whoever comes after the end.
func (b *inbox) over() error { return fmt.Errorf("%w: %w", jsonrpc.ErrClosed, context.Cause(b.ctx)) }

// end ends the transport and waits for all it has running.
func (b *inbox) end() {
	b.fail(jsonrpc.ErrClosed)
	b.tasks.Wait()
}
