package relay

import (
	"bytes"
	"strings"
)

// envelope holds the parts of a message that a relay uses.
type envelope struct {
	id      string // raw; "" if absent or over maxValue
	method  string // "" for a response
	cancels string // raw id in notifications/cancelled
	failed  bool   // error response
}

func (e *envelope) request() bool  { return e.method != "" && e.id != "" }
func (e *envelope) response() bool { return e.method == "" && e.id != "" }

// maxValue limits ids and methods, in bytes.
const maxValue = 4 << 10

// member is a member name known to the scanner.
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

// scanner extracts envelopes from JSON lines that arrive in pieces. It keeps only the envelope, and leaves
// validation to the host.
type scanner struct {
	env     envelope
	began   bool // a byte of the current line was read
	depth   int
	quoted  bool // in a string
	escaped bool // after a backslash in a string
	params  bool // the object at depth 2 is params

	text  []byte // current name or value
	name  member // member whose value is being read
	value bool   // text is a value
}

// scan reads up to the end of the line, and returns the number of bytes read. If ended, env is the line's
// envelope until the next scan.
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

// heeds reports whether the scanner needs members at this depth.
func (s *scanner) heeds() bool { return s.depth == 1 || s.depth == 2 && s.params }

// open handles the start of an object or array.
func (s *scanner) open(c byte) {
	if s.depth == 1 {
		s.params = c == '{' && s.value && s.name == memberParams
		s.env.failed = s.env.failed || s.value && s.name == memberError
	}
	s.depth++
	s.value, s.text = false, s.text[:0]
}

// keep appends b to text if the scanner needs the current name or value.
func (s *scanner) keep(b ...byte) {
	switch {
	case !s.heeds(), s.value && s.name != memberID && s.name != memberMethod && s.name != memberRequestID:
	case len(s.text)+len(b) <= maxValue:
		s.text = append(s.text, b...)
	default:
		s.value = s.value && s.name == memberMethod // a truncated id identifies no request
	}
}

// string reads within a string, including its closing quote, and returns the number of bytes read.
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
		if i := bytes.IndexByte(b[n:end], '\n'); i >= 0 { // the line ends within the string, so it is not JSON
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

// finish handles the end of a value.
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
