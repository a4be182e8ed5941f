package strict

import "strings"

// quoted reads a string of any of the four forms and returns its content, or "" for the multi-line forms, which
// keys cannot have.
func (l *locator) quoted() string {
	q := l.Text[l.at : l.at+1]
	if strings.HasPrefix(l.Text[l.at:], q+q+q) {
		l.at += 3
		l.until(q+q+q, q == `"`)
		for range 2 { // up to two quotes before the closing three belong to the string
			if strings.HasPrefix(l.Text[l.at:], q) {
				l.at++
			}
		}
		return ""
	}
	l.at++
	start := l.at
	l.until(q, q == `"`)
	content := l.Text[start : l.at-1]
	if q == `"` {
		return unescape(content)
	}
	return content
}

func (l *locator) until(end string, escapes bool) {
	for l.at < len(l.Text) {
		switch {
		case strings.HasPrefix(l.Text[l.at:], end):
			l.at += len(end)
			return
		case len(end) == 1 && l.Text[l.at] == '\n':
			l.fail("a string does not end on its line")
		case escapes && l.Text[l.at] == '\\':
			l.at++
		}
		l.at++
	}
	l.at = len(l.Text)
	l.fail("a string does not end")
}

// unescape resolves the escapes of a basic string.
func unescape(content string) string {
	if strings.Contains(content, `\`) {
		doc, _ := parse(`"` + content + `" = 0`)
		table, _ := doc.(map[string]any)
		for key := range table {
			return key
		}
	}
	return content
}

func (l *locator) peek() byte {
	if l.at < len(l.Text) {
		return l.Text[l.at]
	}
	return 0
}

func (l *locator) expect(s string) {
	l.space()
	if !strings.HasPrefix(l.Text[l.at:], s) {
		l.fail("expected %s", s)
	}
	l.at += len(s)
}

func (l *locator) space() {
	l.at = len(l.Text) - len(strings.TrimLeft(l.Text[l.at:], " \t"))
}

// blank skips blanks, line ends and comments.
func (l *locator) blank() {
	for {
		l.at = len(l.Text) - len(strings.TrimLeft(l.Text[l.at:], " \t\r\n"))
		if l.peek() != '#' {
			return
		}
		l.comment()
	}
}

func (l *locator) comment() {
	line, _, _ := strings.Cut(l.Text[l.at:], "\n")
	l.at += len(line)
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
