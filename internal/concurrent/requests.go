package concurrent

import (
	"context"
	"time"
)

// Requests ask for runs of a function, and may come faster than they are served: one run serves all requests made
// before it. They may be added concurrently.
type Requests struct{ token chan struct{} } // holds a token if a run is due

// NewRequests returns Requests with none pending.
func NewRequests() Requests { return Requests{make(chan struct{}, 1)} }

// Add requests a run that begins after this call. It does not wait.
func (r Requests) Add() {
	select {
	case r.token <- struct{}{}:
	default: // the pending run begins later
	}
}

// The pause after a run is rest times as long as the run, up to maxRest: the cost of a run grows with the number of
// things that request one, and the total must not grow with its square.
const (
	rest    = 4
	maxRest = time.Second
)

// Serve runs f until ctx ends: at once for the first request, then with at least pause between runs.
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
