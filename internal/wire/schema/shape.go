package schema

import (
	"bytes"
	"slices"
)

// shape is a fast check on undecoded bytes. It accepts only what the schema accepts. Other values, and keywords and
// escapes that shape does not support, are left to the full check, which also explains errors. So most arguments are
// never decoded.
type shape struct {
	types      typeSet          // 0: any
	texts      []string         // enum; nil: any value
	members    map[string]field // of an object
	required   int              // number of required members
	additional *shape           // shape of the other members
	items      *shape           // shape of an array's elements
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

var typeSets = map[string]typeSet{
	"object":  typeObject,
	"array":   typeArray,
	"string":  typeString,
	"boolean": typeBoolean,
	"null":    typeNull,
	"integer": typeInteger,
	"number":  typeInteger | typeFraction,
}

var (
	anything = new(shape)                       // accepts every value
	nothing  = &shape{texts: make([]string, 0)} // accepts no value
)

func init() { anything.additional, anything.items = anything, anything }

// shapeOf returns the shape of a decoded schema, or nothing if shape does not support all of its keywords.
func shapeOf(schema any) *shape {
	if schema == true {
		return anything
	}
	keywords, ok := schema.(map[string]any)
	if !ok {
		return nothing
	}
	s := &shape{additional: anything, items: anything, members: map[string]field{}}
	for key, v := range keywords {
		if !s.add(key, v) {
			return nothing
		}
	}
	for name, f := range s.members {
		if f.shape == nil { // required, but not listed in properties
			s.members[name] = field{s.additional, f.required}
		}
		if f.required {
			s.required++
		}
	}
	return s
}

// add adds one keyword. It returns false if shape does not support it.
func (s *shape) add(keyword string, v any) bool {
	switch keyword {
	case "$schema", "$comment", "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly":
		return true // annotations
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
		s.additional = shapeOf(v)
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

// texts returns v as a list of strings, or nil if it is not one.
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

// matches reports whether data, which rawjson.Check has accepted, has the shape and is within the bounds of the full
// check.
func (s *shape) matches(data []byte) bool {
	w := scanner{data: data, max: bounds{MaxArgumentNodes, MaxArgumentDepth}}
	return w.matches(s, 0)
}

func (s *scanner) matches(want *shape, depth int) bool {
	if s.nodes++; s.nodes > s.max.nodes || depth > s.max.depth {
		return false
	}
	c := s.peek()
	if want.texts != nil {
		return c == '"' && want.allowsType(typeString) && want.allowsText(s.token())
	}
	switch c {
	case '{':
		return want.allowsType(typeObject) && s.matchObject(want, depth)
	case '[':
		return want.allowsType(typeArray) && s.matchArray(want, depth)
	case '"':
		s.token()
		return want.allowsType(typeString)
	case 't', 'f', 'n':
		return want.allowsType(s.literal())
	}
	return want.allowsType(s.plainNumber())
}

// allowsType reports whether the shape allows the type k.
func (s *shape) allowsType(k typeSet) bool { return s.types == 0 && k != 0 || s.types&k != 0 }

// allowsText reports whether the quoted text is in the enum.
func (s *shape) allowsText(token []byte) bool {
	return !hasEscape(token) && slices.Contains(s.texts, string(token[1:len(token)-1]))
}

// maxShapeMembers is the max number of members of an object that are searched for duplicates.
const maxShapeMembers = 32

func (s *scanner) matchObject(want *shape, depth int) bool {
	var seen [maxShapeMembers][]byte
	missing := want.required
	s.pos++ // the opening brace
	for n := 0; s.peek() != '}'; n++ {
		if s.data[s.pos] == ',' {
			s.pos++
			s.peek()
		}
		key := s.token()
		if n == len(seen) || hasEscape(key) ||
			slices.ContainsFunc(seen[:n], func(k []byte) bool { return bytes.Equal(k, key) }) {
			return false
		}
		seen[n] = key
		s.peek()
		s.pos++ // the colon
		f, ok := want.members[string(key[1:len(key)-1])]
		if !ok {
			f.shape = want.additional
		}
		if f.required {
			missing--
		}
		if !s.matches(f.shape, depth+1) {
			return false
		}
	}
	s.pos++
	return missing == 0
}

func (s *scanner) matchArray(want *shape, depth int) bool {
	s.pos++ // the opening bracket
	for s.peek() != ']' {
		if s.data[s.pos] == ',' {
			s.pos++
		}
		if !s.matches(want.items, depth+1) {
			return false
		}
	}
	s.pos++
	return true
}

// literal moves pos after true, false or null.
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

// plainNumber moves pos after a number. It returns 0 for a number that needs the full check.
func (s *scanner) plainNumber() typeSet {
	start, k := s.pos, typeInteger
	for ; s.pos < len(s.data) && isNumberByte(s.data[s.pos]); s.pos++ {
		switch s.data[s.pos] {
		case '.':
			k = typeFraction // 1.0 is an integer too, but not in every draft
		case 'e', 'E':
			return 0
		}
	}
	if s.pos-start > MaxNumberBytes {
		return 0
	}
	return k
}
