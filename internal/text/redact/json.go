package redact

import (
	"bytes"
	"context"
	"encoding/hex"
	"unicode/utf16"
	"unicode/utf8"
)

// maxNesting bounds JSON within strings of JSON.
const maxNesting = 3

// JSON replaces every finding in strings and keys of raw by [redacted:rule]; all other bytes stay. Strings are decoded
// for the search, and JSON in a string is searched in the same way. A value is searched together with its key, as
// key":"value, since the key may identify a secret. A base64 string with a finding is masked as a whole. Valid JSON
// stays valid, and truncated JSON is masked up to its end. The only error is ctx's.
func (d *Detector) JSON(ctx context.Context, raw []byte) ([]byte, Findings, error) {
	w := search{Detector: d, ctx: ctx}
	return w.maskAll(raw, func(raw []byte) []span { return merge(w.jsonSpans(nil, raw, 0)) })
}

// jsonSpans appends the spans to mask in raw.
func (w *search) jsonSpans(list []span, raw []byte, nesting int) []span {
	for i := 0; ; {
		quote := bytes.IndexByte(raw[i:], '"')
		if quote < 0 {
			return list
		}
		key := literalAt(raw, i+quote)
		i = key.end + 1
		value, ok := valueAfter(raw, i)
		if ok {
			list = w.member(list, raw, key, value, nesting)
			i = value.end + 1
		} else {
			list = w.member(list, raw, literal{}, key, nesting)
			value = key
		}
		if s, ok := w.base64Span(raw, value); ok {
			list = append(list, s)
		}
		if i >= len(raw) {
			return list
		}
	}
}

// literal is the content of a string in raw JSON.
type literal struct {
	start, end int
	escapes    bool
}

// literalAt returns the string whose opening quote is raw[i]. A truncated string ends with raw.
func literalAt(raw []byte, i int) literal {
	l := literal{start: i + 1}
	for i++; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			l.end = i
			return l
		case '\\':
			l.escapes = true
			i++
		}
	}
	l.end = len(raw)
	return l
}

// valueAfter returns the string value of the key that ends before raw[i]; ok is false if that is not a key or the
// value not a string.
func valueAfter(raw []byte, i int) (l literal, ok bool) {
	if i = skipBlanks(raw, i); i >= len(raw) || raw[i] != ':' {
		return l, false
	}
	if i = skipBlanks(raw, i+1); i >= len(raw) || raw[i] != '"' {
		return l, false
	}
	return literalAt(raw, i), true
}

func skipBlanks(raw []byte, i int) int {
	for i < len(raw) && (raw[i] == ' ' || raw[i] == '\t' || raw[i] == '\n' || raw[i] == '\r') {
		i++
	}
	return i
}

// member appends the spans to mask in value and its key. A zero key means an element of a list.
func (w *search) member(list []span, raw []byte, key, value literal, nesting int) []span {
	if !key.escapes && !value.escapes { // decoded and raw bytes are equal
		start := value.start
		if key.start > 0 {
			start = key.start
		}
		for _, s := range w.spans(raw[start:value.end]) {
			s.start, s.end = s.start+start, s.end+start
			list = key.clip(list, s)
			list = value.clip(list, s)
		}
		return list
	}
	text := make([]byte, 0, key.end-key.start+value.end-value.start+4)
	from := 0
	if key.start > 0 {
		text = append(unescape(text, raw[key.start:key.end]), `":"`...)
		from = len(text)
	}
	text = unescape(text, raw[value.start:value.end])
	spans := w.spans(text)
	if nesting < maxNesting && bytes.IndexByte(text[from:], '\\') >= 0 {
		for _, s := range w.jsonSpans(nil, text[from:], nesting+1) {
			spans = append(spans, span{s.start + from, s.end + from, s.rule})
		}
		spans = merge(spans)
	}
	if len(spans) == 0 {
		return list
	}
	if key.start > 0 {
		list = key.mapSpans(list, raw, spans, 0)
	}
	return value.mapSpans(list, raw, spans, from)
}

// clip appends the part of s within l.
func (l literal) clip(list []span, s span) []span {
	s.start, s.end = max(s.start, l.start), min(s.end, l.end)
	if s.start >= s.end {
		return list
	}
	return append(list, s)
}

// mapSpans converts spans of the decoded text, where l begins at from, to spans of raw, and appends them.
func (l literal) mapSpans(list []span, raw []byte, spans []span, from int) []span {
	i, n := l.start, from // position in raw, and the same position in the decoded text
	seek := func(to int) int {
		for n < to && i < l.end {
			size, r := unescapeOne(raw[i:l.end])
			i, n = i+size, n+r
		}
		return i
	}
	for _, s := range spans {
		list = l.clip(list, span{seek(s.start), seek(s.end), s.rule})
	}
	return list
}

// unescape appends the decoded content of a JSON string. An invalid escape becomes U+FFFD.
func unescape(dst, raw []byte) []byte {
	for len(raw) > 0 {
		plain := bytes.IndexByte(raw, '\\')
		if plain < 0 {
			return append(dst, raw...)
		}
		dst = append(dst, raw[:plain]...)
		raw = raw[plain:]
		r, size := decodeEscape(raw)
		dst = utf8.AppendRune(dst, r)
		raw = raw[size:]
	}
	return dst
}

// unescapeOne returns the raw and the decoded length of the first escape or byte of raw.
func unescapeOne(raw []byte) (size, says int) {
	if raw[0] != '\\' {
		return 1, 1
	}
	r, size := decodeEscape(raw)
	return size, utf8.RuneLen(r)
}

// decodeEscape returns the character of the escape at the start of raw, and its length.
func decodeEscape(raw []byte) (r rune, size int) {
	if len(raw) < 2 {
		return utf8.RuneError, len(raw)
	}
	switch c := raw[1]; c {
	case 'b', 'f', 'n', 'r', 't':
		return rune("\b\f\n\r\t"[bytes.IndexByte([]byte("bfnrt"), c)]), 2
	case 'u':
		unit, ok := hex4(raw)
		if !ok {
			return utf8.RuneError, 2
		}
		if utf16.IsSurrogate(unit) {
			if low, ok := hex4(raw[6:]); ok {
				if r := utf16.DecodeRune(unit, low); r != utf8.RuneError {
					return r, 12
				}
			}
			return utf8.RuneError, 6
		}
		return unit, 6
	case '"', '\\', '/':
		return rune(c), 2
	}
	return utf8.RuneError, 1
}

// hex4 decodes \uXXXX.
func hex4(raw []byte) (rune, bool) {
	var b [2]byte
	if len(raw) < 6 || raw[0] != '\\' || raw[1] != 'u' {
		return 0, false
	}
	if _, err := hex.Decode(b[:], raw[2:6]); err != nil {
		return 0, false
	}
	return rune(b[0])<<8 | rune(b[1]), true
}
