package manifest

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Instances says how many children an extension has: [InstancesShared],
// [InstancesPerSession], or a number. Files write the number as an integer or
// as text; "" is not stated.
type Instances string

// The values of Instances that are not numbers.
const (
	InstancesShared     Instances = "shared"      // one child for everybody
	InstancesPerSession Instances = "per_session" // one child for each session
)

var errInstances = errors.New(`want "shared", "per_session" or a number from 1 to 1024`)

// PerSession reports whether every session has a child of its own.
func (i Instances) PerSession() bool { return i == InstancesPerSession }

// Count returns how many children there are: 1 for shared and for a value that
// is not stated, 0 for per_session, else the number.
func (i Instances) Count() int {
	switch i {
	case "", InstancesShared:
		return 1
	case InstancesPerSession:
		return 0
	}
	n, _ := strconv.Atoi(string(i)) // decoding let only numbers through
	return n
}

// UnmarshalText reads one of the two words or a number.
func (i *Instances) UnmarshalText(text []byte) error {
	return i.set(string(text))
}

// UnmarshalJSON reads text or a number.
func (i *Instances) UnmarshalJSON(data []byte) error {
	return i.set(strings.Trim(string(data), `"`))
}

// UnmarshalTOML reads text or an integer.
func (i *Instances) UnmarshalTOML(v any) error {
	switch v.(type) {
	case string, int64:
		return i.set(fmt.Sprint(v))
	}
	return errInstances
}

func (i *Instances) set(s string) error {
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

// Size is a number of bytes, written as an integer or as text with a unit:
// "512MiB", "64k". K, M and G (with or without iB or B) are powers of 1024.
type Size int64

var errSize = errors.New(`want a size such as "512MiB" or a whole number of bytes`)

// ParseSize reads the text form.
func ParseSize(s string) (Size, error) {
	digits := strings.TrimRight(s, "kKmMgGiIbB ")
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%q is not a size: %w", s, errSize)
	}
	shift := 0
	switch strings.ToLower(strings.TrimSpace(s[len(digits):])) {
	case "", "b":
	case "k", "kb", "kib":
		shift = 10
	case "m", "mb", "mib":
		shift = 20
	case "g", "gb", "gib":
		shift = 30
	default:
		return 0, fmt.Errorf("%q is not a size: %w", s, errSize)
	}
	if n > math.MaxInt64>>shift {
		return 0, fmt.Errorf("%q is more than a size can hold", s)
	}
	return Size(n << shift), nil
}

// UnmarshalText reads what [ParseSize] reads.
func (s *Size) UnmarshalText(text []byte) (err error) {
	*s, err = ParseSize(string(text))
	return err
}

// UnmarshalJSON reads the text form or whole bytes.
func (s *Size) UnmarshalJSON(data []byte) (err error) {
	*s, err = ParseSize(strings.Trim(string(data), `"`))
	return err
}

// UnmarshalTOML reads the text form or whole bytes.
func (s *Size) UnmarshalTOML(v any) (err error) {
	switch v.(type) {
	case string, int64:
		*s, err = ParseSize(fmt.Sprint(v))
		return err
	}
	return errSize
}
