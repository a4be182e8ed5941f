package watch

import "time"

// Bounds of a debouncer's spacing.
const (
	minSpacing = 100 * time.Millisecond
	maxSpacing = 5 * time.Second
)

// debouncer decides when to check for changes: once no event has come for debounce, so that a save of several writes
// is one change; during a storm of events, one spacing after the first event; and never within one spacing of the
// last change. The spacing is ten times debounce, between 100 ms and 5 s.
type debouncer struct {
	debounce   time.Duration
	first      time.Time // first event after the last check; zero: none
	latest     time.Time // latest event
	lastChange time.Time // last check that found a change; zero: none
}

func (d *debouncer) event(now time.Time) {
	if d.first.IsZero() {
		d.first = now
	}
	d.latest = now
}

// take forgets the events, for a check that covers them, and returns the time of the first.
func (d *debouncer) take() (first time.Time) {
	first = d.first
	d.first = time.Time{}
	return first
}

// changed records that a check found a change.
func (d *debouncer) changed(now time.Time) { d.lastChange = now }

// due returns when to check, false without events.
func (d *debouncer) due() (time.Time, bool) {
	if d.first.IsZero() {
		return time.Time{}, false
	}
	spacing := max(minSpacing, min(10*d.debounce, maxSpacing))
	at := d.latest.Add(d.debounce)
	if storm := d.first.Add(spacing); storm.Before(at) {
		at = storm
	}
	if free := d.lastChange.Add(spacing); !d.lastChange.IsZero() && free.After(at) {
		at = free
	}
	return at, true
}
