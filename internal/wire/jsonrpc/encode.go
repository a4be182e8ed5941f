package jsonrpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/exthost/exthost/internal/text/rawjson"
)

// Append appends m to dst as one line without a newline. Payloads are copied byte for byte, but a
// payload with a raw newline or carriage return, which would end the line, is compacted. If such a
// payload is not JSON, Append returns dst unchanged and an error that wraps errNotJSON.
func Append(dst []byte, m *Message) ([]byte, error) {
	b := append(dst, '{')
	if !m.Bare {
		b = append(b, `"jsonrpc":"2.0",`...)
	}
	var err error
	if m.ID != nil {
		b, err = appendPayload(append(b, `"id":`...), m.ID)
		b = append(b, ',')
	}
	name, payload := "params", m.Params
	switch {
	case m.Method != "":
		b = rawjson.AppendText(append(b, `"method":`...), m.Method)
		if len(payload) == 0 {
			return append(b, '}'), err
		}
		b = append(b, ',')
	case m.Error != nil:
		name, payload = "error", m.Error
	case err == nil && m.Encoder != nil:
		return append(m.Encoder.Append(append(b, `"result":`...)), '}'), nil
	default:
		name, payload = "result", m.Result
	}
	if len(payload) == 0 {
		payload = json.RawMessage("null")
	}
	if err == nil {
		b = append(append(append(b, '"'), name...), `":`...)
		b, err = appendPayload(b, payload)
	}
	if err != nil {
		return dst, err
	}
	return append(b, '}'), nil
}

// appendPayload appends raw JSON, compacted if it has line breaks. It looks for them piece by piece, each of which is
// then in the processor's cache to be copied.
func appendPayload(b, raw []byte) ([]byte, error) {
	const size = 16 << 10
	begin := len(b)
	for i := 0; i < len(raw); i += size {
		piece := raw[i:min(i+size, len(raw))]
		if bytes.IndexByte(piece, '\n') >= 0 || bytes.IndexByte(piece, '\r') >= 0 {
			return appendCompacted(b[:begin], raw)
		}
		b = append(b, piece...)
	}
	return b, nil
}

var errNotJSON = errors.New("jsonrpc: payload is not JSON")

func appendCompacted(b, raw []byte) ([]byte, error) {
	buf := bytes.NewBuffer(b)
	if err := json.Compact(buf, raw); err != nil {
		return b, fmt.Errorf("%w: %w", errNotJSON, err)
	}
	return buf.Bytes(), nil
}
