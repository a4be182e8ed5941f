package mcpserver

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/exthost/exthost/internal/jsonrpc"
	"github.com/exthost/exthost/internal/rawjson"
	"github.com/exthost/exthost/protocol"
)

var emptyObject = json.RawMessage("{}")

// respond makes the response to the request with the given id.
func respond(id, result json.RawMessage, err error) *jsonrpc.Message {
	if err != nil {
		return &jsonrpc.Message{ID: id, Error: encodeError(err)}
	}
	return &jsonrpc.Message{ID: id, Result: result}
}

// encodeError returns err as an error object: this package's own errors as they
// are, the host's by [protocol.Error.Wire], anything else as an internal error.
func encodeError(err error) json.RawMessage {
	var own *jsonrpc.Error
	if errors.As(err, &own) {
		object, _ := json.Marshal(own) // its data is ours or was checked when it came in
		return object
	}
	var e *protocol.Error
	if !errors.As(err, &e) {
		kind := protocol.KindOf(err)
		if kind == "" {
			kind = protocol.ExtensionError
		}
		e = protocol.Errorf(kind, "%w", err)
	}
	wire := e.Wire()
	object := append(make([]byte, 0, 128), `{"code":`...)
	code, _ := json.Marshal(wire.Code)
	message, _ := json.Marshal(wire.Message)
	object = append(append(append(object, code...), `,"message":`...), message...)
	if len(wire.Data) > 0 {
		object = append(append(object, `,"data":`...), wire.Data...) // as the extension sent it
	}
	return append(object, '}')
}

// failureKey is where a tool failure made by the host carries its error data for
// programs. structuredContent is not the place: clients hold it against the
// tool's outputSchema and lose the whole result.
const failureKey = "exthost/error"

// toolFailure returns the result that tells a model why its tools/call was not
// run, nil when err is for the client's program instead: bad arguments can be
// mended and a refusal explained, by the one who wrote the call.
func toolFailure(method string, err error) json.RawMessage {
	var e *protocol.Error
	if method != protocol.MethodToolsCall || !errors.As(err, &e) ||
		e.Kind != protocol.InvalidArguments && e.Kind != protocol.Rejected {
		return nil
	}
	type text struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	result, err := json.Marshal(struct {
		Content []text                     `json:"content"`
		IsError bool                       `json:"isError"`
		Meta    map[string]json.RawMessage `json:"_meta"`
	}{[]text{{"text", e.Message}}, true, map[string]json.RawMessage{failureKey: e.Wire().Data}})
	if err != nil {
		return nil // Data is at fault, so the plain error has to do
	}
	return result
}

// cacheable are the methods whose complete results say how long they keep.
var cacheable = map[string]bool{
	protocol.MethodDiscover: true, protocol.MethodToolsList: true, protocol.MethodPromptsList: true,
	protocol.MethodResourcesList: true, protocol.MethodResourceTemplates: true, protocol.MethodResourcesRead: true,
}

// complete returns result with the members that 2026-07-28 requires where they
// are missing: resultType, and for lists that they are stale at once and for
// nobody else. They go first; what was there keeps its bytes.
func complete(method string, result json.RawMessage) json.RawMessage {
	body := bytes.TrimLeft(result, " \t\r\n")
	if len(body) == 0 || body[0] != '{' {
		return result
	}
	var missing []byte
	kind := member(body, "resultType")
	if kind == nil {
		missing = append(missing, `"resultType":"complete",`...)
	}
	if cacheable[method] && (kind == nil || string(kind) == `"complete"`) {
		if member(body, "ttlMs") == nil {
			missing = append(missing, `"ttlMs":0,`...)
		}
		if member(body, "cacheScope") == nil {
			missing = append(missing, `"cacheScope":"private",`...)
		}
	}
	return prepend(missing, body)
}

// prepend puts members, each followed by a comma, in front of those of object.
func prepend(members []byte, object json.RawMessage) json.RawMessage {
	if len(members) == 0 {
		return object
	}
	rest := object[1:]
	if bytes.TrimLeft(rest, " \t\r\n")[0] == '}' {
		members = members[:len(members)-1]
	}
	out := make([]byte, 0, len(object)+len(members))
	return append(append(append(out, '{'), members...), rest...)
}

// member is rawjson.Get for keys that are mostly not there: results can be large.
func member(object json.RawMessage, key string) json.RawMessage {
	if !bytes.Contains(object, []byte(key)) && !bytes.Contains(object, []byte(`\u`)) { // an escape could spell it
		return nil
	}
	return rawjson.Get(object, key)
}
