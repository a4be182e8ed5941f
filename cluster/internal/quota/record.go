package quota

import (
	"fmt"
	"math"
	"time"

	"github.com/exthost/exthost/governance/quota"
)

// record is the stored state of one counter in one window.
type record struct {
	Start  int64            `json:"start"`          // of the window, Unix nanoseconds
	Window int64            `json:"window"`         // length in nanoseconds
	Limit  int64            `json:"limit"`          // the smallest limit among the nodes
	By     string           `json:"by"`             // the node that stated Limit
	Taken  map[string]int64 `json:"taken"`          // units by run, as NODE.RUN
	Rest   int64            `json:"rest,omitempty"` // units of runs beyond maxRuns
}

// maxRuns bounds the runs in a record.
const maxRuns = 64

func (r *record) ends() int64 { return r.Start + r.Window }

// sound reports whether the record is consistent. An inconsistent one would grant units beyond the limit.
func (r *record) sound() bool {
	if r.Window <= 0 || r.Start < 0 || r.Start > math.MaxInt64-r.Window || r.Rest < 0 {
		return false
	}
	sum := r.Rest
	for _, n := range r.Taken {
		if n < 0 || n > math.MaxInt64-sum {
			return false
		}
		sum += n
	}
	return true
}

func (r *record) taken() int64 {
	sum := r.Rest
	for _, n := range r.Taken {
		sum += n
	}
	return sum
}

// windowsDiffer reports that two nodes configure windows of different lengths for a policy.
type windowsDiffer struct {
	policy, node string
	theirs, own  time.Duration
	ends         int64 // of theirs, Unix nanoseconds
}

func (e *windowsDiffer) Error() string {
	return fmt.Sprintf("policy %s counts in windows of %v at node %s, in this one until %s, and of %v here: state "+
		"the same window at all nodes; a changed one begins after that time, or at once under another name of the "+
		"policy",
		e.policy, e.theirs, e.node, time.Unix(0, e.ends).UTC().Format(time.RFC3339), e.own)
}

// want is the claim of one node.
type want struct {
	quota.Claim
	node, run string // run is NODE.RUN
	nodes     int    // number of nodes, including this one
	now       int64  // time of the servers, Unix nanoseconds
	seen      own    // what this run has taken, as far as it knows
}

// own is what a run has taken in one window.
type own struct{ start, taken int64 }

// answer is the result of settle.
type answer struct {
	lease quota.Lease // without Ends
	ends  int64       // end of the window, by the servers' clock
	seen  own         // valid once next is stored
	next  *record     // the record to store; nil: unchanged
}

// settle decides how many units a claim gets from the record. r is nil if there is no record.
func settle(r *record, w *want) (*answer, error) {
	r = w.current(r)
	if r.Window != int64(w.Window) {
		return nil, &windowsDiffer{w.Policy, r.By, time.Duration(r.Window), w.Window, r.ends()}
	}
	a := &answer{ends: r.ends(), seen: own{r.Start, r.Taken[w.run]}}
	if r.Start > w.now { // the servers' clock was ahead: limit how long the window stays valid
		a.ends = w.now + r.Window
	}
	a.lease.Of = r.Start
	limit := w.Limit
	if r.By != w.node { // the node that stated the limit may change it
		limit = min(r.Limit, limit)
		if r.Limit != w.Limit {
			a.lease.Note = fmt.Sprintf("node %s lets %d through in %v, and this node %d: the smaller limit holds "+
				"for both", r.By, r.Limit, w.Window, w.Limit)
		}
	}
	// Grant again what this run took without receiving the answer.
	a.lease.Units = a.seen.taken
	if w.seen.start == r.Start {
		a.lease.Units = max(a.seen.taken-w.seen.taken, 0)
	}
	held := a.lease.Units - w.Debt
	if w.Of == r.Start {
		held += w.Held
	}
	a.lease.Size = size(limit, w.nodes)
	lost := r.lost(w)
	free := max(limit-r.taken()-lost, 0)
	more := min(max(a.lease.Size-held, 0), free)
	a.lease.Last = free-more == 0
	if more == 0 && lost == 0 && limit >= r.Limit {
		return a, nil
	}
	a.lease.Units += more
	a.seen.taken += lost + more
	a.next = r.with(w, a.seen.taken, limit)
	return a, nil
}

// current returns r unless its window has ended. Otherwise it returns the record of a new window.
func (w *want) current(r *record) *record {
	window := int64(w.Window)
	start := w.now - w.now%window
	switch {
	case r != nil && r.Window == window && r.Start >= start:
		return r
	case r != nil && r.Window != window && r.ends() > w.now:
		return r
	}
	return &record{Start: start, Window: window, Limit: w.Limit, By: w.node}
}

// lost returns the units that this run took but the record does not contain: servers that lose power may lose their
// last writes. Once the record has dropped runs, the number is unknown, and lost returns 0.
func (r *record) lost(w *want) int64 {
	if w.seen.start != r.Start || r.Rest > 0 {
		return 0
	}
	return max(w.seen.taken-r.Taken[w.run], 0)
}

// size returns the size of a full lease, such that all nodes together hold at most an eighth of the limit.
func size(limit int64, nodes int) int64 { return max(limit/(8*int64(max(nodes, 1))), 1) }

// with returns a copy of the record in which the run of w has taken units.
func (r *record) with(w *want, taken, limit int64) *record {
	next := *r
	if next.Limit != limit {
		next.Limit, next.By = limit, w.node
	}
	next.Taken = make(map[string]int64, len(r.Taken)+1)
	for run, n := range r.Taken {
		if _, named := r.Taken[w.run]; !named && len(r.Taken) >= maxRuns {
			next.Rest += n // units that the dropped run has not heard of are lost
			continue
		}
		next.Taken[run] = n
	}
	next.Taken[w.run] = taken
	return &next
}
