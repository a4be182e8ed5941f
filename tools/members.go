package tools

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/internal/wire/schema"
)

// member is a member of a JSON object. value holds the original bytes.
type member struct {
	key   string
	value json.RawMessage
}

// members splits a JSON object into its members in order. Duplicate keys are an error, because readers resolve
// them differently.
func members(data []byte) ([]member, error) {
	if err := rawjson.Check(data); err != nil {
		return nil, fmt.Errorf("not valid JSON: %w", err)
	}
	if c := bytes.TrimLeft(data, " \t\r\n")[0]; c != '{' {
		return nil, fmt.Errorf("expected an object, got %s", schema.TypeName(c))
	}
	var ms []member
	seen := map[string]bool{}
	for key, value := range rawjson.Members(data) {
		if seen[key] {
			return nil, fmt.Errorf("duplicate key %q", display.Cut(key, 64))
		}
		seen[key] = true
		ms = append(ms, member{key, value[:len(value):len(value)]})
	}
	return ms, nil
}

func items(data json.RawMessage) (list []json.RawMessage) {
	_ = json.Unmarshal(data, &list) // callers check that data is an array
	return list
}

// mustMembers splits data that is known to be an object.
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

// object joins members to a JSON object. Values keep their bytes, except that those with line breaks are compacted
// for line-based transports.
func object(ms []member) json.RawMessage {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range ms {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(rawjson.Quote(m.key))
		b.WriteByte(':')
		if bytes.ContainsAny(m.value, "\r\n") {
			_ = json.Compact(&b, m.value) // validated by members
			continue
		}
		b.Write(m.value)
	}
	b.WriteByte('}')
	return bytes.Clone(b.Bytes()) // exact size: descriptors live as long as the host
}

// set returns a copy of ms in which changes replace members of the same key, or are appended.
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
