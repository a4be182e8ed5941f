package jsonrpc

import (
	"encoding/json"
	"errors"
	"strconv"

	"github.com/exthost/exthost/internal/text/rawjson"
)

// Message is one JSON-RPC frame: a request (ID and Method), a notification (Method only) or an answer (ID only). A
// handler owns its message; the memory is not reused.
type Message struct {
	ID     json.RawMessage // raw, compared byte for byte; nil for a notification
	Method string          // "" for an answer
	Params json.RawMessage // nil when absent
	Result json.RawMessage
	Error  json.RawMessage // the raw error object

	// Of is the id of the request on whose stream the message came, for transports with a stream per request; the
	// message belongs to that call. It is null for an answer on a stream without a request. Ignored when writing.
	Of json.RawMessage
	// Encoder, unless nil, makes the result in place of Result. Ignored when reading.
	Encoder Encoder
	// Bare is set for a frame without "jsonrpc":"2.0".
	Bare bool
	// Invalid is the fault of an unusable answer, which has only ID and Raw.
	Invalid error
	// Raw is the whole frame as read; ignored when writing.
	Raw []byte
	// Free, unless nil, gives the memory of the frame back to the transport. Only a [Conn] calls it, for an answer that
	// no call waits for or that Convert has copied. Ignored when writing.
	Free func()
}

// Encoder makes a result when its frame is written, which saves a copy of a large one. A handler sets it on its
// request in place of the result that it returns.
type Encoder interface {
	// Append appends the result to frame, as JSON without line breaks. It runs after the handler has returned, each
	// time that the frame is made, and under a lock of the transport: it must not block, or depend on what changes.
	Append(frame []byte) []byte
	// Size is about how many bytes Append appends.
	Size() int
}

// Error is a JSON-RPC error object. A handler's *Error is sent unchanged; Call returns the *Error of the peer's
// answer.
type Error struct {
	Code    int64           `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Error codes: the standard ones, and CodeOverloaded for requests beyond MaxHandlers.
const (
	CodeParse          = -32700
	CodeInvalidRequest = -32600
	CodeMethodNotFound = -32601
	CodeInvalidParams  = -32602
	CodeInternal       = -32603
	CodeOverloaded     = -32016
)

// rawError encodes err as an error object: an [*Error] unchanged, any other error as an internal error.
func rawError(err error) json.RawMessage {
	var e *Error
	if !errors.As(err, &e) {
		e = &Error{Code: CodeInternal, Message: err.Error()}
	}
	b := make([]byte, 0, 40+len(e.Message)+len(e.Data))
	b = strconv.AppendInt(append(b, `{"code":`...), e.Code, 10)
	b = rawjson.AppendText(append(b, `,"message":`...), e.Message)
	if rawjson.Check(e.Data) == nil {
		b = append(append(b, `,"data":`...), e.Data...)
	}
	return append(b, '}')
}
