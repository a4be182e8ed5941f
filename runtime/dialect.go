package runtime

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/internal/wire/mcpclient"
	"github.com/exthost/exthost/protocol"
)

// dialect translates between the terms of MCP and one wire protocol. Each run has its own
// dialect value; handshake returns before any other method is called.
type dialect interface {
	traits() traits

	// handshake performs the handshake. ctx ends after start_timeout. The caller fills
	// in Tools and Hooks of the Handshake after a review of the offer.
	handshake(ctx context.Context, c *jsonrpc.Conn) (*Handshake, offer, error)

	// relist returns the current tools after the child announced a change.
	relist(ctx context.Context, c *jsonrpc.Conn) ([]json.RawMessage, error)

	// outgoing returns the method and params of the request to the child. token replaces
	// the progress token of the caller; nil for none.
	outgoing(r *Request, token json.RawMessage) (method string, params json.RawMessage, err error)

	// result translates the child's answer to method for the caller.
	result(method string, raw json.RawMessage) json.RawMessage

	// followChanges subscribes to changes of the tools, if the protocol needs that, and
	// blocks until the subscription ends. It returns true if it should be called again.
	followChanges(ctx context.Context, c *jsonrpc.Conn) (again bool)

	// ping returns a request that the child answers at once; "" if there is none.
	ping() (method string, params json.RawMessage)
}

// traits are the properties of a dialect.
type traits struct {
	bare              bool // frames carry no jsonrpc member
	oneCall           bool // the child takes one call at a time
	cancels           bool // canceled calls are announced to the child
	mayIgnoreCanceled bool // the child need not answer canceled calls
	noisyHandshake    bool // servers may complain on stderr about requests of the handshake
	shutdown          bool // stop sends a shutdown request before it closes stdin
	zeroID            bool // request ids begin at 0
	randomID          bool // request ids begin anywhere
}

// withToken returns params with _meta.progressToken replaced.
func withToken(params, token json.RawMessage) json.RawMessage {
	return rawjson.Set(params, "_meta", rawjson.Set(rawjson.Get(params, "_meta"), protocol.MetaProgressToken, token))
}

// handshakeError translates the error of a request of the handshake. It returns errors of
// the connection unchanged, because the end of the process is reported instead.
func handshakeError(method string, err error) error {
	var refused *jsonrpc.Error
	var invalid *jsonrpc.InvalidResponse
	if fault := remoteFault(err); fault != nil {
		if errors.As(err, new(*mcpclient.CredentialsError)) {
			return fault
		}
		return protocol.Errorf(protocol.HandshakeInvalid, "%s: %s", method, fault.Message)
	}
	switch {
	case errors.As(err, &invalid) && errors.As(invalid.Err, new(*protocol.Error)): // of a transport that knows more
		return protocol.Errorf(protocol.SpawnFailed, "%s", protocol.Reason(invalid.Err))
	case errors.As(err, &refused):
		return protocol.Errorf(protocol.HandshakeInvalid, "it refused %s: %s (%d)", method, refused.Message,
			refused.Code)
	case errors.As(err, &invalid):
		e := protocol.Errorf(protocol.HandshakeInvalid, "its answer to %s is not a valid response", method)
		e.Evidence = &protocol.Evidence{Line: cutLine(invalid.Line)}
		return e
	case errors.Is(err, context.DeadlineExceeded):
		return protocol.Errorf(protocol.HandshakeTimeout, "no answer to %s within start_timeout", method)
	}
	return err
}

// notObject is the error for an answer of the wrong shape.
func notObject(method string, raw json.RawMessage) error {
	e := protocol.Errorf(protocol.HandshakeInvalid, "its answer to %s is not an object of the expected shape", method)
	e.Evidence = &protocol.Evidence{Line: cutLine(raw)}
	return e
}
