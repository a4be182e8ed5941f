// Package coalesce runs a function for requests that come faster than it ends: one run
// serves all that came before it.
package coalesce

import (
	"context"
	"time"
)

// Requests ask for runs of one function. Many goroutines may add requests at once.
type Requests struct{ token chan struct{} } // holds a token when a run is due

// New returns Requests without one.
func New() Requests { return Requests{make(chan struct{}, 1)} }

// Add asks for a run that begins after this call. It does not wait.
func (r Requests) Add() {
	select {
	case r.token <- struct{}{}:
	default: // the run that is due begins later
	}
}

// rest is how much longer than a run the pause after it is, up to maxRest: what a run costs
// grows with the number of things that ask for one, and all runs together must not grow with
// its square.
const (
	rest    = 4
	maxRest = time.Second
)

// Serve runs f while there are requests, until ctx ends: at once for the first, and then after
// a pause of at least that length.
func (r Requests) Serve(ctx context.Context, pause time.Duration, f func()) {
	for {
		select {
		case <-r.token:
		case <-ctx.Done():
			return
		}
		began := time.Now()
		f()
		select {
		case <-time.After(max(pause, min(rest*time.Since(began), maxRest))):
		case <-ctx.Done():
			return
		}
	}
}
