package mcpserver

import (
	"context"
	"encoding/json"
	"sync/atomic"

	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/mcpserver/internal/wire"
	"github.com/exthost/exthost/protocol"
)

// requestPeer is the [protocol.Peer] for a client during one of its requests. Its
// messages precede the answer on the same stream.
type requestPeer struct {
	write writer
	// answers the request before its call has ended; nil if the transport cannot do that
	early    func(result json.RawMessage) error
	requests requestSender // nil if the client takes no requests
	noLogs   bool          // drop notifications/message
	begun    bool          // the task of the request must have begun here, see protocol.Call
	answered atomic.Bool
}

// requestSender sends a request to a client and waits for the result. An implementation may use write, the stream of
// the client's current request.
type requestSender interface {
	sendRequest(ctx context.Context, method string, params json.RawMessage, write writer) (json.RawMessage, error)
}

var errAnswered = protocol.Errorf(protocol.Canceled, "the request has been answered")

// Notify implements [protocol.Peer].
func (p *requestPeer) Notify(ctx context.Context, method string, params json.RawMessage) error {
	switch {
	case p.answered.Load():
		return errAnswered
	case p.noLogs && method == protocol.MethodMessage:
		return nil
	}
	return p.write(ctx, &jsonrpc.Message{Method: method, Params: params})
}

// Call implements [protocol.Peer].
func (p *requestPeer) Call(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	switch {
	case p.answered.Load():
		return nil, errAnswered
	case p.requests == nil:
		return nil, protocol.Errorf(protocol.ToolNotFound,
			"%s: the client cannot be asked anything during this request", method)
	}
	return p.requests.sendRequest(ctx, method, params, p.write)
}

// sessionPeer is the [protocol.Peer] for a client outside of its requests.
type sessionPeer struct{ *clientSession }

// Notify implements [protocol.Peer]. It drops notifications to a client before its handshake is complete: that client
// requests all lists afterwards anyway.
func (p sessionPeer) Notify(ctx context.Context, method string, params json.RawMessage) error {
	if !p.ready.Load() {
		return nil
	}
	return p.write(ctx, &jsonrpc.Message{Method: method, Params: params})
}

// Call implements [protocol.Peer].
func (p sessionPeer) Call(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	if !p.ready.Load() {
		return nil, protocol.Errorf(protocol.NotReady, "the client has not finished its handshake")
	}
	return p.sendRequest(ctx, method, params, p.write)
}

// sendRequest implements [requestSender].
func (c *clientSession) sendRequest(ctx context.Context, method string, params json.RawMessage, write writer,
) (json.RawMessage, error) {
	if info := c.info.Load(); info != nil {
		if err := wire.CheckCapability(info.Capabilities, method, params); err != nil {
			return nil, err
		}
	}
	id, response := c.toClient.add()
	defer c.toClient.remove(id)
	err := write(ctx, &jsonrpc.Message{ID: id, Method: method, Params: params})
	if err != nil {
		return nil, err
	}
	select {
	case m := <-response:
		return wire.ClientResult(m)
	case <-c.attached.Done():
		return nil, errEnded
	case <-ctx.Done():
		cancelQuestion(ctx, id, write)
		return nil, ctx.Err()
	}
}
