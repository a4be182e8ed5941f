// Package rawjson edits JSON objects in place of rebuilding them: whatever is
// not touched keeps its bytes, so number text, key order and unknown members
// come out as they went in.
//
// Its functions expect valid JSON, which the transports have checked, and never
// read past a value; text that is not an object reads as one without members.
package rawjson

import (
	"bytes"
	"encoding/json"
	"iter"
	"maps"
	"slices"
)

// member is one key and value of an object and where they stand in it.
type member struct {
	key        string
	start, end int // from the opening quote of the key to the end of the value
	value      json.RawMessage
}

// Members iterates over the members of obj in their order, with repeated keys.
func Members(obj json.RawMessage) iter.Seq2[string, json.RawMessage] {
	return func(yield func(string, json.RawMessage) bool) {
		for m := range members(obj) {
			if !yield(m.key, m.value) {
				return
			}
		}
	}
}

// Get returns the value of key, nil when obj has no such member. Of repeated
// members the last counts, as in encoding/json.
func Get(obj json.RawMessage, key string) (value json.RawMessage) {
	for m := range members(obj) {
		if m.key == key {
			value = m.value
		}
	}
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
	for m := range members(obj) {
		value, edited := values[m.key]
		if edited && (value == nil || placed[m.key]) {
			continue
		}
		out = comma(out)
		out = append(out, obj[m.start:m.end-len(m.value)]...)
		if edited {
			placed[m.key] = true
			out = append(out, value...)
		} else {
			out = append(out, m.value...)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if values[key] == nil || placed[key] {
			continue
		}
		name, _ := json.Marshal(key) // a string always encodes
		out = append(append(append(comma(out), name...), ':'), values[key]...)
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

// members walks the top level of obj.
func members(obj []byte) iter.Seq[member] {
	return func(yield func(member) bool) {
		i := space(obj, 0)
		if i >= len(obj) || obj[i] != '{' {
			return
		}
		i = space(obj, i+1)
		for i < len(obj) && obj[i] == '"' {
			start := i
			i = skipString(obj, i)
			if i-start < 2 {
				return
			}
			key := unquote(obj[start:i])
			i = space(obj, i)
			if i >= len(obj) || obj[i] != ':' {
				return
			}
			i = space(obj, i+1)
			from := i
			i = skipValue(obj, i)
			if !yield(member{key, start, i, obj[from:i:i]}) {
				return
			}
			i = space(obj, i)
			if i >= len(obj) || obj[i] != ',' {
				return
			}
			i = space(obj, i+1)
		}
	}
}

func unquote(quoted []byte) string {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1])
	}
	var s string
	_ = json.Unmarshal(quoted, &s) // valid by the package's condition
	return s
}

func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}

// skipString returns the index after the string that starts at i.
func skipString(b []byte, i int) int {
	for i++; ; {
		quote := bytes.IndexByte(b[i:], '"')
		if quote < 0 {
			return len(b)
		}
		escape := bytes.IndexByte(b[i:i+quote], '\\')
		if escape < 0 {
			return i + quote + 1
		}
		i = min(i+escape+2, len(b)) // past the escaped character
	}
}

// skipValue returns the index after the value that starts at i.
func skipValue(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			i = skipString(b, i)
			if depth == 0 {
				return i
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i
			}
			depth--
			if depth == 0 {
				return i + 1
			}
		case ',', ' ', '\t', '\n', '\r':
			if depth == 0 {
				return i
			}
		}
		i++
	}
	return i
}
