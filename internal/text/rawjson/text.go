package rawjson

import (
	"bytes"
	"crypto/sha256"
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
func AppendText[T ~string | ~[]byte](dst []byte, text T) []byte { return appendText(dst, string(text)) }

func appendText(dst []byte, text string) []byte {
	dst = append(dst, '"')
	// What follows a special byte is appended again, so the pieces are small until the text shows to be plain.
	for i, size := 0, minPiece; i < len(text); size = min(2*size, 16<<10) {
		start := len(dst)
		dst = append(dst, text[i:min(i+size, len(text))]...)
		plain := skipPlain(dst, start)
		i += plain - start
		if plain < len(dst) {
			dst, i = appendSpecial(dst[:plain], text, i)
			size = minPiece / 2
		}
	}
	return append(dst, '"')
}

const minPiece = 256 // bytes

// appendSpecial appends text[i:] byte by byte, until several in a row are plain, and returns the index after them.
func appendSpecial(dst []byte, text string, i int) ([]byte, int) {
	const hex = "0123456789abcdef"
	for plain := 0; i < len(text) && plain < 16; i++ {
		plain++
		switch c := text[i]; {
		case c >= ' ' && c < utf8.RuneSelf && c != '"' && c != '\\':
			dst = append(dst, c)
			continue
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\n':
			dst = append(dst, '\\', 'n')
		case c == '\t':
			dst = append(dst, '\\', 't')
		case c < ' ':
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			r, size := utf8.DecodeRuneInString(text[i:])
			dst = utf8.AppendRune(dst, r)
			i += size - 1
		}
		plain = 0
	}
	return dst, i
}

// Equal reports whether two values are equal apart from white space, the order of members and the spelling of
// strings. Invalid JSON is compared by its bytes.
func Equal(a, b json.RawMessage) bool {
	return bytes.Equal(a, b) || reflect.DeepEqual(decoded(a), decoded(b))
}

// Sum is a SHA-256 of a value, see [SumOf].
type Sum [sha256.Size]byte

// SumOf returns the digest of a value. It is the same for values that are [Equal], and differs for others.
func SumOf(raw json.RawMessage) Sum {
	v := decoded(raw)
	if text, ok := v.(json.RawMessage); ok { // no JSON
		return sha256.Sum256(text)
	}
	return sha256.Sum256(encoded(v))
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
