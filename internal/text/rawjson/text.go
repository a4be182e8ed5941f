package rawjson

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
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
	return bytes.Equal(a, b) || reflect.DeepEqual(decoded(a), decoded(b))
}

// EqualSchemas is Equal for JSON schemas, which also ignores the order that [Unordered] removes.
func EqualSchemas(a, b json.RawMessage) bool {
	return bytes.Equal(a, b) || reflect.DeepEqual(Unordered(decoded(a)), Unordered(decoded(b)))
}

func decoded(raw json.RawMessage) (v any) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return raw
	}
	return v
}

// sets are the keywords of JSON Schema whose lists have no order.
var sets = map[string]bool{
	"required": true, "enum": true, "type": true, "anyOf": true, "oneOf": true, "allOf": true, "default": true,
}

// Unordered sorts, in a decoded JSON schema, the lists that have no order, and the words of a default. A program that
// keeps them in sets, such as those of Python, lists them in another order at each start.
func Unordered(schema any) any { return unordered("", schema) }

func unordered(keyword string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, member := range v {
			out[key] = unordered(key, member)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = unordered("", item)
		}
		if sets[keyword] {
			slices.SortFunc(out, func(a, b any) int { return bytes.Compare(encoded(a), encoded(b)) })
		}
		return out
	case string:
		if keyword == "default" {
			words := strings.FieldsFunc(v, func(r rune) bool { return strings.ContainsRune(" ,;|", r) })
			slices.Sort(words)
			return strings.Join(words, ",")
		}
	}
	return v
}

func encoded(v any) []byte {
	text, _ := json.Marshal(v) // it was decoded from JSON
	return text
}
