package manifest

import (
	"fmt"
	"strconv"
	"strings"
)

// The bounds of what is handed to the TOML parser, whose memory grows with the
// square of a key's depth: 10 KB of dotted key cost it half a gigabyte.
const (
	maxDepth     = 24      // keys and arrays between the root and a value
	maxPathBytes = 1024    // of all keys between the root and a value
	maxWork      = 100_000 // parts of all keys times the depth they stand at
)

// scanner reads TOML just well enough to know where every key stands and how
// deep it is. It judges nothing but depth: at the first character it does not
// understand it stops, and the parser, which sees no more than the scanner did,
// says what is wrong.
type scanner struct {
	src   string
	pos   int
	depth int // of the value being read
	bytes int // of the keys above it
	work  int // what all keys so far cost the parser: their parts times their depth
	limit string
}

// segment is one part of a dotted key.
type segment struct {
	name string
	off  int
}

// scan fills in the tree below root. ok is false when it stopped at s.pos,
// because of s.limit if that is set.
func (s *scanner) scan(root *node) (ok bool) {
	table := root
	for {
		s.blank(true)
		if s.pos == len(s.src) {
			return true
		}
		if s.peek() == '[' {
			table, ok = s.header(root)
		} else {
			ok = s.pair(table)
		}
		if !ok {
			return false
		}
		s.blank(false)
		if s.pos < len(s.src) && !s.newline() {
			return false
		}
	}
}

func (s *scanner) peek() byte {
	if s.pos < len(s.src) {
		return s.src[s.pos]
	}
	return 0 // no file with a NUL gets here
}

// take consumes c if it is next.
func (s *scanner) take(c byte) bool {
	if s.peek() != c {
		return false
	}
	s.pos++
	return true
}

// newline consumes one line end.
func (s *scanner) newline() bool {
	if strings.HasPrefix(s.src[s.pos:], "\r\n") {
		s.pos++
	}
	return s.take('\n')
}

// blank consumes spaces and a comment, or any number of lines of them.
func (s *scanner) blank(lines bool) {
	for {
		switch c := s.peek(); {
		case c == ' ' || c == '\t':
			s.pos++
		case c == '#':
			end := strings.IndexByte(s.src[s.pos:], '\n')
			if end < 0 {
				end = len(s.src) - s.pos
			}
			s.pos += end
		case lines && s.newline():
		default:
			return
		}
	}
}

// header reads [a.b] or [[a.b]] and returns the table that it opens.
func (s *scanner) header(root *node) (*node, bool) {
	s.depth, s.bytes = 0, 0
	s.pos++
	array := s.take('[')
	path, ok := s.key()
	if !ok || !s.take(']') || array && !s.take(']') {
		return nil, false
	}
	n := root
	for i, seg := range path {
		n = n.add(seg.name, seg.off)
		switch last := i == len(path)-1; {
		case last && array:
			n.items = append(n.items, &node{off: path[0].off})
			fallthrough
		case len(n.items) > 0: // [a.b] below [[a]] belongs to its newest element
			n = n.items[len(n.items)-1]
		}
	}
	return n, true
}

// pair reads a.b = value into table.
func (s *scanner) pair(table *node) bool {
	depth, bytes := s.depth, s.bytes
	defer func() { s.depth, s.bytes = depth, bytes }()
	path, ok := s.key()
	if !ok || !s.take('=') {
		return false
	}
	n := table
	for _, seg := range path {
		n = n.add(seg.name, seg.off)
	}
	s.spaces()
	return s.value(n)
}

// key reads a dotted key and counts it to the depth.
func (s *scanner) key() (path []segment, ok bool) {
	for {
		s.spaces()
		off := s.pos
		if !s.enter() {
			return nil, false
		}
		name, ok := s.keyPart()
		if !ok {
			return nil, false
		}
		if s.bytes += len(name) + 1; s.bytes > maxPathBytes {
			s.pos, s.limit = off, fmt.Sprintf("the keys down to here have more than %d bytes", maxPathBytes)
			return nil, false
		}
		path = append(path, segment{name, off})
		s.spaces()
		if !s.take('.') {
			return path, s.afford(off, len(path)*s.depth)
		}
	}
}

func (s *scanner) afford(off, work int) bool {
	if s.work += work; s.work > maxWork {
		s.pos, s.limit = off, "too many deep keys"
		return false
	}
	return true
}

func (s *scanner) keyPart() (string, bool) {
	start := s.pos
	if c := s.peek(); c == '"' || c == '\'' {
		if !s.line(c) {
			return "", false
		}
		quoted := s.src[start:s.pos]
		if name, err := strconv.Unquote(quoted); c == '"' && err == nil {
			return name, true
		}
		return quoted[1 : len(quoted)-1], true
	}
	for isBareKey(s.peek()) {
		s.pos++
	}
	return s.src[start:s.pos], s.pos > start
}

func isBareKey(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-'
}

// enter goes one level down.
func (s *scanner) enter() bool {
	if s.depth++; s.depth > maxDepth {
		s.limit = fmt.Sprintf("more than %d levels of keys and arrays", maxDepth)
		return false
	}
	return true
}

func (s *scanner) spaces() {
	for s.peek() == ' ' || s.peek() == '\t' {
		s.pos++
	}
}

func (s *scanner) value(n *node) bool {
	switch c := s.peek(); c {
	case '"', '\'':
		if strings.HasPrefix(s.src[s.pos:], strings.Repeat(string(c), 3)) {
			return s.lines(c)
		}
		return s.line(c)
	case '[':
		return s.list(']', func() bool {
			item := &node{off: s.pos}
			n.items = append(n.items, item)
			return s.value(item)
		})
	case '{':
		return s.list('}', func() bool { return s.pair(n) })
	}
	return s.scalar()
}

// list reads an array or an inline table, element by element.
func (s *scanner) list(end byte, element func() bool) bool {
	if !s.enter() {
		return false
	}
	defer func() { s.depth-- }()
	s.pos++
	for {
		s.blank(true)
		if s.take(end) {
			return true
		}
		if !element() {
			return false
		}
		s.blank(true)
		if !s.take(',') && s.peek() != end {
			return false
		}
	}
}

// scalar reads a number, a boolean or a date, which may hold one space.
func (s *scanner) scalar() bool {
	start := s.pos
	for {
		c := s.peek()
		date := c == ' ' && s.pos-start == len("1979-05-27") && s.src[start+4] == '-'
		if !isBareKey(c) && strings.IndexByte("+.:", c) < 0 && !date {
			return s.pos > start
		}
		s.pos++
	}
}

// line reads a string that ends on its line.
func (s *scanner) line(quote byte) bool {
	for s.pos++; s.pos < len(s.src); s.pos++ {
		switch c := s.src[s.pos]; {
		case c == quote:
			s.pos++
			return true
		case c == '\n':
			return false
		case c == '\\' && quote == '"':
			s.pos++
		}
	}
	s.pos = len(s.src)
	return false
}

// lines reads a string in triple quotes, the last two of which may be its own.
func (s *scanner) lines(quote byte) bool {
	run := 0
	for s.pos += 3; s.pos < len(s.src); s.pos++ {
		c := s.src[s.pos]
		if c == quote {
			run++
			continue
		}
		if run >= 3 {
			break
		}
		run = 0
		if c == '\\' && quote == '"' {
			s.pos++
		}
	}
	s.pos = min(s.pos, len(s.src))
	return run >= 3 && run < 6
}
