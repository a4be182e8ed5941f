package runtime

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/exthost/exthost/internal/rawjson"
)

// toolResult makes an MCP CallToolResult of what a child that need not know
// MCP answered. An object with a content array is one already and stays as it
// was sent; a string becomes a text block; anything else becomes a text block
// holding its JSON, and structuredContent as well when it is an object.
func toolResult(raw json.RawMessage) json.RawMessage {
	raw = bytes.TrimSpace(raw)
	switch {
	case len(raw) == 0:
		return json.RawMessage(`{"content":[]}`)
	case raw[0] == '"':
		return textResult(raw, nil)
	case raw[0] != '{':
		return textResult(rawjson.AppendText(nil, raw), nil)
	case hasContent(raw):
		return raw
	}
	return textResult(rawjson.AppendText(make([]byte, 0, len(raw)+len(raw)/4+2), raw), raw)
}

// textResult wraps a text that is a JSON string already.
func textResult(text, structured []byte) json.RawMessage {
	const head, middle, tail = `{"content":[{"type":"text","text":`, `}],"structuredContent":`, `}]}`
	out := make([]byte, 0, len(head)+len(text)+len(middle)+len(structured)+len(tail))
	out = appendPieces(append(out, head...), text)
	if structured == nil {
		return append(out, tail...)
	}
	return append(appendPieces(append(out, middle...), structured), '}')
}

// appendPieces is append for what may be megabytes long: a copy cannot be preempted,
// and would keep all of the program waiting when the garbage collector is about to
// begin.
func appendPieces(out, text []byte) []byte {
	for piece := range slices.Chunk(text, 128<<10) {
		out = append(out, piece...)
	}
	return out
}

func hasContent(raw json.RawMessage) bool {
	if bytes.HasPrefix(raw, []byte(`{"content":[`)) {
		return true
	}
	if !mayHave(raw, "content") {
		return false
	}
	content := rawjson.Get(raw, "content")
	return len(content) > 0 && content[0] == '['
}
