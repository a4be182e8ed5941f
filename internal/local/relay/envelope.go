package relay

import (
	"bytes"
	"strings"
)

// envelope is what a relay knows of a message.
type envelope struct {
	id      string // raw; "" if there is none, or if it is too long
	method  string // "" of a response
	cancels string // raw id that a notifications/cancelled names
	failed  bool   // a response with an error
}

func (e *envelope) request() bool  { return e.method != "" && e.id != "" }
func (e *envelope) response() bool { return e.method == "" && e.id != "" }

// maxValue bounds the ids and methods that are remembered.
const maxValue = 4 << 10

// member is the name of a member that a scanner knows.
type member int

const (
	other member = iota
	memberID
	memberMethod
	memberParams
	memberError
	memberRequestID
)

func memberOf(name []byte) member {
	switch string(name) {
	case `"id"`:
		return memberID
	case `"method"`:
		return memberMethod
	case `"params"`:
		return memberParams
	case `"error"`:
		return memberError
	case `"requestId"`:
		return memberRequestID
	}
	return other
}

// scanner reads the envelopes of lines of JSON, which come in pieces. It keeps no more of a
// line than the envelope, and does not check the JSON: the host does.
type scanner struct {
	env     envelope
	began   bool // a byte of the current line was read
	depth   int
	quoted  bool // within a string
	escaped bool // behind a backslash in it
	params  bool // the object at depth 2 is params

	text  []byte // the name or the value that is read now
	name  member // whose value is read
	value bool   // text is a value, not a name
}

// scan reads up to the end of the line, and returns how many bytes it read. ended is true
// when the line has ended; env is then the envelope, until the next scan.
func (s *scanner) scan(piece []byte) (n int, ended bool) {
	if !s.began {
		*s = scanner{began: true, text: s.text[:0]}
	}
	for n < len(piece) {
		if s.quoted {
			n += s.string(piece[n:])
			continue
		}
		c := piece[n]
		n++
		switch c {
		case '\n':
			s.began = false
			return n, true
		case '"':
			s.quoted = true
			s.keep('"')
		case '{', '[':
			s.open(c)
		case '}', ']':
			s.finish()
			s.depth--
		case ':':
			if s.heeds() {
				s.name, s.value, s.text = memberOf(s.text), true, s.text[:0]
			}
		case ',':
			s.finish()
		case ' ', '\t', '\r':
		default:
			s.keep(c)
		}
	}
	return n, false
}

// heeds reports whether the members at this depth matter.
func (s *scanner) heeds() bool { return s.depth == 1 || s.depth == 2 && s.params }

// open begins an object or an array.
func (s *scanner) open(c byte) {
	if s.depth == 1 {
		s.params = c == '{' && s.value && s.name == memberParams
		s.env.failed = s.env.failed || s.value && s.name == memberError
	}
	s.depth++
	s.value, s.text = false, s.text[:0]
}

// keep appends to the text if it matters.
func (s *scanner) keep(b ...byte) {
	switch {
	case !s.heeds(), s.value && s.name != memberID && s.name != memberMethod && s.name != memberRequestID:
	case len(s.text)+len(b) <= maxValue:
		s.text = append(s.text, b...)
	default:
		s.value = s.value && s.name == memberMethod // a part of an id names no request
	}
}

// string reads within a string, up to and with its end, and returns how many bytes it read.
func (s *scanner) string(b []byte) int {
	n := 0
	for n < len(b) && s.quoted {
		if s.escaped {
			s.escaped = false
			n++
			continue
		}
		end := len(b)
		if i := bytes.IndexByte(b[n:], '"'); i >= 0 {
			end = n + i
		}
		if i := bytes.IndexByte(b[n:end], '\n'); i >= 0 { // the end of a line that is no JSON
			s.quoted = false
			return n + i
		}
		if i := bytes.IndexByte(b[n:end], '\\'); i >= 0 {
			n += i + 1
			s.escaped = true
			continue
		}
		if n = end; n < len(b) {
			n++
			s.quoted = false
		}
	}
	s.keep(b[:n]...)
	return n
}

// finish ends the value that is read now.
func (s *scanner) finish() {
	text, complete := s.text, s.heeds() && s.value
	s.value, s.text = false, s.text[:0]
	switch {
	case !complete:
	case s.depth == 2 && s.name == memberRequestID:
		s.env.cancels = string(text)
	case s.depth == 2:
	case s.name == memberID && string(text) != "null":
		s.env.id = string(text)
	case s.name == memberMethod:
		s.env.method = strings.ReplaceAll(strings.Trim(string(text), `"`), `\/`, "/")
	case s.name == memberError:
		s.env.failed = true
	}
}
