package sdk

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/text/rawjson"
)

// shape holds the required members of an input schema, which decoding into a struct does not check. A nil shape
// requires nothing.
type shape struct {
	required []string
	members  map[string]*shape // of the properties that require something themselves
	others   *shape            // of the other members
	items    *shape            // of the elements of a list
}

// shapeOf reads the shape of a schema. It looks into properties, additionalProperties and items, not into references
// and alternatives.
func shapeOf(schema json.RawMessage) *shape {
	if !rawjson.IsObject(schema) {
		return nil
	}
	s := &shape{
		others: shapeOf(rawjson.Get(schema, "additionalProperties")),
		items:  shapeOf(rawjson.Get(schema, "items")),
	}
	_ = json.Unmarshal(rawjson.Get(schema, "required"), &s.required) // anything but a list of names requires nothing
	for name, property := range rawjson.Members(rawjson.Get(schema, "properties")) {
		if inner := shapeOf(property); inner != nil {
			if s.members == nil {
				s.members = make(map[string]*shape)
			}
			s.members[name] = inner
		}
	}
	if len(s.required) == 0 && s.members == nil && s.others == nil && s.items == nil {
		return nil
	}
	return s
}

// check returns an error that names the required members that value lacks. at is the path of value, "" at the top.
func (s *shape) check(at string, value json.RawMessage) error {
	switch {
	case s == nil || len(value) == 0:
		return nil
	case value[0] == '{':
		return s.checkMembers(at, value)
	case value[0] == '[' && s.items != nil:
		var elements []json.RawMessage
		_ = json.Unmarshal(value, &elements) // value is JSON, and a list
		for i, element := range elements {
			if err := s.items.check(fmt.Sprintf("%s[%d]", at, i), element); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *shape) checkMembers(at string, object json.RawMessage) (err error) {
	if at != "" {
		at += "."
	}
	missing := slices.Clone(s.required)
	rawjson.Each(object, func(name []byte, value json.RawMessage) bool {
		missing = slices.DeleteFunc(missing, func(required string) bool { return required == string(name) })
		inner, known := s.members[string(name)]
		if !known {
			inner = s.others
		}
		if inner != nil {
			err = inner.check(at+string(name), value)
		}
		return err == nil
	})
	if err != nil || len(missing) == 0 {
		return err
	}
	return fmt.Errorf("the arguments do not fit: %s is missing", at+strings.Join(missing, ", "+at))
}
