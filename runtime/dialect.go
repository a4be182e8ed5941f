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

// dialect translates between MCP and one wire protocol. Each run has its own dialect. Other methods are called only
// after handshake has returned.
type dialect interface {
	traits() traits

	// handshake performs the handshake. ctx ends after StartTimeout. The caller sets Tools and Hooks of the Handshake
	// after reviewing the descriptors.
	handshake(ctx context.Context, c *jsonrpc.Conn) (*Handshake, descriptors, error)

	// relist lists the tools after the child has announced a change.
	relist(ctx context.Context, c *jsonrpc.Conn) ([]json.RawMessage, error)

	// outgoing returns method and params of the request to the child. A token replaces the caller's progress token;
	// with a nil token, the caller's is sent.
	outgoing(r *Request, token json.RawMessage) (method string, params json.RawMessage, err error)

	// converter returns what translates the child's result of method for the caller; nil if the result stays as it is.
	converter(method string) converter

	// followChanges subscribes to tool changes, if the protocol requires that, and blocks until the subscription ends.
	// It returns true if it is to be called again.
	followChanges(ctx context.Context, c *jsonrpc.Conn) (again bool)

	// ping returns a request that the child answers at once; "" if there is none.
	ping() (method string, params json.RawMessage)
}

// converter is a [jsonrpc.CallOptions] Convert.
type converter = func(result json.RawMessage) (converted json.RawMessage, own bool)

// traits are properties of a dialect.
type traits struct {
	bare              bool // frames have no jsonrpc member
	oneCall           bool // the child takes one call at a time
	cancels           bool // canceled calls are announced to the child
	mayIgnoreCanceled bool // the child need not answer canceled calls
	noisyHandshake    bool // servers may complain on stderr about handshake requests
	shutdown          bool // a shutdown request is sent before stdin is closed
	zeroID            bool // request ids begin at 0
	randomID          bool // request ids begin at a random number
}

// withToken replaces _meta.progressToken of params.
func withToken(params, token json.RawMessage) json.RawMessage {
	return rawjson.Set(params, "_meta", rawjson.Set(rawjson.Get(params, "_meta"), protocol.MetaProgressToken, token))
}

// handshakeError translates the error of a handshake request. It returns connection errors unchanged, as the end of the
// process is reported instead.
func handshakeError(method string, err error) error {
	var refused *jsonrpc.Error
	var invalid *jsonrpc.InvalidResponse
	if fault := remoteFault(err); fault != nil {
		if errors.As(err, new(*mcpclient.CredentialsError)) {
			return fault
		}
		refused := protocol.Errorf(protocol.HandshakeInvalid, "%s: %s", method, fault.Message)
		refused.Next = fault.Next
		return refused
	}
	switch {
	case errors.As(err, &invalid) && errors.As(invalid.Err, new(*protocol.Error)): // from a transport that knows more
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
