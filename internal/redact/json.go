package redact

import (
	"bytes"
	"context"
	"encoding/hex"
	"unicode/utf16"
	"unicode/utf8"
)

// maxNesting bounds how deep JSON in strings of JSON is looked into.
const maxNesting = 3

// JSON returns raw with what was found in its strings and keys replaced by
// [redacted:rule]; every other byte stays, numbers among them. Escapes hide
// nothing: what a string says counts, and where that holds JSON again, also what
// its strings say. A value is seen with its key before it, as key":"value, so that
// names tell what a value is, and a string that is base64 of a text is masked as a
// whole when something is found in that. Valid JSON stays valid; JSON that is cut off
// somewhere is masked up to there. The only error is that of ctx.
func (d *Detector) JSON(ctx context.Context, raw []byte) ([]byte, Findings, error) {
	w := search{Detector: d, ctx: ctx}
	return w.rounds(raw, func(raw []byte) []span { return join(w.jsonSpans(nil, raw, 0)) })
}

// jsonSpans adds to list what is to be masked in raw.
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
		if s, ok := w.encoded(raw, value); ok {
			list = append(list, s)
		}
		if i >= len(raw) {
			return list
		}
	}
}

// literal is the inside of a string in raw JSON.
type literal struct {
	start, end int
	escapes    bool
}

// literalAt returns the string whose opening quote is raw[i]. One that is cut off
// ends with raw.
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

// valueAfter returns the string that is the value of the key that ended before
// raw[i]; ok is false when that was no key, or the value is none.
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

// member adds to list what is to be masked in value and its key, which may be no
// literal.
func (w *search) member(list []span, raw []byte, key, value literal, nesting int) []span {
	if !key.escapes && !value.escapes { // text and raw are the same
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
		spans = join(spans)
	}
	if len(spans) == 0 {
		return list
	}
	if key.start > 0 {
		list = key.located(list, raw, spans, 0)
	}
	return value.located(list, raw, spans, from)
}

// clip adds the part of s that lies in l.
func (l literal) clip(list []span, s span) []span {
	s.start, s.end = max(s.start, l.start), min(s.end, l.end)
	if s.start >= s.end {
		return list
	}
	return append(list, s)
}

// located adds those parts of spans of a text that lie in l, which begins at
// text[from], as spans of raw.
func (l literal) located(list []span, raw []byte, spans []span, from int) []span {
	i, n := l.start, from // of raw, and the same place in the text
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

// unescape appends what the inside of a JSON string says. An escape that is none
// says U+FFFD.
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

// unescapeOne returns the length of what raw begins with, an escape or a byte, and
// the length of what that says.
func unescapeOne(raw []byte) (size, says int) {
	if raw[0] != '\\' {
		return 1, 1
	}
	r, size := decodeEscape(raw)
	return size, utf8.RuneLen(r)
}

// decodeEscape returns what the escape that raw begins with says, and its length.
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

// hex4 reads \uXXXX.
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
