package mcphttp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/exthost/exthost/internal/jsonrpc"
)

// Decode reads the one JSON-RPC message that body holds, by the strict rules of
// [jsonrpc.Decode] and those MCP adds: no batch, a string or number as id, an
// object as params. The payload keeps its bytes, but for line breaks between its
// tokens, which would break the framing of line-based wires behind this one. The
// error is a *jsonrpc.Error; the message beside it holds the id, if there is one.
func Decode(body []byte) (m jsonrpc.Message, err error) {
	m, err = jsonrpc.Decode(body)
	if err == nil {
		err = m.Invalid
	}
	if err != nil {
		return jsonrpc.Message{ID: m.ID}, &jsonrpc.Error{Code: faultOf(body), Message: err.Error()}
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

// maxID is how long the id of a request may be, which is kept and sent back: those of
// clients are numbers, or as long as a UUID.
const maxID = 1 << 10

// Check refuses a message that is JSON-RPC but not MCP, with a *jsonrpc.Error. It
// clears an id that cannot be answered to and params that are null.
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

// faultOf tells what is no JSON from what is no message.
func faultOf(body []byte) int64 {
	if utf8.Valid(body) && json.Valid(body) {
		return jsonrpc.CodeInvalidRequest
	}
	return jsonrpc.CodeParse
}
