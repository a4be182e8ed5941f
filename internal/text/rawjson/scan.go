package rawjson

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math/bits"
	"unicode/utf8"
)

// MaxDepth is the maximum nesting of objects and arrays.
const MaxDepth = 999

// Errors of [Check].
var (
	ErrEnd     = errors.New("unexpected end of JSON")
	ErrSyntax  = errors.New("invalid JSON")
	ErrUTF8    = errors.New("invalid UTF-8")
	ErrControl = errors.New("control character in a JSON string")
	ErrDepth   = errors.New("JSON nested too deep")
	ErrObject  = errors.New("not a JSON object")
)

// Check returns the first error in b: invalid JSON, invalid UTF-8, or nesting deeper than [MaxDepth].
func Check(b []byte) error {
	i, err := SkipValue(b, SkipSpace(b, 0))
	if err == nil && SkipSpace(b, i) < len(b) {
		return ErrSyntax
	}
	return err
}

// Object checks that b is an object, and returns it without line breaks between values: b itself if it has none.
func Object(b []byte) (json.RawMessage, error) {
	if err := Check(b); err != nil {
		return nil, err
	}
	if !IsObject(b) {
		return nil, ErrObject
	}
	if !bytes.ContainsAny(b, "\r\n") {
		return b, nil
	}
	var line bytes.Buffer
	_ = json.Compact(&line, b) // cannot fail after Check
	return line.Bytes(), nil
}

// nesting records which open containers are objects, one bit each.
type nesting struct {
	depth   int
	objects [MaxDepth/64 + 1]uint64
}

func (n *nesting) open(object bool) error {
	if n.depth++; n.depth > MaxDepth {
		return ErrDepth
	}
	if w, bit := n.depth/64, uint64(1)<<(n.depth%64); object {
		n.objects[w] |= bit
	} else {
		n.objects[w] &^= bit
	}
	return nil
}

func (n *nesting) inObject() bool { return n.objects[n.depth/64]>>(n.depth%64)&1 != 0 }

// SkipValue checks syntax, UTF-8 and depth of the value at b[i:], which must not begin with space. It returns the
// index after the value, or that of the error.
func SkipValue(b []byte, i int) (int, error) {
	if i < len(b) && b[i] != '{' && b[i] != '[' {
		return skipScalar(b, i)
	}
	var n nesting
	for {
		var err error
		if i, err = skipOpening(b, i, &n); err != nil {
			return i, err
		}
		if i, err = skipClosing(b, i, &n); err != nil || n.depth == 0 {
			return i, err
		}
	}
}

// skipValid is SkipValue for JSON that was checked before: it only looks for the end, several times faster.
func skipValid(b []byte, i int) (int, error) {
	switch {
	case i >= len(b):
		return i, ErrEnd
	case b[i] == '"':
		return skipQuoted(b, i)
	case b[i] != '{' && b[i] != '[':
		return skipScalar(b, i)
	}
	for depth := 0; i < len(b); i++ {
		switch b[i] {
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1, nil
			}
		case '"':
			end, err := skipQuoted(b, i)
			if err != nil {
				return end, err
			}
			i = end - 1
		}
	}
	return i, ErrEnd
}

// skipQuoted is skipValid for strings.
func skipQuoted(b []byte, i int) (int, error) {
	for begin := i + 1; ; {
		n := bytes.IndexByte(b[i+1:], '"')
		if n < 0 {
			return len(b), ErrEnd
		}
		i += 1 + n
		escapes := 0
		for i-escapes > begin && b[i-escapes-1] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return i + 1, nil
		}
	}
}

// skipOpening skips opening brackets and keys up to the end of the first scalar or empty container.
func skipOpening(b []byte, i int, n *nesting) (int, error) {
	for {
		if i >= len(b) {
			return i, ErrEnd
		}
		c := b[i]
		if c != '{' && c != '[' {
			return skipScalar(b, i)
		}
		if err := n.open(c == '{'); err != nil {
			return i, err
		}
		if i = SkipSpace(b, i+1); i < len(b) && b[i] == c+2 { // '}' is '{'+2, ']' is '['+2
			n.depth--
			return i + 1, nil
		}
		if c == '{' {
			var err error
			if i, err = skipKey(b, i); err != nil {
				return i, err
			}
		}
	}
}

// skipClosing skips what is between two values: closing brackets and, unless the outermost container was closed, a
// comma and the next key.
func skipClosing(b []byte, i int, n *nesting) (int, error) {
	for n.depth > 0 {
		if i = SkipSpace(b, i); i >= len(b) {
			return i, ErrEnd
		}
		object := n.inObject()
		switch c := b[i]; {
		case c == '}' && object, c == ']' && !object:
			n.depth--
			i++
		case c == ',' && object:
			return skipKey(b, SkipSpace(b, i+1))
		case c == ',':
			return SkipSpace(b, i+1), nil
		default:
			return i, ErrSyntax
		}
	}
	return i, nil
}

// skipKey skips a key, its colon and the space around the colon.
func skipKey(b []byte, i int) (int, error) {
	i, err := SkipString(b, i)
	if err != nil {
		return i, err
	}
	return SkipColon(b, i)
}

// SkipColon skips a colon and the space around it.
func SkipColon(b []byte, i int) (int, error) {
	if i = SkipSpace(b, i); i >= len(b) {
		return i, ErrEnd
	}
	if b[i] != ':' {
		return i, ErrSyntax
	}
	return SkipSpace(b, i+1), nil
}

// SkipSpace returns the index of the first byte at or after i that is not space.
func SkipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}

func skipScalar(b []byte, i int) (int, error) {
	if i >= len(b) {
		return i, ErrEnd
	}
	switch b[i] {
	case '"':
		return SkipString(b, i)
	case 't':
		return skipLiteral(b, i, "true")
	case 'f':
		return skipLiteral(b, i, "false")
	case 'n':
		return skipLiteral(b, i, "null")
	}
	return skipNumber(b, i)
}

func skipLiteral(b []byte, i int, literal string) (int, error) {
	if len(b)-i < len(literal) {
		return i, ErrEnd
	}
	if string(b[i:i+len(literal)]) != literal {
		return i, ErrSyntax
	}
	return i + len(literal), nil
}

func skipNumber(b []byte, i int) (int, error) {
	if i < len(b) && b[i] == '-' {
		i++
	}
	var err error
	if i < len(b) && b[i] == '0' {
		i++
	} else if i, err = skipDigits(b, i); err != nil {
		return i, err
	}
	if i < len(b) && b[i] == '.' {
		if i, err = skipDigits(b, i+1); err != nil {
			return i, err
		}
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		if i++; i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		return skipDigits(b, i)
	}
	return i, nil
}

// skipDigits skips one or more digits.
func skipDigits(b []byte, i int) (int, error) {
	start := i
	for i < len(b) && b[i]-'0' < 10 {
		i++
	}
	switch {
	case i > start:
		return i, nil
	case i >= len(b):
		return i, ErrEnd
	}
	return i, ErrSyntax
}

// SkipString is SkipValue for strings. An escaped half of a surrogate pair is valid JSON and accepted.
func SkipString(b []byte, i int) (int, error) {
	if i >= len(b) {
		return i, ErrEnd
	}
	if b[i] != '"' {
		return i, ErrSyntax
	}
	for i++; ; {
		if i = skipPlain(b, i); i >= len(b) {
			return i, ErrEnd
		}
		switch c := b[i]; {
		case c == '"':
			return i + 1, nil
		case c == '\\':
			var err error
			if i, err = skipEscape(b, i); err != nil {
				return i, err
			}
		case c < ' ':
			return i, ErrControl
		case c < utf8.RuneSelf:
			i++
		default:
			if i = skipRunes(b, i); i < len(b) && b[i] >= utf8.RuneSelf {
				return i, ErrUTF8
			}
		}
	}
}

// skipRunes skips valid UTF-8 beyond ASCII.
func skipRunes(b []byte, i int) int {
	for i < len(b) && b[i] >= utf8.RuneSelf {
		r, size := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		i += size
	}
	return i
}

const ones, highs = 0x0101010101010101, 0x8080808080808080 // a bit of each byte of a word: the lowest, the top one

// special sets the top bit of each of the first eight bytes of b that is not ASCII, a control character, a quote
// or a backslash. Only the lowest set bit is reliable, because of borrows.
func special(b []byte) uint64 {
	w := binary.LittleEndian.Uint64(b)
	quote, slash := w^ones*'"', w^ones*'\\'
	return (w | (w - ones*' ') | (quote - ones) | (slash - ones)) & highs
}

// skipPlain skips ASCII without special meaning: a few words one by one, since most strings are short, and then windows
// that double, so that a text with many escapes is not searched for its far end after each of them.
func skipPlain(b []byte, i int) int {
	for end := i + 64; i < end; i += 8 {
		if i+8 > len(b) {
			return i + skipPrintable(untilSpecial(b[i:]))
		}
		if hit := special(b[i:]); hit != 0 {
			return i + bits.TrailingZeros64(hit)/8
		}
	}
	for size := 64; i < len(b); size = min(2*size, 16<<10) { // a window stays in the first cache
		window := b[i:min(i+size, len(b))]
		n := skipPrintable(untilSpecial(window))
		if i += n; n < len(window) {
			break
		}
	}
	return i
}

// untilSpecial returns the bytes before the first quote or backslash.
func untilSpecial(b []byte) []byte {
	if n := bytes.IndexByte(b, '"'); n >= 0 {
		b = b[:n]
	}
	if n := bytes.IndexByte(b, '\\'); n >= 0 {
		b = b[:n]
	}
	return b
}

// skipPrintable returns how many bytes b begins with are ASCII and not control characters.
func skipPrintable(b []byte) (n int) {
	for ; n+32 <= len(b); n += 32 {
		c := b[n : n+32]
		w0, w1 := binary.LittleEndian.Uint64(c), binary.LittleEndian.Uint64(c[8:])
		w2, w3 := binary.LittleEndian.Uint64(c[16:]), binary.LittleEndian.Uint64(c[24:])
		if (w0|w1|w2|w3|(w0-ones*' ')|(w1-ones*' ')|(w2-ones*' ')|(w3-ones*' '))&highs != 0 {
			break
		}
	}
	for n < len(b) && b[n] >= ' ' && b[n] < utf8.RuneSelf {
		n++
	}
	return n
}

func skipEscape(b []byte, i int) (int, error) {
	if i+1 >= len(b) {
		return i, ErrEnd
	}
	switch b[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 2, nil
	case 'u':
		if i+6 > len(b) {
			return i, ErrEnd
		}
		for _, c := range b[i+2 : i+6] {
			if !(c-'0' < 10 || c|0x20 >= 'a' && c|0x20 <= 'f') {
				return i, ErrSyntax
			}
		}
		return i + 6, nil
	}
	return i, ErrSyntax
}
