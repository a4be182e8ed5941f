package protocol_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/exthost/exthost/protocol"
)

func TestDuration(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"0":        0,
		"0.000001": 1,
		"0.123456": 123456,
		"1500":     1500 * time.Millisecond,
		"-3":       -3 * time.Millisecond,
		"86400000": 24 * time.Hour,
	} {
		got, err := json.Marshal(protocol.Duration(d))
		if err != nil || string(got) != want {
			t.Errorf("%v: %s, %v; want %s", d, got, err, want)
		}
		var back protocol.Duration
		if err := json.Unmarshal(got, &back); err != nil || time.Duration(back) != d {
			t.Errorf("%s is read as %v, %v; want %v", got, back, err, d)
		}
	}
	if err := json.Unmarshal([]byte(`"1s"`), new(protocol.Duration)); err == nil {
		t.Error("a text is read as a number")
	}
}
