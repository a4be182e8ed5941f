package quota

import (
	"sync"
	"time"
)

// clock estimates the time of the servers, with an error of at most half a round trip.
type clock struct {
	mu     sync.Mutex // guards what follows
	taken  time.Time
	server time.Time     // time of the servers at taken
	within time.Duration // bound of the error
}

// freshFor is how long a measurement is valid; clocks drift by milliseconds in that time.
const freshFor = time.Minute

// drift bounds the drift of a clock: in a given time, it is at most that time divided by drift.
const drift = 5000

// maxJump is how far the monotonic and the wall clock of this host may diverge during freshFor.
const maxJump = 100 * time.Millisecond

// set measures the time of the servers with look. It keeps the previous measurement if that is fresh and more
// precise.
func (c *clock) set(look func() (time.Time, error)) error {
	before := time.Now()
	server, err := look()
	if err != nil {
		return err
	}
	half := time.Since(before) / 2
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.freshLocked() && half > c.within+time.Since(c.taken)/drift {
		return nil
	}
	c.taken, c.server, c.within = before.Add(half), server, half
	return nil
}

// fresh reports whether the measurement is still valid. It is no longer valid after this machine was suspended, which
// stops the monotonic clock, or after the wall clock was set.
func (c *clock) fresh() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.freshLocked()
}

func (c *clock) freshLocked() bool {
	now := time.Now()
	elapsed, wall := now.Sub(c.taken), now.Round(0).Sub(c.taken.Round(0))
	return !c.server.IsZero() && elapsed < freshFor && (wall-elapsed).Abs() < maxJump
}

// now returns the estimated time of the servers.
func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.server.Add(time.Since(c.taken))
}

// local converts a time of the servers to the monotonic clock of this host.
func (c *clock) local(server time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.taken.Add(server.Sub(c.server))
}
