package quota

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// The estimate of the servers' clock is off by at most half a round trip, and a slow measurement does not
// replace a better one.
func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ahead = time.Hour // of the servers
		look := func(there, back time.Duration) func() (time.Time, error) {
			return func() (time.Time, error) {
				time.Sleep(there)
				now := time.Now().Add(ahead)
				time.Sleep(back)
				return now, nil
			}
		}
		var c clock
		wrong := func() time.Duration { return (time.Now().Add(ahead).Sub(c.now())).Abs() }
		if c.fresh() {
			t.Error("it is known before a look")
		}
		if err := c.set(func() (time.Time, error) { return time.Time{}, errors.New("away") }); err == nil || c.fresh() {
			t.Error(err)
		}
		_ = c.set(look(100*time.Millisecond, 0)) // never fails, as below
		if wrong() != 50*time.Millisecond {
			t.Error(wrong())
		}
		_ = c.set(look(2*time.Millisecond, 0))
		if wrong() != time.Millisecond {
			t.Error(wrong())
		}
		_ = c.set(look(900*time.Millisecond, 0))
		if wrong() != time.Millisecond {
			t.Errorf("after a slow look: %v", wrong())
		}
		end := time.Now().Add(time.Minute)
		if got := c.local(end.Add(ahead)); got.Sub(end).Abs() != time.Millisecond {
			t.Error(got.Sub(end))
		}
		time.Sleep(freshFor)
		if c.fresh() {
			t.Error("it is known for ever")
		}
		_ = c.set(look(0, 900*time.Millisecond))
		if !c.fresh() || wrong() != 450*time.Millisecond {
			t.Error(wrong())
		}
	})
}
