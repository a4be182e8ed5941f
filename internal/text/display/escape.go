package display

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Escape makes untrusted text safe for a terminal or log: control characters, escape sequences, bidirectional and
// zero-width characters, line separators and invalid UTF-8 become \x1b, \u202e and so on. Tabs stay.
func Escape(s string) string {
	if strings.IndexFunc(s, unsafeRune) < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1, r < utf8.RuneSelf && unsafeRune(r):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r > 0xffff && unsafeRune(r):
			fmt.Fprintf(&b, `\U%08x`, r)
		case unsafeRune(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteString(s[i : i+size])
		}
		i += size
	}
	return b.String()
}

// unsafeRune includes U+FFFD, because invalid UTF-8 decodes to it.
func unsafeRune(r rune) bool {
	return r == utf8.RuneError || r != '\t' && !unicode.IsGraphic(r)
}
