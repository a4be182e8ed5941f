package strict

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// text reads a string of any of the four forms and returns its content; of the
// multi-line forms, which no key may have, it returns nothing.
func (l *locator) text() string {
	q := l.src[l.at : l.at+1]
	if strings.HasPrefix(l.src[l.at:], q+q+q) {
		l.at += 3
		l.until(q+q+q, q == `"`)
		for range 2 { // the string may end in up to two quotes of its own
			if strings.HasPrefix(l.src[l.at:], q) {
				l.at++
			}
		}
		return ""
	}
	l.at++
	start := l.at
	l.until(q, q == `"`)
	content := l.src[start : l.at-1]
	if q == `"` {
		return unescape(content)
	}
	return content
}

func (l *locator) until(end string, escapes bool) {
	for l.at < len(l.src) {
		switch {
		case strings.HasPrefix(l.src[l.at:], end):
			l.at += len(end)
			return
		case len(end) == 1 && l.src[l.at] == '\n':
			l.fail("a string does not end on its line")
		case escapes && l.src[l.at] == '\\':
			l.at++
		}
		l.at++
	}
	l.at = len(l.src)
	l.fail("a string does not end")
}

// unescape reads the escapes of a basic string; the parser has checked them or will.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		const letters, meant = `btnfre"\`, "\b\t\n\f\r\x1b\"\\"
		if j := strings.IndexByte(letters, s[i]); j >= 0 {
			b.WriteByte(meant[j])
			continue
		}
		digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[s[i]]
		code, err := strconv.ParseUint(s[i+1:min(len(s), i+1+digits)], 16, 32)
		if err != nil || code > utf8.MaxRune {
			return s
		}
		b.WriteRune(rune(code))
		i += digits
	}
	return b.String()
}
