package tools

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/exthost/exthost/internal/rawjson"
)

// member is one member of a JSON object; value holds the bytes as they were sent.
type member struct {
	key   string
	value json.RawMessage
}

// members splits a JSON object into its members in the order they were sent.
func members(data []byte) ([]member, error) {
	if err := rawjson.Check(data); err != nil {
		return nil, notJSON(err)
	}
	s := &scanner{data: data}
	if s.peek() != '{' {
		return nil, fmt.Errorf("expected an object, got %s", typeName(s.peek()))
	}
	var ms []member
	seen := map[string]bool{}
	err := s.elements(func() error {
		key := s.key()
		if seen[key] {
			return fmt.Errorf("duplicate key %q", cut(key, 64))
		}
		seen[key] = true
		s.peek()
		start := s.pos
		s.skip()
		ms = append(ms, member{key, data[start:s.pos:s.pos]})
		return nil
	})
	return ms, err
}

// items splits a JSON array into its elements.
func items(data []byte) []json.RawMessage {
	s := &scanner{data: data}
	var list []json.RawMessage
	s.peek()
	_ = s.elements(func() error { // the callback does not fail
		s.peek()
		start := s.pos
		s.skip()
		list = append(list, data[start:s.pos:s.pos])
		return nil
	})
	return list
}

// mustMembers splits an object that is known to be one.
func mustMembers(schema json.RawMessage) []member {
	ms, _ := members(schema)
	return ms
}

func at(ms []member, key string) json.RawMessage {
	if i := slices.IndexFunc(ms, func(m member) bool { return m.key == key }); i >= 0 {
		return ms[i].value
	}
	return nil
}

func isObject(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '{' }
func isArray(raw json.RawMessage) bool  { return len(raw) > 0 && raw[0] == '[' }

// array writes elements back.
func array(list []json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	b.WriteByte('[')
	for i, v := range list {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(v)
	}
	b.WriteByte(']')
	return b.Bytes()
}

// object writes members back. Values keep their bytes unless they hold a raw
// newline, which a protocol of one object per line cannot carry.
func object(ms []member) json.RawMessage {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range ms {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(quote(m.key))
		b.WriteByte(':')
		if bytes.ContainsAny(m.value, "\r\n") {
			_ = json.Compact(&b, m.value) // valid: members has read it
			continue
		}
		b.Write(m.value)
	}
	b.WriteByte('}')
	return b.Bytes()
}

// quote is json.Marshal of a string without HTML escapes.
func quote(s string) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always encodes
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// set returns ms with the given members in place of its own or behind them.
func set(ms []member, changes ...member) []member {
	out := slices.Clone(ms)
	for _, c := range changes {
		if i := slices.IndexFunc(out, func(m member) bool { return m.key == c.key }); i >= 0 {
			out[i].value = c.value
		} else {
			out = append(out, c)
		}
	}
	return out
}
