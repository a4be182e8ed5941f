package strict

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// text reads a string of any of the four forms. It returns the content, but ""
// for the multi-line forms, which no key may have.
func (l *locator) text() string {
	q := l.src[l.at : l.at+1]
	if strings.HasPrefix(l.src[l.at:], q+q+q) {
		l.at += 3
		l.until(q+q+q, q == `"`)
		for range 2 { // up to two quotes before the closing three belong to the string
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

// unescape resolves the escapes of a basic string. The parser rejects wrong ones.
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

// space skips blanks on the line.
func (l *locator) space() {
	for l.peek() == ' ' || l.peek() == '\t' {
		l.at++
	}
}

// blank skips blanks, line ends and comments.
func (l *locator) blank() {
	for l.at < len(l.src) {
		switch l.src[l.at] {
		case ' ', '\t', '\r', '\n':
			l.at++
		case '#':
			l.comment()
		default:
			return
		}
	}
}

func (l *locator) comment() {
	end := strings.IndexByte(l.src[l.at:], '\n')
	if end < 0 {
		end = len(l.src) - l.at
	}
	l.at += end
}

func (l *locator) lineEnd() {
	l.space()
	switch l.peek() {
	case '#':
		l.comment()
	case '\r', '\n', 0:
	default:
		l.fail("expected the end of the line")
	}
}
