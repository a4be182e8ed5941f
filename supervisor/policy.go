package supervisor

import (
	"math/rand/v2"
	"time"
)

// policy decides if and when a slot is restarted. It is pure: the time is passed
// in, the jitter comes from a seeded source.
type policy struct {
	Restart
	rand   *rand.Rand
	recent []time.Time // failures answered by a restart within the window, oldest first; unused when unlimited
	streak int         // restarts since the slot was last healthy
	until  time.Time   // once the budget is spent and there is a Cooldown: when a trial may start
}

// failed answers a failure at now, after healthy of being Ready (0: it never
// was). It returns how long to wait before the restart, or false when the budget
// is spent. The window counts failures at the moment they happen.
func (p *policy) failed(now time.Time, healthy time.Duration) (delay time.Duration, ok bool) {
	if healthy > 0 && healthy >= p.HealthyAfter {
		p.streak = 0
	}
	if !p.until.IsZero() { // the trial has failed
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
	p.streak++
	return delay, true
}

// backoff is 0 for the first restart of a streak, then anything up to a bound
// that starts at BaseBackoff and doubles (full jitter).
func (p *policy) backoff() time.Duration {
	if p.streak == 0 {
		return 0
	}
	bound := p.BaseBackoff
	for n := 1; n < p.streak && 0 < bound && bound < p.MaxBackoff; n++ {
		bound *= 2
	}
	return time.Duration(p.rand.Int64N(int64(min(bound, p.MaxBackoff)) + 1))
}

// attempt numbers the latest restart: of MaxAttempts within the window, or since
// the slot was last healthy when restarts are unlimited.
func (p *policy) attempt() int {
	if p.MaxAttempts < 0 {
		return p.streak
	}
	return len(p.recent)
}

// exhaust begins a Cooldown, if the policy has one. Until reset, every further
// failure is refused a restart.
func (p *policy) exhaust(now time.Time) {
	if p.Cooldown > 0 {
		p.until = now.Add(p.Cooldown)
	}
}

// reset forgets every failure.
func (p *policy) reset() { p.recent, p.streak, p.until = nil, 0, time.Time{} }
