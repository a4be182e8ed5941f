package supervisor

import (
	"math"
	"math/rand/v2"
	"time"
)

// policy decides whether and when a slot is restarted. It is deterministic: callers pass the time, and the jitter comes
// from a seeded source.
type policy struct {
	Restart
	rand *rand.Rand
	// failures within the window that were followed by a restart, oldest first; nil if restarts are unlimited
	recent        []time.Time
	restartsInRow int       // since the slot was last healthy
	until         time.Time // end of the Cooldown or time of the Trial; zero unless the budget is spent
}

// failed counts a failure at now, of an instance that was Ready for the time healthy (0: never). It returns the delay
// of the restart, or false if the budget is spent.
func (p *policy) failed(now time.Time, healthy time.Duration) (delay time.Duration, ok bool) {
	recovered := healthy > 0 && healthy >= p.HealthyAfter
	if recovered {
		p.restartsInRow = 0
	}
	if p.Cooldown == 0 && (recovered || p.MaxAttempts < 0) {
		p.until = time.Time{}
	}
	if !p.until.IsZero() { // the trial start has failed
		return 0, false
	}
	if p.MaxAttempts >= 0 {
		expired := 0
		for expired < len(p.recent) && now.Sub(p.recent[expired]) >= p.Window {
			expired++
		}
		p.recent = append(p.recent[:0], p.recent[expired:]...)
		if len(p.recent) >= p.MaxAttempts {
			return 0, false
		}
		p.recent = append(p.recent, now)
	}
	delay = p.backoff()
	p.restartsInRow++
	return delay, true
}

// backoff returns 0 for the first restart in a row. The nth waits for BaseBackoff, doubled n-1 times and at most
// MaxBackoff, and up to a fifth longer, so that what ended together does not start together.
func (p *policy) backoff() time.Duration {
	if p.restartsInRow == 0 {
		return 0
	}
	delay := p.BaseBackoff
	for n := 0; n < p.restartsInRow && 0 < delay && delay < p.MaxBackoff; n++ {
		delay += min(delay, p.MaxBackoff-delay)
	}
	delay = min(delay, p.MaxBackoff)
	return delay + min(time.Duration(p.rand.Int64N(int64(delay/5)+1)), math.MaxInt64-delay)
}

// attempt returns the number of the latest restart: within the window, or since the slot was last healthy if restarts
// are unlimited.
func (p *policy) attempt() int {
	if p.MaxAttempts < 0 {
		return p.restartsInRow
	}
	return len(p.recent)
}

// exhaust begins the Cooldown or the time before the Trial, if there is one. From then on, failed returns false until
// reset is called, or with a Trial until an instance has been healthy.
func (p *policy) exhaust(now time.Time) {
	switch {
	case p.Cooldown > 0:
		p.until = now.Add(p.Cooldown)
	case p.Trial > 0 && p.MaxAttempts != 0:
		p.until = now.Add(p.Trial)
	}
}

func (p *policy) reset() { p.recent, p.restartsInRow, p.until = nil, 0, time.Time{} }
