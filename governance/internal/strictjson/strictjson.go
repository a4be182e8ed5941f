// Package strictjson decodes the JSON that a policy decides about, and refuses JSON that the policy
// and its other reader may understand differently.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Arguments decodes the arguments of a request, with numbers as json.Number. It rejects objects with
// repeated members and with members that differ in case alone, because the extension may read another
// of the two than the policy.
func Arguments(text json.RawMessage) (any, error) { return decode(text, NoTwins) }

// Result decodes a result, with numbers as json.Number. It rejects objects with repeated members,
// because the caller may read another one than the policy.
func Result(text json.RawMessage) (any, error) {
	return decode(text, func(text json.RawMessage) error { return unique(text, exactly) })
}

// decode decodes text, which check must accept.
func decode(text json.RawMessage, check func(json.RawMessage) error) (value any, err error) {
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
	return value, check(text)
}
