package display

import (
	"bytes"
	"encoding/json"
)

// VisibleJSON applies [Visible] to each string and key of value, which must be valid JSON. It also keeps carriage
// returns and other line breaks; all other bytes stay unchanged.
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
			break // not valid JSON
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
	_ = e.Encode(shown) // strings always encode
	return bytes.TrimSpace(b.Bytes()), true
}
