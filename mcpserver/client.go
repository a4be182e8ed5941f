package mcpserver

import (
	"context"
	"encoding/json"
	"sync/atomic"

	"github.com/exthost/exthost/internal/jsonrpc"
	"github.com/exthost/exthost/protocol"
)

// requestClient is the client as it is reached during one of its requests, by
// the way its answer will go.
type requestClient struct {
	write writer
	asks  asker       // nil: it cannot be asked
	quiet bool        // it did not ask for notifications/message
	over  atomic.Bool // the request has been answered
}

// asker puts a question to a client. Where it goes by the way of an answer, write
// is that way.
type asker interface {
	ask(ctx context.Context, method string, params json.RawMessage, write writer) (json.RawMessage, error)
}

var errAnswered = protocol.Errorf(protocol.Canceled, "the request has been answered")

// Notify implements [protocol.Peer].
func (c *requestClient) Notify(ctx context.Context, method string, params json.RawMessage) error {
	switch {
	case c.over.Load():
		return errAnswered
	case c.quiet && method == protocol.MethodMessage:
		return nil
	}
	return c.write(ctx, &jsonrpc.Message{Method: method, Params: params})
}

// Call implements [protocol.Peer].
func (c *requestClient) Call(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	switch {
	case c.over.Load():
		return nil, errAnswered
	case c.asks == nil:
		return nil, protocol.Errorf(protocol.ToolNotFound, "%s: the client cannot be asked anything during this request", method)
	}
	return c.asks.ask(ctx, method, params, c.write)
}

// sessionClient is the client as it is reached outside its requests.
type sessionClient struct{ *conversation }

// Notify implements [protocol.Peer]. Before the client is ready there is nothing
// to tell it: it will ask for every list anyway.
func (c sessionClient) Notify(ctx context.Context, method string, params json.RawMessage) error {
	if !c.ready.Load() {
		return nil
	}
	return c.write(ctx, &jsonrpc.Message{Method: method, Params: params})
}

// Call implements [protocol.Peer].
func (c sessionClient) Call(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	if !c.ready.Load() {
		return nil, protocol.Errorf(protocol.NotReady, "the client has not finished its handshake")
	}
	return c.ask(ctx, method, params, c.write)
}
