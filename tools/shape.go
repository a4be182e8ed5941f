package tools

import (
	"bytes"
	"slices"
)

// shape is what a plain schema asks of a value, checked on the bytes alone. It
// only ever says yes: what it does not know, be it a keyword, an escape or a wrong
// value, is for the full check, which can also say what is wrong. So most calls
// are never decoded.
type shape struct {
	types   typeSet          // 0: any
	texts   []string         // enum; nil: any value
	members map[string]field // of an object
	need    int              // how many of them are required
	others  *shape           // of members that are not named
	items   *shape           // of an array's elements
}

type field struct {
	shape    *shape
	required bool
}

// typeSet is a set of the types of JSON values.
type typeSet uint8

const (
	typeObject typeSet = 1 << iota
	typeArray
	typeString
	typeBoolean
	typeNull
	typeInteger
	typeFraction
)

var typeSets = map[string]typeSet{"object": typeObject, "array": typeArray, "string": typeString, "boolean": typeBoolean,
	"null": typeNull, "integer": typeInteger, "number": typeInteger | typeFraction}

var (
	anything = new(shape)                       // every value has it
	nothing  = &shape{texts: make([]string, 0)} // none has it
)

func init() { anything.others, anything.items = anything, anything }

// shapeOf returns the shape of a decoded schema, nothing when it asks for more
// than a shape can say.
func shapeOf(schema any) *shape {
	if schema == true {
		return anything
	}
	keywords, ok := schema.(map[string]any)
	if !ok {
		return nothing
	}
	s := &shape{others: anything, items: anything, members: map[string]field{}}
	for key, v := range keywords {
		if !s.add(key, v) {
			return nothing
		}
	}
	for name, f := range s.members {
		if f.shape == nil { // required, and not among the properties
			s.members[name] = field{s.others, f.required}
		}
		if f.required {
			s.need++
		}
	}
	return s
}

// add takes one keyword in and reports whether it could.
func (s *shape) add(keyword string, v any) bool {
	switch keyword {
	case "$schema", "$comment", "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly":
		return true // they ask nothing
	case "type":
		return s.addTypes(v)
	case "enum":
		s.texts = texts(v)
		return s.texts != nil
	case "properties":
		properties, ok := v.(map[string]any)
		for name, schema := range properties {
			s.members[name] = field{shapeOf(schema), s.members[name].required}
		}
		return ok
	case "required":
		names := texts(v)
		for _, name := range names {
			s.members[name] = field{s.members[name].shape, true}
		}
		return names != nil
	case "additionalProperties":
		s.others = shapeOf(v)
		return true
	case "items":
		s.items = shapeOf(v)
		return true
	}
	return false
}

func (s *shape) addTypes(v any) bool {
	if name, ok := v.(string); ok {
		v = []any{name}
	}
	for _, name := range texts(v) {
		s.types |= typeSets[name]
	}
	return s.types != 0
}

// texts returns the strings of a list, nil when it holds anything else.
func texts(v any) []string {
	list, ok := v.([]any)
	if !ok {
		return nil
	}
	out := make([]string, 0, len(list))
	for _, v := range list {
		text, ok := v.(string)
		if !ok {
			return nil
		}
		out = append(out, text)
	}
	return out
}

// fits reports whether data, which rawjson.Check has accepted, has the shape and
// keeps within the bounds of the full check.
func (s *shape) fits(data []byte) bool {
	w := scanner{data: data, max: bounds{maxArgumentNodes, maxArgumentDepth}}
	return w.fits(s, 0)
}

func (s *scanner) fits(want *shape, depth int) bool {
	if s.nodes++; s.nodes > s.max.nodes || depth > s.max.depth {
		return false
	}
	c := s.peek()
	if want.texts != nil {
		return c == '"' && want.takes(typeString) && want.lists(s.token())
	}
	switch c {
	case '{':
		return want.takes(typeObject) && s.objectFits(want, depth)
	case '[':
		return want.takes(typeArray) && s.arrayFits(want, depth)
	case '"':
		s.token()
		return want.takes(typeString)
	case 't', 'f', 'n':
		return want.takes(s.literal())
	}
	return want.takes(s.plainNumber())
}

// takes reports whether values of k's one type have the shape.
func (s *shape) takes(k typeSet) bool { return s.types == 0 && k != 0 || s.types&k != 0 }

// lists reports whether the quoted text is one of those allowed.
func (s *shape) lists(token []byte) bool {
	return !hasEscape(token) && slices.Contains(s.texts, string(token[1:len(token)-1]))
}

// maxShapeMembers is how many members of one object are held against each other
// to find repeated ones.
const maxShapeMembers = 32

func (s *scanner) objectFits(want *shape, depth int) bool {
	var seen [maxShapeMembers][]byte
	missing := want.need
	s.pos++ // the opening brace
	for n := 0; s.peek() != '}'; n++ {
		if s.data[s.pos] == ',' {
			s.pos++
			s.peek()
		}
		key := s.token()
		if n == len(seen) || hasEscape(key) || slices.ContainsFunc(seen[:n], func(k []byte) bool { return bytes.Equal(k, key) }) {
			return false
		}
		seen[n] = key
		s.peek()
		s.pos++ // the colon
		f, ok := want.members[string(key[1:len(key)-1])]
		if !ok {
			f.shape = want.others
		}
		if f.required {
			missing--
		}
		if !s.fits(f.shape, depth+1) {
			return false
		}
	}
	s.pos++
	return missing == 0
}

func (s *scanner) arrayFits(want *shape, depth int) bool {
	s.pos++ // the opening bracket
	for s.peek() != ']' {
		if s.data[s.pos] == ',' {
			s.pos++
		}
		if !s.fits(want.items, depth+1) {
			return false
		}
	}
	s.pos++
	return true
}

// literal moves behind true, false or null.
func (s *scanner) literal() typeSet {
	switch s.data[s.pos] {
	case 't':
		s.pos += len("true")
		return typeBoolean
	case 'f':
		s.pos += len("false")
		return typeBoolean
	}
	s.pos += len("null")
	return typeNull
}

// plainNumber moves behind a number and returns 0 for one that needs a second
// look.
func (s *scanner) plainNumber() typeSet {
	start, k := s.pos, typeInteger
	for ; s.pos < len(s.data) && isNumberByte(s.data[s.pos]); s.pos++ {
		switch s.data[s.pos] {
		case '.':
			k = typeFraction // 1.0 is an integer too, though not for every draft
		case 'e', 'E':
			return 0
		}
	}
	if s.pos-start > maxNumberBytes {
		return 0
	}
	return k
}
