package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/exthost/exthost/internal/text"
)

// Instances is the number of children of an extension: [InstancesShared], [InstancesPerSession], or a number, as
// an integer or text. "" is not stated.
type Instances string

// The words of Instances.
const (
	InstancesShared     Instances = "shared"      // one child for all sessions
	InstancesPerSession Instances = "per_session" // one child for each session
)

var errInstances = errors.New(`want "shared", "per_session" or a number from 1 to 1024`)

// PerSession reports whether each session has a child of its own.
func (i Instances) PerSession() bool { return i == InstancesPerSession }

// Count returns the number of children: 1 for shared and "", 0 for per_session.
func (i Instances) Count() int {
	switch i {
	case "", InstancesShared:
		return 1
	case InstancesPerSession:
		return 0
	}
	n, _ := strconv.Atoi(string(i)) // decoding accepts no other text
	return n
}

// UnmarshalText reads a word or a number.
func (i *Instances) UnmarshalText(text []byte) error {
	s := string(text)
	switch Instances(s) {
	case InstancesShared, InstancesPerSession:
	default:
		if n, err := strconv.Atoi(s); err != nil || n < 1 || n > 1024 || strconv.Itoa(n) != s {
			return errInstances
		}
	}
	*i = Instances(s)
	return nil
}

// UnmarshalJSON reads text or a number.
func (i *Instances) UnmarshalJSON(data []byte) error {
	return i.UnmarshalText(bytes.Trim(data, `"`))
}

// UnmarshalTOML reads text or an integer.
func (i *Instances) UnmarshalTOML(v any) error {
	switch v.(type) {
	case string, int64:
		return i.UnmarshalText(fmt.Append(nil, v))
	}
	return errInstances
}

// Size is a number of bytes, written as an integer or as text with a unit: "512MiB", "64k". K, M and G (with or
// without iB or B) are powers of 1024.
type Size int64

// ParseSize reads text such as "512MiB" or "1024".
func ParseSize(s string) (Size, error) {
	n, err := parseSize(s)
	return Size(n), err
}

// UnmarshalText is [ParseSize].
func (s *Size) UnmarshalText(text []byte) (err error) {
	*s, err = ParseSize(string(text))
	return err
}

// UnmarshalJSON reads text or whole bytes.
func (s *Size) UnmarshalJSON(data []byte) (err error) {
	*s, err = ParseSize(strings.Trim(string(data), `"`))
	return err
}

// UnmarshalTOML reads text or whole bytes.
func (s *Size) UnmarshalTOML(v any) (err error) {
	switch v.(type) {
	case string, int64:
		*s, err = ParseSize(fmt.Sprint(v))
		return err
	}
	return errSize
}

// Command is a command line in words, written as an array or as one string that is split as a shell would. No
// shell runs it, so an unquoted pipe, redirection, glob, substitution or leading A=b is an error. ${VAR} stays
// unchanged.
type Command []string

var errCommand = errors.New("want one string or an array of strings")

// UnmarshalText splits a string.
func (c *Command) UnmarshalText(line []byte) (err error) {
	*c, err = text.CommandWords(string(line))
	return err
}

// UnmarshalJSON reads an array of strings or one string.
func (c *Command) UnmarshalJSON(data []byte) error {
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		return err
	}
	return c.UnmarshalTOML(v)
}

// UnmarshalTOML reads an array of strings or one string.
func (c *Command) UnmarshalTOML(v any) error {
	switch v := v.(type) {
	case string:
		return c.UnmarshalText([]byte(v))
	case []any:
		words := make(Command, 0, len(v))
		for _, w := range v {
			s, ok := w.(string)
			if !ok {
				return errCommand
			}
			words = append(words, s)
		}
		*c = words
		return nil
	}
	return errCommand
}
