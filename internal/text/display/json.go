package display

import (
	"bytes"
	"encoding/json"
)

// VisibleJSON is [Visible] for every text and key in value, which must be valid JSON. All
// other bytes stay unchanged, and so do the line breaks of other systems.
func VisibleJSON(value json.RawMessage) json.RawMessage {
	out, last := []byte(nil), 0
	for i := 0; i < len(value); i++ {
		if value[i] != '"' {
			continue
		}
		end := i + 1
		for ; end < len(value) && value[end] != '"'; end++ {
			if value[end] == '\\' {
				end++
			}
		}
		if end >= len(value) {
			break // no valid JSON
		}
		if clean, changed := visibleLiteral(value[i : end+1]); changed {
			out = append(append(out, value[last:i]...), clean...)
			last = end + 1
		}
		i = end
	}
	if last == 0 {
		return value
	}
	return append(out, value[last:]...)
}

func visibleLiteral(literal []byte) (clean []byte, changed bool) {
	var text string
	if json.Unmarshal(literal, &text) != nil {
		return nil, false
	}
	shown := visible(text, "\n\t\r")
	if shown == text {
		return nil, false
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(shown) // texts always encode
	return bytes.TrimSpace(b.Bytes()), true
}
