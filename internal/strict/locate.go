package strict

import (
	"fmt"
	"strings"
)

// locateError is where and why [locate] stopped.
type locateError struct {
	offset  int
	message string
	guard   bool // a limit, not a syntax error
}

// locator scans TOML lightly: it finds keys, values and their nesting, accepts
// more than TOML allows, and leaves every judgement but the limits to the parser.
type locator struct {
	src    string
	at     int
	values int
}

// locate returns where everything in src is. It stops at the first thing that
// is not TOML or is beyond a limit.
func locate(src []byte) (root *mark, bad *locateError) {
	l := &locator{src: string(src)}
	root = &mark{}
	defer func() {
		switch p := recover().(type) {
		case nil:
		case *locateError:
			bad = p
		default:
			panic(p)
		}
	}()
	l.document(root)
	return root, nil
}

// fail unwinds to [locate].
func (l *locator) fail(format string, args ...any) {
	panic(&locateError{offset: min(l.at, len(l.src)), message: fmt.Sprintf(format, args...)})
}

func (l *locator) limit(format string, args ...any) {
	panic(&locateError{offset: min(l.at, len(l.src)), message: fmt.Sprintf(format, args...), guard: true})
}

func (l *locator) document(root *mark) {
	table, depth := root, 0
	for l.blank(); l.at < len(l.src); l.blank() {
		if l.peek() != '[' {
			l.pair(table, depth)
			l.lineEnd()
			continue
		}
		start := l.at
		array := strings.HasPrefix(l.src[l.at:], "[[")
		l.at++
		if array {
			l.at++
		}
		keys := l.key()
		l.expect("]")
		if array {
			l.expect("]")
		}
		table, depth = root.descend(keys[:len(keys)-1], start), len(keys)
		last := keys[len(keys)-1]
		if array {
			table = table.field(last, start).add(start)
		} else {
			table = table.descend([]markedKey{last}, start)
		}
		l.lineEnd()
	}
}

// pair reads key = value into table.
func (l *locator) pair(table *mark, depth int) {
	keys := l.key()
	l.expect("=")
	l.space()
	depth += len(keys)
	if depth > maxDepth {
		l.limit("nested more than %d deep", maxDepth)
	}
	table = table.descend(keys[:len(keys)-1], keys[0].start)
	m := table.field(keys[len(keys)-1], l.at)
	m.start = l.at
	l.value(m, depth)
	m.end = l.at
}

func (l *locator) value(m *mark, depth int) {
	if l.values++; l.values > maxNodes {
		l.limit("more than %d values", maxNodes)
	}
	if depth > maxDepth {
		l.limit("nested more than %d deep", maxDepth)
	}
	switch l.peek() {
	case '[':
		l.at++
		for l.blank(); l.peek() != ']'; l.blank() {
			item := m.add(l.at)
			l.value(item, depth+1)
			item.end = l.at
			l.separator(']')
		}
		l.at++
	case '{':
		l.at++
		for l.blank(); l.peek() != '}'; l.blank() {
			l.pair(m, depth)
			l.separator('}')
		}
		l.at++
	case '"', '\'':
		l.text()
	default:
		end := strings.IndexAny(l.src[l.at:], ",]}#\r\n")
		if end < 0 {
			end = len(l.src) - l.at
		}
		bare := strings.TrimRight(l.src[l.at:l.at+end], " \t")
		if bare == "" {
			l.fail("a value is missing")
		}
		l.at += len(bare)
	}
}

// separator skips a comma between elements; the end needs none.
func (l *locator) separator(end byte) {
	l.blank()
	switch l.peek() {
	case ',':
		l.at++
	case end:
	default:
		l.fail("expected a comma or %c", end)
	}
}

// key reads a dotted key.
func (l *locator) key() (keys []markedKey) {
	for {
		l.space()
		if len(keys) == maxParts {
			l.limit("a key of more than %d parts", maxParts)
		}
		key := markedKey{start: l.at}
		switch l.peek() {
		case '"', '\'':
			key.name = l.text()
		default:
			end := strings.IndexAny(l.src[l.at:], " \t.=]\"'#\r\n")
			if end <= 0 {
				l.fail("a key is missing")
			}
			key.name = l.src[l.at : l.at+end]
			l.at += end
		}
		keys = append(keys, key)
		l.space()
		if l.peek() != '.' {
			return keys
		}
		l.at++
	}
}

func (l *locator) peek() byte {
	if l.at < len(l.src) {
		return l.src[l.at]
	}
	return 0
}

func (l *locator) expect(s string) {
	l.space()
	if !strings.HasPrefix(l.src[l.at:], s) {
		l.fail("expected %s", s)
	}
	l.at += len(s)
}

// space skips blanks on the line.
func (l *locator) space() {
	for l.peek() == ' ' || l.peek() == '\t' {
		l.at++
	}
}

// blank skips blanks, line ends and comments. The end of the text inside a
// value ends there as a syntax error.
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
