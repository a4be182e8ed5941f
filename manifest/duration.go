package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
)

// Duration is a non-negative time span, written as text ("500ms", "2m30s") or as whole milliseconds.
type Duration time.Duration

var errDuration = errors.New(`want a duration such as "500ms" or "10s", or a whole number of milliseconds`)

// ParseDuration reads a Go duration or whole milliseconds.
func ParseDuration(s string) (Duration, error) {
	if ms, err := strconv.ParseInt(s, 10, 64); err == nil {
		return durationOfMS(ms)
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration: %w", s, errDuration)
	}
	if d < 0 {
		return 0, fmt.Errorf("%q is negative: a duration is 0 or more", s)
	}
	return Duration(d), nil
}

func durationOfMS(ms int64) (Duration, error) {
	switch {
	case ms < 0:
		return 0, fmt.Errorf("%d is negative: a duration is 0 or more", ms)
	case ms > math.MaxInt64/int64(time.Millisecond):
		return 0, fmt.Errorf("%d ms is more than a duration can hold", ms)
	}
	return Duration(ms) * Duration(time.Millisecond), nil
}

// Std returns d as a time.Duration.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// String writes d as [time.Duration] does.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText writes the text form.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText is [ParseDuration].
func (d *Duration) UnmarshalText(text []byte) (err error) {
	*d, err = ParseDuration(string(text))
	return err
}

// UnmarshalJSON reads text or whole milliseconds.
func (d *Duration) UnmarshalJSON(data []byte) error {
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		return err
	}
	return d.UnmarshalTOML(v)
}

// UnmarshalYAML reads text or whole milliseconds.
func (d *Duration) UnmarshalYAML(unmarshal func(any) error) error {
	var v any
	if err := unmarshal(&v); err != nil {
		return err
	}
	return d.UnmarshalTOML(v)
}

// UnmarshalTOML reads text or whole milliseconds.
func (d *Duration) UnmarshalTOML(v any) (err error) {
	switch v := v.(type) {
	case string:
		*d, err = ParseDuration(v)
	case int:
		*d, err = durationOfMS(int64(v))
	case int64:
		*d, err = durationOfMS(v)
	case float64: // JSON numbers
		if v != math.Trunc(v) || math.Abs(v) >= 1<<53 {
			return fmt.Errorf("%v is not a whole number: %w", v, errDuration)
		}
		*d, err = durationOfMS(int64(v))
	default:
		return errDuration
	}
	return err
}
