package quota

import (
	"sync"
	"time"
)

// clock knows the time of the servers to within half of the way to them and back.
type clock struct {
	mu     sync.Mutex // guards what follows
	taken  time.Time
	server time.Time     // at taken
	within time.Duration // which the two may be apart
}

// freshFor is how long a look at the clock of the servers holds: clocks drift by milliseconds in that time.
const freshFor = time.Minute

// drift is how much slower the clocks go apart than they go, at most.
const drift = 5000

// maxJump is how far the two clocks of this host may go apart in that time.
const maxJump = 100 * time.Millisecond

// set looks at the clock of the servers. A look that took longer, and so says less, than what is
// known already does not count.
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

// fresh reports whether what is known of the clock of the servers holds. It does not after a sleep of
// this machine, in which the monotonic clock stands still, nor after its time was set.
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

// now returns the time of the servers.
func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.server.Add(time.Since(c.taken))
}

// local returns when the clock of this host, which never jumps, will be at a time of the servers.
func (c *clock) local(server time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.taken.Add(server.Sub(c.server))
}
