package redact

import (
	"bytes"
	"encoding/base64"
	"unicode/utf8"
)

const (
	minEncoded = 24  // minimum length of base64 text to decode
	maxPreface = 128 // maximum length of a data URL's prefix
)

// base64Span returns the whole string as a span if it is base64 of a text with a finding.
func (w *search) base64Span(raw []byte, l literal) (s span, found bool) {
	text := raw[l.start:l.end]
	if len(text) < minEncoded {
		return s, false
	}
	if at := bytes.Index(text[:min(len(text), maxPreface)], []byte(";base64,")); at >= 0 {
		text = text[at+len(";base64,"):]
	}
	if !looksEncoded(text) {
		return s, false
	}
	if l.escapes {
		text = unescape(nil, text)
	}
	rule := w.ruleIn(decodeBase64(text))
	return span{l.start, l.end, rule}, rule != ""
}

// ruleIn returns the rule of the first secret in a decoded text, or "".
func (w *search) ruleIn(decoded []byte) string {
	spans := w.spans(decoded)
	if len(spans) == 0 {
		spans = w.jsonSpans(nil, decoded, maxNesting)
	}
	if len(spans) == 0 {
		return ""
	}
	return spans[0].rule
}

// looksEncoded reports whether the beginning of text is base64 of a text, which rules out most other texts.
func looksEncoded(text []byte) bool {
	head, ok := encodedHead(text)
	if !ok {
		return false
	}
	var decoded [minEncoded / 4 * 3]byte
	if _, err := base64.RawStdEncoding.Decode(decoded[:], head[:]); err != nil {
		return false
	}
	for cut := range utf8.UTFMax { // the decoded part may end within a character
		if utf8.Valid(decoded[:len(decoded)-cut]) {
			return true
		}
	}
	return false
}

// encodedHead returns the first characters of text in the standard alphabet of base64, without escaped line breaks.
// ok is false if text has other characters there, or too few.
func encodedHead(text []byte) (head [minEncoded]byte, ok bool) {
	n := 0
	for i := 0; i < len(text) && n < len(head); i++ {
		switch c := text[i]; {
		case isLetter(c) || isDigit(c) || c == '+' || c == '/':
			head[n] = c
			n++
		case c == '-' || c == '_': // the URL alphabet
			head[n] = "+/"[(c>>1)&1]
			n++
		case c == '\\' && i+1 < len(text) && (text[i+1] == 'n' || text[i+1] == 'r'):
			i++
		case c != '\\':
			return head, false
		}
	}
	return head, n == len(head)
}

// decodeBase64 decodes text in either alphabet, up to the last complete byte if it is truncated. It returns nil
// for invalid base64 and for binary data.
func decodeBase64(text []byte) []byte {
	if bytes.ContainsAny(text, "\r\n") {
		text = bytes.ReplaceAll(bytes.ReplaceAll(text, []byte("\r"), nil), []byte("\n"), nil)
	}
	if text = bytes.TrimRight(text, "="); len(text)%4 == 1 {
		text = text[:len(text)-1]
	}
	encoding := base64.RawStdEncoding
	if bytes.ContainsAny(text, "-_") {
		encoding = base64.RawURLEncoding
	}
	decoded := make([]byte, encoding.DecodedLen(len(text)))
	n, err := encoding.Decode(decoded, text)
	if err != nil || bytes.IndexByte(decoded[:n], 0) >= 0 {
		return nil
	}
	return decoded[:n]
}
