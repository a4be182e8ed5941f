// Package rawjson checks JSON, and edits objects in place of rebuilding them:
// whatever is not touched keeps its bytes, so number text, key order and unknown
// members come out as they went in.
//
// The functions that edit expect valid JSON, which the transports have checked;
// an object is read up to its first fault, and anything else has no members.
package rawjson

import (
	"encoding/json"
	"iter"
	"maps"
	"slices"
)

// member is one key and value of an object and where they stand in it.
type member struct {
	key        []byte
	start, end int // from the opening quote of the key to the end of the value
	value      json.RawMessage
}

// Members iterates over the members of obj in their order, with repeated keys.
func Members(obj json.RawMessage) iter.Seq2[string, json.RawMessage] {
	return func(yield func(string, json.RawMessage) bool) {
		members(obj, func(m member) bool { return yield(string(m.key), m.value) })
	}
}

// Each is Members for who must not pay for it: f is called with each member, whose
// key may be a part of obj, until it returns false.
func Each(obj json.RawMessage, f func(key []byte, value json.RawMessage) bool) {
	members(obj, func(m member) bool { return f(m.key, m.value) })
}

// Get returns the value of key, nil when obj has no such member. Of repeated
// members the last counts, as in encoding/json.
func Get(obj json.RawMessage, key string) (value json.RawMessage) {
	members(obj, func(m member) bool {
		if string(m.key) == key {
			value = m.value
		}
		return true
	})
	return value
}

// Set returns obj with value as its only member named key: in the place of the
// first of that name, or at the end. It never changes obj itself.
func Set(obj json.RawMessage, key string, value json.RawMessage) json.RawMessage {
	return Edit(obj, map[string]json.RawMessage{key: value})
}

// Delete returns obj without any member named key; obj itself when it has none.
func Delete(obj json.RawMessage, key string) json.RawMessage {
	if Get(obj, key) == nil {
		return obj
	}
	return Edit(obj, map[string]json.RawMessage{key: nil})
}

// Edit returns obj with each key of values set to its value, as by [Set], or left
// out where that is nil. New members come last, sorted by key.
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

// comma appends a comma to an object that already has a member.
func comma(out []byte) []byte {
	if len(out) > 1 {
		out = append(out, ',')
	}
	return out
}

// members walks the top level of obj until yield returns false. It is no iterator
// because those cost every use of it two allocations.
func members(obj []byte, yield func(member) bool) {
	i := SkipSpace(obj, 0)
	if i >= len(obj) || obj[i] != '{' {
		return
	}
	for more := true; more; more = i < len(obj) && obj[i] == ',' {
		start := SkipSpace(obj, i+1)
		end, err := SkipString(obj, start)
		if err != nil {
			return // an empty object's end, most likely
		}
		from, err := SkipColon(obj, end)
		if err != nil {
			return
		}
		if i, err = SkipValue(obj, from); err != nil || !yield(member{Unquote(obj[start:end]), start, i, obj[from:i:i]}) {
			return
		}
		i = SkipSpace(obj, i)
	}
}
