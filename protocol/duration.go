package protocol

import (
	"encoding/json"
	"math"
	"strconv"
	"time"
)

// Duration is a time.Duration that encodes to JSON as milliseconds, fractions included. Every duration that the
// host reports uses it, under a key that ends in _ms.
type Duration time.Duration

// MarshalJSON returns the number of milliseconds.
func (d Duration) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, float64(d)/float64(time.Millisecond), 'f', -1, 64), nil
}

// UnmarshalJSON reads a number of milliseconds.
func (d *Duration) UnmarshalJSON(data []byte) error {
	var ms float64
	if err := json.Unmarshal(data, &ms); err != nil {
		return err
	}
	*d = Duration(math.Round(ms * float64(time.Millisecond)))
	return nil
}

// String returns the duration in Go's notation, such as 1.5s.
func (d Duration) String() string { return time.Duration(d).String() }
