package schema

import (
	"bytes"
	"slices"

	"github.com/exthost/exthost/internal/text/rawjson"
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

// matches reports whether data is valid JSON, has the shape and is within the bounds of the full check.
func (s *shape) matches(data []byte) bool {
	m := matcher{data: data}
	return m.value(s, 0) && rawjson.SkipSpace(data, m.pos) == len(data)
}

// matcher checks JSON text and its shape in one pass.
type matcher struct {
	data  []byte
	pos   int
	nodes int // number of values
}

// peek skips white space and returns the next byte; 0 at the end, as for a byte that no value begins with.
func (m *matcher) peek() byte {
	if m.pos = rawjson.SkipSpace(m.data, m.pos); m.pos < len(m.data) {
		return m.data[m.pos]
	}
	return 0
}

// scalar moves pos after a string, number or literal, and returns its text; nil if it is not valid JSON.
func (m *matcher) scalar() []byte {
	start := m.pos
	end, err := rawjson.SkipValue(m.data, start)
	if err != nil {
		return nil
	}
	m.pos = end
	return m.data[start:end]
}

func (m *matcher) value(want *shape, depth int) bool {
	if m.nodes++; m.nodes > MaxArgumentNodes || depth > MaxArgumentDepth {
		return false
	}
	c := m.peek()
	switch c {
	case '{':
		return want.texts == nil && want.allowsType(typeObject) && m.object(want, depth)
	case '[':
		return want.texts == nil && want.allowsType(typeArray) && m.array(want, depth)
	}
	text := m.scalar()
	return text != nil && want.allowsType(scalarType(text)) && (want.texts == nil || want.allowsText(text))
}

// allowsType reports whether the shape allows the type k.
func (s *shape) allowsType(k typeSet) bool { return s.types == 0 && k != 0 || s.types&k != 0 }

// allowsText reports whether the scalar is a string in the enum.
func (s *shape) allowsText(scalar []byte) bool {
	return scalar[0] == '"' && !hasEscape(scalar) && slices.Contains(s.texts, string(scalar[1:len(scalar)-1]))
}

// maxShapeMembers is the max number of members of an object that are searched for duplicates.
const maxShapeMembers = 32

func (m *matcher) object(want *shape, depth int) bool {
	var seen [maxShapeMembers][]byte
	missing := want.required
	m.pos++ // the opening brace
	if m.peek() == '}' {
		m.pos++
		return missing == 0
	}
	for n := 0; ; n++ {
		if m.peek() != '"' {
			return false
		}
		key := m.scalar()
		if key == nil || n == len(seen) || hasEscape(key) ||
			slices.ContainsFunc(seen[:n], func(k []byte) bool { return bytes.Equal(k, key) }) {
			return false
		}
		seen[n] = key
		var err error
		if m.pos, err = rawjson.SkipColon(m.data, m.pos); err != nil {
			return false
		}
		f, ok := want.members[string(key[1:len(key)-1])]
		if !ok {
			f.shape = want.additional
		}
		if f.required {
			missing--
		}
		if !m.value(f.shape, depth+1) {
			return false
		}
		if more, ok := m.more('}'); !more {
			return ok && missing == 0
		}
	}
}

func (m *matcher) array(want *shape, depth int) bool {
	m.pos++ // the opening bracket
	if m.peek() == ']' {
		m.pos++
		return true
	}
	for {
		if !m.value(want.items, depth+1) {
			return false
		}
		if more, ok := m.more(']'); !more {
			return ok
		}
	}
}

// more moves pos after the comma or the closing bracket that follows an element. ok is false for any other byte.
func (m *matcher) more(closing byte) (more, ok bool) {
	c := m.peek()
	m.pos++
	return c == ',', c == ',' || c == closing
}

// scalarType returns the type of a scalar; 0 for a number that needs the full check.
func scalarType(text []byte) typeSet {
	switch text[0] {
	case '"':
		return typeString
	case 't', 'f':
		return typeBoolean
	case 'n':
		return typeNull
	}
	switch {
	case len(text) > MaxNumberBytes || bytes.ContainsAny(text, "eE"):
		return 0
	case bytes.IndexByte(text, '.') >= 0:
		return typeFraction // 1.0 is an integer too, but not in every draft
	}
	return typeInteger
}
