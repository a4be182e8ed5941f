package stats

import (
	"sync"
	"time"

	"github.com/exthost/exthost/status"
)

// Bounds of the calls that a status names because they take long.
const (
	slowCall  = 10 * time.Second
	slowCalls = 8 // of one extension
)

// Flight is a call of a tool that an instance has. It is part of the call and of the list of its extension, so that it
// allocates nothing.
type Flight struct {
	Tool, Caller string
	Since        time.Time

	before, after *Flight
	asks          int // open questions to the caller
}

// flights are the calls of an extension that instances have, in the order in which they got them.
type flights struct {
	mu          sync.Mutex // guards the fields below, and those of the flights that nobody else reads
	first, last *Flight
}

// Sent adds a call to those that instances have. The caller must call [Calls.Returned], and must not change f before.
func (c *Calls) Sent(f *Flight) {
	l := &c.flights
	l.mu.Lock()
	defer l.mu.Unlock()
	f.before, f.after, f.asks = l.last, nil, 0
	if l.last = f; f.before == nil {
		l.first = f
	} else {
		f.before.after = f
	}
}

// Returned removes a call.
func (c *Calls) Returned(f *Flight) {
	l := &c.flights
	l.mu.Lock()
	defer l.mu.Unlock()
	if f.before == nil {
		l.first = f.after
	} else {
		f.before.after = f.after
	}
	if f.after == nil {
		l.last = f.before
	} else {
		f.after.before = f.before
	}
	f.before, f.after = nil, nil
}

// Asks notes that the caller of f is asked something until answered is called: the call is not slow meanwhile.
func (c *Calls) Asks(f *Flight) (answered func()) {
	add := func(n int) {
		c.flights.mu.Lock()
		defer c.flights.mu.Unlock()
		f.asks += n
	}
	add(1)
	return func() { add(-1) }
}

// slow returns the calls that take long, the oldest first.
func (l *flights) slow(now time.Time) (list []status.OpenCall) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for f := l.first; f != nil && now.Sub(f.Since) >= slowCall && len(list) < slowCalls; f = f.after {
		if f.asks == 0 {
			list = append(list, status.OpenCall{Tool: f.Tool, Caller: f.Caller, Since: f.Since})
		}
	}
	return list
}
