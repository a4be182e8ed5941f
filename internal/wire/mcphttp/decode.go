package mcphttp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/exthost/exthost/internal/wire/jsonrpc"
)

// Decode parses the one JSON-RPC message in a body, by the strict rules of [jsonrpc.Decode] and [Check]. The payload
// keeps its bytes except line breaks between tokens, which would end a message on the line-based pipes of child
// processes. The error is a *jsonrpc.Error; the message then holds only the id, if there is one.
func Decode(body []byte) (m jsonrpc.Message, err error) {
	m, err = jsonrpc.Decode(body)
	if err == nil {
		err = m.Invalid
	}
	if err != nil {
		return jsonrpc.Message{ID: m.ID}, &jsonrpc.Error{Code: errorCode(body), Message: err.Error()}
	}
	if problem := Check(&m); problem != nil {
		return jsonrpc.Message{ID: m.ID}, problem
	}
	for _, payload := range []*json.RawMessage{&m.Params, &m.Result, &m.Error} {
		if bytes.IndexByte(*payload, '\n') >= 0 || bytes.IndexByte(*payload, '\r') >= 0 {
			var b bytes.Buffer
			_ = json.Compact(&b, *payload) // valid, as decoded above
			*payload = b.Bytes()
		}
	}
	return m, nil
}

// maxID is the max length of a request's id in bytes, which the server stores and sends back. Clients use numbers and
// UUIDs.
const maxID = 1 << 10

// Check returns a *jsonrpc.Error for a message that is JSON-RPC but not MCP: an id must be a string or number, params
// an object (MCP, basic, "Messages"). It clears null params, and ids that cannot be used in an answer.
func Check(m *jsonrpc.Message) error {
	problem := ""
	switch {
	case m.Bare:
		problem = `member jsonrpc must be "2.0"`
	case string(m.ID) == "null":
		m.ID = nil
		problem = "id is null"
	case len(m.ID) > maxID:
		m.ID = nil
		problem = fmt.Sprintf("id is longer than %d bytes", maxID)
	case string(m.Params) == "null":
		m.Params = nil
	case m.Params != nil && m.Params[0] != '{':
		problem = "params is not an object"
	}
	if problem == "" {
		return nil
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: problem}
}

// errorCode returns the code for a body that is not a message: invalid request for valid JSON, else parse error.
func errorCode(body []byte) int64 {
	if utf8.Valid(body) && json.Valid(body) {
		return jsonrpc.CodeInvalidRequest
	}
	return jsonrpc.CodeParse
}
