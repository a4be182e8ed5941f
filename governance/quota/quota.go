// Package quota counts against limits that all hosts of a cluster share. A host leases units before
// it uses them, so that most calls need no communication.
package quota

import (
	"context"
	"time"
)

// Claim requests units of a counter.
type Claim struct {
	Policy string // the policy that the counter belongs to
	Key    string // identifies the counter within the policy
	Limit  int64  // units per window that all hosts together may use
	// length of a window; windows begin at multiples of it since 1970, by the clock of the servers
	Window time.Duration

	Of   int64 // window of the current lease; 0: none
	Held int64 // units left of the lease for Of; negative: more were used
	Debt int64 // units used without a lease
}

// Lease is the answer to a [Claim].
type Lease struct {
	Of    int64     // the window that the lease is for
	Units int64     // leased units; 0: the window has none left
	Size  int64     // size of a full lease; the host asks for more below half of it
	Last  bool      // no units are left for anybody in this window
	Ends  time.Time // end of the window, by the local clock
	Note  string    // what is odd about the counter, such as different limits at hosts; "": nothing
}

// Source grants leases.
type Source interface {
	// Reach returns nil if the counters can be reached, else the reason. It returns soon after ctx ends.
	Reach(ctx context.Context) error
	// Lease leases units, or none if the limit is reached. It fails if the counter cannot be
	// reached; an error of type [CounterError] affects this counter alone. Units that a failed
	// request has taken are part of a later lease, or lost until the window ends. Lease returns
	// soon after ctx ends, and may be called concurrently.
	Lease(ctx context.Context, c Claim) (Lease, error)
}

// CounterError reports that one counter grants no leases, while others work.
type CounterError struct{ Err error }

func (e *CounterError) Error() string { return e.Err.Error() }
func (e *CounterError) Unwrap() error { return e.Err }
