package rawjson

import "encoding/json"

// Quote returns s as a JSON string.
func Quote(s string) json.RawMessage { return AppendText(nil, s) }

// AppendList appends a JSON array of values to out.
func AppendList(out []byte, values []json.RawMessage) []byte {
	out = append(out, '[')
	for n, value := range values {
		if n > 0 {
			out = append(out, ',')
		}
		out = append(out, value...)
	}
	return append(out, ']')
}
