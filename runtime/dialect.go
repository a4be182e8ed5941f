package runtime

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/exthost/exthost/internal/jsonrpc"
	"github.com/exthost/exthost/internal/rawjson"
	"github.com/exthost/exthost/protocol"
)

// dialect is what one wire protocol makes of a conversation in MCP's terms. One
// dialect value serves one run; handshake ends before anything else begins.
type dialect interface {
	traits() traits

	// handshake opens the conversation. ctx ends with start_timeout. Tools and
	// Hooks of the Handshake are left to the caller, who reviews the offer.
	handshake(ctx context.Context, c *jsonrpc.Conn) (*Handshake, offer, error)

	// relist returns the tools after the child said that they changed.
	relist(ctx context.Context, c *jsonrpc.Conn) ([]json.RawMessage, error)

	// outgoing returns the method and params that carry r to the child. token is
	// the progress token to state there instead of the caller's, nil for none.
	outgoing(r *Request, token json.RawMessage) (method string, params json.RawMessage, err error)

	// result returns the child's answer to method as the caller wants it.
	result(method string, raw json.RawMessage) json.RawMessage

	// follow blocks while it hears from the child that its tools changed, if the
	// child tells only those who ask. again says that it is to be called again.
	follow(ctx context.Context, c *jsonrpc.Conn) (again bool)

	// ping returns a request that a live child answers at once, "" if there is none.
	ping() (method string, params json.RawMessage)
}

// traits are the ways in which dialects differ by yes or no.
type traits struct {
	bare     bool // frames carry no jsonrpc member
	single   bool // one call in flight
	cancels  bool // abandoned requests are announced
	mute     bool // announced ones need not be answered
	probed   bool // the handshake tries things that servers may complain about on stderr
	shutdown bool // a shutdown request precedes the end of stdin
	zeroID   bool // request ids begin at 0
}

// withToken returns params with _meta.progressToken replaced.
func withToken(params, token json.RawMessage) json.RawMessage {
	return rawjson.Set(params, "_meta", rawjson.Set(rawjson.Get(params, "_meta"), protocol.MetaProgressToken, token))
}

// handshakeError says what err, of one request of the handshake, means. Errors
// of the connection pass unchanged: they are told by how the process ends.
func handshakeError(method string, err error) error {
	var refused *jsonrpc.Error
	var invalid *jsonrpc.InvalidResponse
	if fault := remoteFault(err); fault != nil {
		return protocol.Errorf(protocol.HandshakeInvalid, "%s: %s", method, fault.Message)
	}
	switch {
	case errors.As(err, &refused):
		return protocol.Errorf(protocol.HandshakeInvalid, "it refused %s: %s (%d)", method, refused.Message, refused.Code)
	case errors.As(err, &invalid):
		e := protocol.Errorf(protocol.HandshakeInvalid, "its answer to %s is not a valid response", method)
		e.Evidence = &protocol.Evidence{Line: cutLine(invalid.Line)}
		return e
	case errors.Is(err, context.DeadlineExceeded):
		return protocol.Errorf(protocol.HandshakeTimeout, "no answer to %s within start_timeout; raise it under [runtime] if the extension is only slow to start", method)
	}
	return err
}

// notObject is the error of an answer that cannot be read.
func notObject(method string, raw json.RawMessage) error {
	e := protocol.Errorf(protocol.HandshakeInvalid, "its answer to %s is not an object of the expected shape", method)
	e.Evidence = &protocol.Evidence{Line: cutLine(raw)}
	return e
}
