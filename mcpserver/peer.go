package mcpserver

import (
	"context"
	"encoding/json"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/exthost/exthost/internal/jsonrpc"
	"github.com/exthost/exthost/mcpserver/internal/wire"
	"github.com/exthost/exthost/protocol"
)

// requestPeer is the [protocol.Peer] for a client during one of its requests. Its
// messages precede the answer on the same stream.
type requestPeer struct {
	write    writer
	early    func(result json.RawMessage) error // answers the request before its call has ended; nil if that is not possible
	requests requestSender                      // nil if the client takes no requests
	noLogs   bool                               // drop notifications/message
	answered atomic.Bool
}

// requestSender sends a request to a client, by write if the request goes the way of
// an answer, and waits for the result.
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
		return nil, protocol.Errorf(protocol.ToolNotFound, "%s: the client cannot be asked anything during this request", method)
	}
	return p.requests.sendRequest(ctx, method, params, p.write)
}

// sessionPeer is the [protocol.Peer] for a client outside of its requests.
type sessionPeer struct{ *clientSession }

// Notify implements [protocol.Peer]. It drops notifications to a client that has not
// finished its handshake, which requests all lists later anyway.
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

// cancelTimeout bounds the notification that a request to the client is cancelled.
const cancelTimeout = time.Second

// clientRequests are the requests to a client that have no response yet.
type clientRequests struct {
	mu     sync.Mutex
	lastID uint64
	byID   map[string]chan *jsonrpc.Message // by raw id
}

// add returns the id of a new request, and the channel on which its response
// arrives.
func (q *clientRequests) add() (id json.RawMessage, response <-chan *jsonrpc.Message) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lastID++
	id = strconv.AppendUint(nil, q.lastID, 10)
	responses := make(chan *jsonrpc.Message, 1)
	q.byID[string(id)] = responses
	return id, responses
}

func (q *clientRequests) remove(id json.RawMessage) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.byID, string(id))
}

// deliver delivers a response of the client. A response to no request that waits is
// dropped.
func (q *clientRequests) deliver(m *jsonrpc.Message) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if response := q.byID[string(m.ID)]; response != nil {
		delete(q.byID, string(m.ID))
		response <- m // has room for the one response
	}
}

// sendRequest implements [requestSender].
func (c *clientSession) sendRequest(ctx context.Context, method string, params json.RawMessage, write writer) (json.RawMessage, error) {
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
		cancelClientRequest(ctx, id, write)
		return nil, ctx.Err()
	}
}

// cancelClientRequest tells the client that a request to it is cancelled.
func cancelClientRequest(ctx context.Context, id json.RawMessage, write writer) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTimeout)
	defer cancel()
	params := append(append([]byte(`{"requestId":`), id...), '}')
	_ = write(ctx, &jsonrpc.Message{Method: protocol.MethodCancelled, Params: params}) // optional in MCP
}
