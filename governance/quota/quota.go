// Package quota counts what hosts of a cluster share: a host leases units of a limit before it
// uses them, and uses them up without asking anybody.
package quota

import (
	"context"
	"time"
)

// Claim asks for units of one counter.
type Claim struct {
	Policy string // whose counter it is
	Key    string // tells the counters of a policy apart
	Limit  int64  // units that all hosts together may use in a window
	// windows follow each other, and begin at multiples of their length since 1970 by the clock of the servers
	Window time.Duration

	Of   int64 // the window of the lease that the host has; 0: none
	Held int64 // what is left of that lease; negative: more was used than leased
	Debt int64 // what was used without a lease
}

// Lease is the answer to a [Claim].
type Lease struct {
	Of    int64     // the window that it is of, as in Claim.Of
	Units int64     // that nobody else gets; 0: none is left in the window
	Size  int64     // of a full lease: more is asked for once half of that is left
	Last  bool      // nobody gets more in this window
	Ends  time.Time // when the window ends, by the clock of this host
	Note  string    // what is odd about the counter: another host states another limit; "" is nothing
}

// Source grants leases.
type Source interface {
	// Reach returns why the counters cannot be reached at the moment; nil: they can. It returns soon after ctx ends.
	Reach(ctx context.Context) error
	// Lease returns units, or none when the limit is reached. An error says that the counter
	// cannot be reached; the units that it may have taken are in a later lease, or lost until the
	// window ends; with a [CounterError] it is this counter alone. It returns soon after ctx ends. It may be
	// called by many goroutines at once.
	Lease(ctx context.Context, c Claim) (Lease, error)
}

// CounterError says that there are no leases of one counter, while others have theirs.
type CounterError struct{ Err error }

func (e *CounterError) Error() string { return e.Err.Error() }
func (e *CounterError) Unwrap() error { return e.Err }
