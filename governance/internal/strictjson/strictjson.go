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

	"github.com/exthost/exthost/internal/text/rawjson"
)

// Arguments decodes the arguments of a request, with numbers as json.Number. It rejects
// objects with duplicate members and members that differ in case alone, because the
// extension may read another of the two than the policy.
func Arguments(text json.RawMessage) (any, error) {
	return decodeJSON(text, rejectFolded)
}

// Result decodes a result, with numbers as json.Number. It rejects duplicate members,
// because the caller may read another one than the policy.
func Result(text json.RawMessage) (any, error) {
	return decodeJSON(text, func(map[string]any) error { return nil })
}

var errDuplicate = errors.New("a member of what it decides about stands there twice, and not everybody reads the " +
	"same one")

// decodeJSON decodes text with numbers as json.Number, and calls check for each object.
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
	if err == nil && members != countColons(text) {
		err = errDuplicate
	}
	return value, err
}

// countMembers returns the number of members of all objects in value.
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

// countColons returns the number of members of all objects in valid JSON, duplicates
// included.
func countColons(text []byte) (n int) {
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

// rejectFolded reports an error for names that differ in case alone.
func rejectFolded(object map[string]any) error {
	var folded map[string]string
	for name := range object {
		low := strings.ToLower(strings.ToUpper(name)) // folds ſ to s and the Kelvin sign to k
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
			return fmt.Errorf("what it decides about has a member %q beside %q, and not everybody tells them apart",
				max(name, other), min(name, other))
		}
	}
	return nil
}
