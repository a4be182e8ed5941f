package supervisor

import (
	"math/rand/v2"
	"time"
)

// policy decides whether and when a slot is restarted. It reads no clock: callers
// pass the time, and the jitter comes from a seeded source.
type policy struct {
	Restart
	rand *rand.Rand
	// failures within the window that were granted a restart, oldest first; nil when unlimited
	recent        []time.Time
	restartsInRow int       // restarts since the slot was last healthy
	until         time.Time // end of the Cooldown or time of the Trial; zero unless the budget is spent
}

// failed counts a failure at now, after the time healthy in state Ready (0: never
// Ready). It returns the delay of the restart, or false when the budget is spent.
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

// backoff is 0 for the first restart in a row. After that it is random between 0 and
// a bound that starts at BaseBackoff and doubles (full jitter).
func (p *policy) backoff() time.Duration {
	if p.restartsInRow == 0 {
		return 0
	}
	bound := p.BaseBackoff
	for n := 1; n < p.restartsInRow && 0 < bound && bound < p.MaxBackoff; n++ {
		bound *= 2
	}
	return time.Duration(p.rand.Int64N(int64(min(bound, p.MaxBackoff)) + 1))
}

// attempt is the number of the latest restart: within the window, or since the slot
// was last healthy when restarts are unlimited.
func (p *policy) attempt() int {
	if p.MaxAttempts < 0 {
		return p.restartsInRow
	}
	return len(p.recent)
}

// exhaust begins a Cooldown, or the time before a Trial, if the policy has one. From then on
// failed returns false until reset, and after a Trial until the instance was healthy.
func (p *policy) exhaust(now time.Time) {
	switch {
	case p.Cooldown > 0:
		p.until = now.Add(p.Cooldown)
	case p.Trial > 0 && p.MaxAttempts != 0:
		p.until = now.Add(p.Trial)
	}
}

func (p *policy) reset() { p.recent, p.restartsInRow, p.until = nil, 0, time.Time{} }
