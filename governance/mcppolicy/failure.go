package mcppolicy

import (
	"encoding/json"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
)

// outcome returns the result of an exchange, or its error as {code, message, data}.
func outcome(x *governance.Exchange) json.RawMessage {
	if x.Response != nil || x.Failure == nil {
		return x.Response
	}
	failure, _ := json.Marshal(x.Failure.Wire()) // Wire returns valid Data only
	return failure
}

// errorResult returns an error {code, message, data} as a tool's result with isError.
func errorResult(failure json.RawMessage) json.RawMessage {
	message := rawjson.Get(failure, "message")
	if message == nil {
		message = json.RawMessage("null")
	}
	b := append([]byte(`{"content":[{"type":"text","text":`), message...)
	b = append(b, `}],"isError":true`...)
	if data := rawjson.Get(failure, "data"); data != nil {
		b = append(append(b, `,"structuredContent":`...), data...)
	}
	return append(b, '}')
}

// editError returns failure with the text and the structured content of result, which is the result
// of errorResult as a plugin changed it. The outcome remains an error, whatever isError says.
func editError(failure, result json.RawMessage) json.RawMessage {
	data := rawjson.Get(result, "structuredContent")
	if string(data) == "null" {
		data = nil
	}
	return rawjson.Edit(failure,
		map[string]json.RawMessage{"message": rawjson.Quote(protocol.ToolResult(result).Text()), "data": data})
}
