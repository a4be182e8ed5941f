package exthost

import "time"

// Bounds of what is left between two reloads by the watch.
const (
	leastSpacing = 100 * time.Millisecond
	mostSpacing  = 5 * time.Second
)

// pace decides when to look at what may have changed: once it has been quiet for as
// long as debounce says, so that a save that takes several writes is one; in a storm
// that does not end, at the latest a spacing after its beginning; and never within a
// spacing after the last change that was found. The spacing is ten times debounce, at
// least 100 ms and at most 5 s.
type pace struct {
	debounce time.Duration
	first    time.Time // event not looked at yet; zero: there is none
	latest   time.Time // of these events
	last     time.Time // when something had changed
}

func (p *pace) event(now time.Time) {
	if p.first.IsZero() {
		p.first = now
	}
	p.latest = now
}

// settle forgets the events, which are being looked at, and returns when the first
// of them came.
func (p *pace) settle() (first time.Time) {
	first = p.first
	p.first = time.Time{}
	return first
}

// acted notes that something had changed.
func (p *pace) acted(now time.Time) { p.last = now }

// due is when to look; false when there is nothing to look at.
func (p *pace) due() (time.Time, bool) {
	if p.first.IsZero() {
		return time.Time{}, false
	}
	spacing := max(leastSpacing, min(10*p.debounce, mostSpacing))
	at := p.latest.Add(p.debounce)
	if storm := p.first.Add(spacing); storm.Before(at) {
		at = storm
	}
	if free := p.last.Add(spacing); !p.last.IsZero() && free.After(at) {
		at = free
	}
	return at, true
}
