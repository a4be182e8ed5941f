package runtime

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/exthost/exthost/internal/text/rawjson"
)

// toolResult converts the answer of a non-MCP child to a CallToolResult. An object with a content array is returned
// unchanged. A string becomes a text block. Any other value becomes a text block with its JSON; an object becomes
// structuredContent too. own is false if the result is raw itself.
func toolResult(raw json.RawMessage) (result json.RawMessage, own bool) {
	raw = bytes.TrimSpace(raw)
	switch {
	case len(raw) == 0:
		return json.RawMessage(`{"content":[]}`), true
	case raw[0] == '"':
		return textResult(raw, nil), true
	case raw[0] != '{':
		return textResult(rawjson.AppendText(nil, raw), nil), true
	case hasContent(raw):
		return raw, false
	}
	return textResult(rawjson.AppendText(make([]byte, 0, len(raw)+len(raw)/4+2), raw), raw), true
}

// textResult wraps a text, given as a JSON string.
func textResult(text, structured []byte) json.RawMessage {
	const head, middle, tail = `{"content":[{"type":"text","text":`, `}],"structuredContent":`, `}]}`
	out := make([]byte, 0, len(head)+len(text)+len(middle)+len(structured)+len(tail))
	out = appendPieces(append(out, head...), text)
	if structured == nil {
		return append(out, tail...)
	}
	return append(appendPieces(append(out, middle...), structured), '}')
}

// appendPieces appends a text of megabytes piece by piece: a single copy cannot be preempted, and would delay a garbage
// collection and thus the whole program.
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
