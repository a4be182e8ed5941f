package mcpclient

import (
	"context"
	"fmt"

	"github.com/exthost/exthost/internal/concurrent"
	"github.com/exthost/exthost/internal/wire/jsonrpc"
)

// inbox merges the messages of a transport's streams for its one reader, and owns the goroutines of the streams.
type inbox struct {
	messages chan jsonrpc.Message
	ctx      context.Context // of all requests; its cause is the reason why the transport ended
	cancel   context.CancelCauseFunc
	tasks    concurrent.Gate // closed at the end
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

// deliver passes m to the reader. After the end m is dropped.
func (b *inbox) deliver(m jsonrpc.Message) {
	select {
	case b.messages <- m:
	case <-b.ctx.Done():
	}
}

// fail ends the transport. Only the cause of the first call is recorded.
func (b *inbox) fail(cause error) {
	b.cancel(cause) // before Close: a refused task reports the cause
	b.tasks.Close()
}

// closedError returns the error of a call after the end.
func (b *inbox) closedError() error {
	return fmt.Errorf("%w: %w", jsonrpc.ErrClosed, context.Cause(b.ctx))
}
