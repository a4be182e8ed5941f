package rawjson

import (
	"bytes"
	"encoding/json"
	"reflect"
	"unicode/utf8"
)

// Text returns the content of a JSON string; ok is false for other values.
func Text(value json.RawMessage) (text string, ok bool) {
	if len(value) < 2 || value[0] != '"' {
		return "", false
	}
	return string(Unquote(value)), true
}

// Unquote returns the content of a JSON string, aliasing quoted if it has no escapes.
func Unquote(quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1]
	}
	var text string
	_ = json.Unmarshal(quoted, &text) // valid JSON, as the package requires
	return []byte(text)
}

// AppendText appends text as a JSON string. Invalid UTF-8 becomes U+FFFD.
func AppendText[T ~string | ~[]byte](dst []byte, text T) []byte {
	dst = append(dst, '"')
	start := len(dst)
	dst = append(dst, text...)
	if i := skipPlain(dst, start); i < len(dst) {
		dst = appendEscaped(dst[:i], text[i-start:])
	}
	return append(dst, '"')
}

func appendEscaped[T ~string | ~[]byte](dst []byte, text T) []byte {
	const hex = "0123456789abcdef"
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\n':
			dst = append(dst, '\\', 'n')
		case c == '\t':
			dst = append(dst, '\\', 't')
		case c < ' ':
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		case c < utf8.RuneSelf:
			dst = append(dst, c)
		default:
			r, size := utf8.DecodeRuneInString(string(text[i:min(i+utf8.UTFMax, len(text))]))
			dst = utf8.AppendRune(dst, r)
			i += size - 1
		}
	}
	return dst
}

// Equal reports whether two values are equal apart from white space, the order of members and the spelling of
// strings. Invalid JSON is compared by its bytes.
func Equal(a, b json.RawMessage) bool {
	decode := func(raw json.RawMessage) (v any) {
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber()
		if d.Decode(&v) != nil {
			return raw
		}
		return v
	}
	return bytes.Equal(a, b) || reflect.DeepEqual(decode(a), decode(b))
}
