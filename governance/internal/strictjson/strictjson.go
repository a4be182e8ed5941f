// Package strictjson decodes the JSON that a policy decides about, and refuses JSON
// that the policy and the other reader of it may understand in different ways.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/exthost/exthost/internal/rawjson"
)

// Arguments decodes the arguments of a request, with numbers as json.Number. It
// refuses two members of one name, and names that differ in case alone: the caller
// may know which of them the policy reads, and the extension may read the other.
func Arguments(text json.RawMessage) (any, error) {
	return decodeJSON(text, twins)
}

// Result decodes a result, with numbers as json.Number. It refuses two members of
// one name: the policy may read one of them and the caller the other.
func Result(text json.RawMessage) (any, error) {
	return decodeJSON(text, func(map[string]any) error { return nil })
}

var errTwice = errors.New("a member of what it decides about stands there twice, and not everybody reads the same one")

// decodeJSON returns text with numbers as json.Number. check is asked about each
// object.
func decodeJSON(text json.RawMessage, check func(map[string]any) error) (value any, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err = d.Decode(&value); err == nil {
		if _, err = d.Token(); err == nil {
			err = errors.New("more follows its end")
		} else if err == io.EOF {
			err = nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("what it decides about is not JSON: %w", err)
	}
	members, err := countMembers(value, check)
	if err == nil && members != colons(text) {
		err = errTwice
	}
	return value, err
}

// countMembers returns how many members the objects in value have.
func countMembers(value any, check func(map[string]any) error) (n int, err error) {
	switch v := value.(type) {
	case map[string]any:
		n, err = len(v), check(v)
		for _, member := range v {
			more, wrong := countMembers(member, check)
			n, err = n+more, errors.Join(err, wrong)
		}
	case []any:
		for _, element := range v {
			more, wrong := countMembers(element, check)
			n, err = n+more, errors.Join(err, wrong)
		}
	}
	return n, err
}

// colons returns how many members the objects of valid JSON have, with those that
// stand there twice.
func colons(text []byte) (n int) {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case ':':
			n++
		case '"':
			if end, err := rawjson.SkipString(text, i); err == nil {
				i = end - 1
			}
		}
	}
	return n
}

// twins refuses names that differ in case alone.
func twins(object map[string]any) error {
	var folded map[string]string
	for name := range object {
		low := strings.ToLower(strings.ToUpper(name)) // ſ is an s, and K a k
		if low == name {
			continue
		}
		if folded == nil {
			folded = make(map[string]string, len(object))
		}
		other, twice := folded[low]
		if _, plain := object[low]; plain {
			other, twice = low, true
		}
		if folded[low] = name; twice {
			return fmt.Errorf("what it decides about has a member %q beside %q, and not everybody tells them apart", max(name, other), min(name, other))
		}
	}
	return nil
}
