package wire

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/protocol"
)

// Error codes of MCP 2026-07-28.
const (
	codeHeaderMismatch     = -32020
	codeMissingCapability  = -32021
	codeUnsupportedVersion = -32022
)

// InvalidParams returns the error for a request with unusable params.
func InvalidParams(text string) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: text}
}

// MethodNotFound returns the error for a method that this server does not serve.
func MethodNotFound(method string) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "method " + method + " is not served here"}
}

// HeaderMismatch returns the error for HTTP headers that do not match the request.
func HeaderMismatch(text string) error {
	return &jsonrpc.Error{Code: codeHeaderMismatch, Message: text}
}

// UnsupportedVersion returns the error for a protocol version that this server does not serve.
func UnsupportedVersion(requested string, supported []string) error {
	data, _ := json.Marshal(struct { // strings always encode
		Supported []string `json:"supported"`
		Requested string   `json:"requested"`
	}{supported, requested})
	return &jsonrpc.Error{Code: codeUnsupportedVersion, Message: "unsupported protocol version", Data: data}
}

// unknownTool is the error of a tools/call for a tool that does not exist.
type unknownTool struct{ error }

func (e unknownTool) Unwrap() error { return e.error }

// ForMethod returns the error of a request of that method as MCP reports it: an unknown tool is an invalid parameter of
// tools/call, and not an unknown method.
func ForMethod(method string, err error) error {
	if method == protocol.MethodToolsCall && protocol.KindOf(err) == protocol.ToolNotFound {
		return unknownTool{err}
	}
	return err
}

// Status returns the HTTP status of the answer to a modern request that ended with err: 404 for a method that is not
// served, but not for an unknown tool; 400 for requests that this server refuses and for MCP's own error codes; else
// 200, which includes failures of an extension.
func Status(method string, err error) int {
	var own *jsonrpc.Error
	var e *protocol.Error
	code := 0
	switch {
	case errors.As(err, &own):
		if own.Code == jsonrpc.CodeMethodNotFound {
			return http.StatusNotFound
		}
		return http.StatusBadRequest
	case errors.As(err, &e):
		code = e.Wire().Code
	}
	switch code {
	case jsonrpc.CodeMethodNotFound:
		if method != protocol.MethodToolsCall {
			return http.StatusNotFound
		}
	case codeHeaderMismatch, codeMissingCapability, codeUnsupportedVersion:
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// encodeError encodes err as a JSON-RPC error object: a *protocol.Error by its Wire, any error but a *jsonrpc.Error
// as an internal error.
func encodeError(err error) json.RawMessage {
	if own, ok := errors.AsType[*jsonrpc.Error](err); ok {
		object, _ := json.Marshal(own) // cannot fail: Data is this server's own, or was checked on arrival
		return object
	}
	e, ok := errors.AsType[*protocol.Error](err)
	if !ok {
		e = protocol.Errorf(cmp.Or(protocol.KindOf(err), protocol.ExtensionError), "%w", err)
	}
	wire := e.Wire()
	if _, ok := errors.AsType[unknownTool](err); ok {
		wire.Code = jsonrpc.CodeInvalidParams
	}
	object := append(make([]byte, 0, 128), `{"code":`...)
	code, _ := json.Marshal(wire.Code)
	message, _ := json.Marshal(wire.Message)
	object = append(append(append(object, code...), `,"message":`...), message...)
	if len(wire.Data) > 0 {
		object = append(append(object, `,"data":`...), wire.Data...) // the bytes that the extension sent
	}
	return append(object, '}')
}
