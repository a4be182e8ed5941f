package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/internal/text/rawjson"
)

// bounds are limits of one JSON text.
type bounds struct{ nodes, depth int }

// MaxNumberBytes and maxExponent keep exact arithmetic on numbers cheap: 1e1000000 has nine bytes and a million
// digits.
const (
	MaxNumberBytes = 1000
	maxExponent    = 1000
)

// scanner scans JSON text accepted by rawjson.Check, and checks size, depth, duplicate keys and the size of numbers.
type scanner struct {
	data  []byte
	pos   int
	max   bounds
	nodes int // number of values
	refs  int // number of members named $ref, $dynamicRef or $recursiveRef
}

// decode decodes data like jsonschema.UnmarshalJSON, with numbers as json.Number. It enforces max and rejects
// duplicate keys, which two readers may resolve differently.
func decode(data []byte, max bounds) (any, *scanner, error) {
	if err := rawjson.Check(data); err != nil {
		return nil, nil, fmt.Errorf("not valid JSON: %w", err)
	}
	s := &scanner{data: data, max: max}
	v, err := s.value(0)
	return v, s, err
}

func (s *scanner) value(depth int) (any, error) {
	if s.nodes++; s.nodes > s.max.nodes {
		return nil, fmt.Errorf("more than %d values", s.max.nodes)
	}
	if depth > s.max.depth {
		return nil, fmt.Errorf("nested deeper than %d levels", s.max.depth)
	}
	switch s.peek() {
	case '{':
		return s.object(depth)
	case '[':
		list := []any{}
		err := s.elements(func() error {
			v, err := s.value(depth + 1)
			list = append(list, v)
			return err
		})
		return list, err
	case '"':
		return s.text(), nil
	case 't':
		s.pos += len("true")
		return true, nil
	case 'f':
		s.pos += len("false")
		return false, nil
	case 'n':
		s.pos += len("null")
		return nil, nil
	}
	return s.number()
}

func (s *scanner) object(depth int) (any, error) {
	object := map[string]any{}
	err := s.elements(func() error {
		key := s.key()
		if _, ok := object[key]; ok {
			return fmt.Errorf("duplicate key %q", display.Cut(key, 64))
		}
		switch key {
		case "$ref", "$dynamicRef", "$recursiveRef":
			s.refs++
		}
		v, err := s.value(depth + 1)
		object[key] = v
		return err
	})
	return object, err
}

// elements calls f for each element of the object or array at pos, and moves pos after the closing bracket.
func (s *scanner) elements(f func() error) error {
	s.pos++ // the opening bracket
	for {
		switch s.peek() {
		case '}', ']':
			s.pos++
			return nil
		case ',':
			s.pos++
		}
		if err := f(); err != nil {
			return err
		}
	}
}

// peek skips white space and returns the next byte.
func (s *scanner) peek() byte {
	for {
		switch c := s.data[s.pos]; c {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return c
		}
	}
}

// key reads a member's key and the colon after it.
func (s *scanner) key() string {
	s.peek()
	key := s.text()
	s.peek()
	s.pos++
	return key
}

func (s *scanner) text() string {
	token := s.token()
	if !hasEscape(token) {
		return string(token[1 : len(token)-1])
	}
	var t string
	_ = json.Unmarshal(token, &t) // rawjson.Check has accepted it
	return t
}

func hasEscape(text []byte) bool { return bytes.IndexByte(text, '\\') >= 0 }

// token moves pos after the string at pos and returns it with its quotes.
func (s *scanner) token() []byte {
	start, end := s.pos, s.pos+1
	for {
		quote := end + bytes.IndexByte(s.data[end:], '"')
		escape := bytes.IndexByte(s.data[end:quote], '\\')
		if escape < 0 {
			s.pos = quote + 1
			return s.data[start:s.pos]
		}
		end += escape + 2 // the escaped byte may be the quote
	}
}

func (s *scanner) number() (any, error) {
	start, exponent := s.pos, 0
	for s.pos < len(s.data) && isNumberByte(s.data[s.pos]) {
		if c := s.data[s.pos]; c|0x20 == 'e' {
			exponent = s.pos + 1
		}
		s.pos++
	}
	text := string(s.data[start:s.pos])
	if len(text) > MaxNumberBytes {
		return nil, fmt.Errorf("a number of %d digits", len(text))
	}
	if exponent > 0 {
		e, err := strconv.Atoi(text[exponent-start:])
		if err != nil || e > maxExponent || e < -maxExponent {
			return nil, fmt.Errorf("number %s is out of range", display.Cut(text, 40))
		}
	}
	return json.Number(text), nil
}

func isNumberByte(c byte) bool {
	return c >= '0' && c <= '9' || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E'
}

// TypeName returns the type of the JSON value that begins with c.
func TypeName(c byte) string {
	switch c {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}
