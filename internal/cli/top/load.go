//go:build !slim

package top

import (
	"time"

	"github.com/exthost/exthost/status"
)

// loadSpan is the time over which calls a second are counted.
const loadSpan = 5 * time.Second

// load counts calls a second. The zero value is empty.
type load struct{ samples []sample }

// sample is the number of requests so far, by extension; "" is the sum.
type sample struct {
	at       time.Time
	requests map[string]int64
}

// add adds the counts of s, and drops samples that are older than needed.
func (l *load) add(at time.Time, s *status.Status) {
	n := sample{at, make(map[string]int64)}
	count := func(x *status.Extension) {
		n.requests[x.ID] = x.Requests
		n.requests[""] += x.Requests
	}
	for i := range s.Extensions {
		count(&s.Extensions[i])
	}
	for i := range s.Destinations {
		count(&s.Destinations[i].Extension)
	}
	l.samples = append(l.samples, n)
	for len(l.samples) > 2 && at.Sub(l.samples[1].at) >= loadSpan {
		l.samples = l.samples[1:]
	}
}

// of returns the calls a second of an extension, or of all for "". It is 0 before the second sample, and after the
// count of a new host or extension began again.
func (l *load) of(id string) float64 {
	if len(l.samples) < 2 {
		return 0
	}
	first, last := l.samples[0], l.samples[len(l.samples)-1]
	before, known := first.requests[id]
	span := last.at.Sub(first.at).Seconds()
	if !known || span <= 0 || last.requests[id] < before {
		return 0
	}
	return float64(last.requests[id]-before) / span
}
