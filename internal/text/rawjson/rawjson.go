// Package rawjson validates JSON and edits members of raw objects, keeping all other bytes: the text of numbers,
// the order of keys, unknown members.
//
// The functions that read or edit members expect valid JSON, which the transports check. Of an invalid object they read
// some members, possibly invalid ones, and they treat any other value as an empty object.
package rawjson

import (
	"encoding/json"
	"iter"
	"maps"
	"slices"
)

// member is a key and value of an object with their position.
type member struct {
	key        []byte
	start, end int // from the opening quote of the key to the end of the value
	value      json.RawMessage
}

// Members yields the members of obj in order, repeated keys included.
func Members(obj json.RawMessage) iter.Seq2[string, json.RawMessage] {
	return func(yield func(string, json.RawMessage) bool) {
		members(obj, func(m member) bool { return yield(string(m.key), m.value) })
	}
}

// Each is Members without allocations: it calls f until f returns false. key may alias obj.
func Each(obj json.RawMessage, f func(key []byte, value json.RawMessage) bool) {
	members(obj, func(m member) bool { return f(m.key, m.value) })
}

// Get returns the value of the member key, or nil. If the member is repeated, it returns the last value, as
// encoding/json does.
func Get(obj json.RawMessage, key string) (value json.RawMessage) {
	members(obj, func(m member) bool {
		if string(m.key) == key {
			value = m.value
		}
		return true
	})
	return value
}

// IsObject reports whether value is an object.
func IsObject(value json.RawMessage) bool {
	i := SkipSpace(value, 0)
	return i < len(value) && value[i] == '{'
}

// Set returns a copy of obj in which value is the only member key, at the position of the first one or at the end.
func Set(obj json.RawMessage, key string, value json.RawMessage) json.RawMessage {
	return Edit(obj, map[string]json.RawMessage{key: value})
}

// Delete returns obj without the members named key; obj itself if there is none.
func Delete(obj json.RawMessage, key string) json.RawMessage {
	if Get(obj, key) == nil {
		return obj
	}
	return Edit(obj, map[string]json.RawMessage{key: nil})
}

// Edit returns obj with each key of values set as by [Set], or deleted if its value is nil. New members come last,
// sorted by key.
func Edit(obj json.RawMessage, values map[string]json.RawMessage) json.RawMessage {
	out := append(make([]byte, 0, len(obj)+64), '{')
	placed := make(map[string]bool, len(values))
	members(obj, func(m member) bool {
		value, edited := values[string(m.key)]
		if edited && (value == nil || placed[string(m.key)]) {
			return true
		}
		out = comma(out)
		out = append(out, obj[m.start:m.end-len(m.value)]...)
		if edited {
			placed[string(m.key)] = true
			out = append(out, value...)
		} else {
			out = append(out, m.value...)
		}
		return true
	})
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if values[key] == nil || placed[key] {
			continue
		}
		out = append(append(AppendText(comma(out), key), ':'), values[key]...)
	}
	return append(out, '}')
}

// comma appends a comma if the object has members.
func comma(out []byte) []byte {
	if len(out) > 1 {
		out = append(out, ',')
	}
	return out
}

// members calls yield until it returns false. It is not an iterator, which would cost two allocations per use.
func members(obj []byte, yield func(member) bool) {
	i := SkipSpace(obj, 0)
	if i >= len(obj) || obj[i] != '{' {
		return
	}
	for more := true; more; more = i < len(obj) && obj[i] == ',' {
		start := SkipSpace(obj, i+1)
		end, err := SkipString(obj, start)
		if err != nil {
			return // usually the end of an empty object
		}
		from, err := SkipColon(obj, end)
		if err != nil {
			return
		}
		if i, err = skipValid(obj, from); err != nil ||
			!yield(member{Unquote(obj[start:end]), start, i, obj[from:i:i]}) {
			return
		}
		i = SkipSpace(obj, i)
	}
}

// Quote returns s as a JSON string.
func Quote(s string) json.RawMessage { return AppendText(nil, s) }

// AppendList appends a JSON array of values to out.
func AppendList(out []byte, values []json.RawMessage) []byte {
	out = append(out, '[')
	for n, value := range values {
		if n > 0 {
			out = append(out, ',')
		}
		out = append(out, value...)
	}
	return append(out, ']')
}
