package strict

import (
	"fmt"
	"strings"
)

// locator scans TOML and records where keys and values are. It accepts more than
// TOML allows: except for the limits, the parser decides what is valid.
type locator struct {
	src    string
	at     int
	rules  Rules
	values int
	work   int // the parts of each key times their depth: the cost of the keys for the parser
}

// level says what stands above a key or value.
type level struct {
	depth int // keys and arrays
	bytes int // of the keys
}

// located is why [locate] stopped, and where.
type located struct {
	offset  int
	message string
	limit   bool // the text exceeds a limit; false: it is not TOML
}

// locate returns where everything in src is. It stops at the first thing that is
// not TOML or exceeds a limit.
func locate(src string, rules Rules) (root *mark, bad *located) {
	l := &locator{src: src, rules: rules.resolved()}
	root = &mark{}
	defer func() {
		switch p := recover().(type) {
		case nil:
		case *located:
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
	panic(&located{offset: min(l.at, len(l.src)), message: fmt.Sprintf(format, args...)})
}

func (l *locator) limit(format string, args ...any) {
	panic(&located{offset: min(l.at, len(l.src)), message: fmt.Sprintf(format, args...), limit: true})
}

func (l *locator) document(root *mark) {
	table, in := root, level{}
	for l.blank(); l.at < len(l.src); l.blank() {
		if l.peek() == '[' {
			table, in = l.header(root)
		} else {
			l.pair(table, in)
		}
		l.lineEnd()
	}
}

// header reads [a.b] or [[a.b]] and returns the table that it opens.
func (l *locator) header(root *mark) (*mark, level) {
	start, closing := l.at, "]"
	l.at++
	if l.peek() == '[' {
		l.at++
		closing = "]]"
	}
	keys, in := l.key(level{})
	for range closing {
		l.expect("]")
	}
	if l.rules.AtKeys {
		start = keys[0].start
	}
	last := len(keys) - 1
	if closing == "]" {
		return root.descend(keys, start), in
	}
	return root.descend(keys[:last], start).field(keys[last], start).add(start), in
}

// pair reads key = value into table.
func (l *locator) pair(table *mark, in level) {
	keys, in := l.key(in)
	l.expect("=")
	l.space()
	last := len(keys) - 1
	m := table.descend(keys[:last], keys[0].start).field(keys[last], l.at)
	m.start = l.at
	l.value(m, in)
	m.end = l.at
}

func (l *locator) value(m *mark, in level) {
	if l.values++; l.values > l.rules.Values {
		l.limit("more than %d values", l.rules.Values)
	}
	switch l.peek() {
	case '[':
		if in.depth++; in.depth > l.rules.Depth {
			l.limit("nested more than %d deep", l.rules.Depth)
		}
		l.at++
		for l.blank(); l.peek() != ']'; l.blank() {
			item := m.add(l.at)
			l.value(item, in)
			item.end = l.at
			l.separator(']')
		}
		l.at++
	case '{':
		l.at++
		for l.blank(); l.peek() != '}'; l.blank() {
			l.pair(m, in)
			l.separator('}')
		}
		l.at++
	case '"', '\'':
		l.text()
	default:
		l.bare()
	}
}

// bare reads a value without quotes or brackets.
func (l *locator) bare() {
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

// separator skips a comma between elements; the last element needs none.
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

// key reads a dotted key and returns the level below it.
func (l *locator) key(in level) (keys []markedKey, below level) {
	for {
		l.space()
		in.depth++
		switch {
		case in.depth > l.rules.Depth:
			l.limit("nested more than %d deep", l.rules.Depth)
		case len(keys) == l.rules.Parts:
			l.limit("a key of more than %d parts", l.rules.Parts)
		}
		key := l.keyPart()
		keys = append(keys, key)
		in.bytes += len(key.name) + 1
		if most := l.rules.KeyBytes; most > 0 && in.bytes > most {
			l.limit("the keys down to here have more than %d bytes", most)
		}
		l.space()
		if l.peek() != '.' {
			break
		}
		l.at++
	}
	l.work += len(keys) * in.depth
	if l.rules.Work > 0 && l.work > l.rules.Work {
		l.limit("too many deep keys")
	}
	return keys, in
}

func (l *locator) keyPart() markedKey {
	key := markedKey{start: l.at}
	if c := l.peek(); c == '"' || c == '\'' {
		key.name = l.text()
		return key
	}
	end := strings.IndexAny(l.src[l.at:], " \t.=]\"'#\r\n")
	if end <= 0 {
		l.fail("a key is missing")
	}
	key.name = l.src[l.at : l.at+end]
	l.at += end
	return key
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
