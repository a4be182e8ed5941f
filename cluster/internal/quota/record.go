package quota

import (
	"fmt"
	"math"
	"time"

	"github.com/exthost/exthost/governance/quota"
)

// record is what the bucket holds of one counter: who has taken how much of one window.
type record struct {
	Start  int64            `json:"start"`          // of the window, in nanoseconds since 1970
	Window int64            `json:"window"`         // its length in nanoseconds
	Limit  int64            `json:"limit"`          // the smallest that a node states
	By     string           `json:"by"`             // the node that stated it
	Taken  map[string]int64 `json:"taken"`          // by runs, NODE.RUN
	Rest   int64            `json:"rest,omitempty"` // by runs that are not named
}

// maxRuns bounds the runs that a record names.
const maxRuns = 64

func (r *record) ends() int64 { return r.Start + r.Window }

// sound reports whether the record can be one of a counter: what is not would give units that there are not.
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

// windowsDiffer is the error of a counter whose window has another length at another node.
type windowsDiffer struct {
	policy, node string
	theirs, own  time.Duration
	ends         int64 // of theirs, in nanoseconds since 1970
}

func (e *windowsDiffer) Error() string {
	return fmt.Sprintf("policy %s counts in windows of %v at node %s, in this one until %s, and of %v here: state "+
		"the same window at all nodes; a changed one begins after that time, or at once under another name of the "+
		"policy",
		e.policy, e.theirs, e.node, time.Unix(0, e.ends).UTC().Format(time.RFC3339), e.own)
}

// want is one node that asks for units.
type want struct {
	quota.Claim
	node, run string // run: NODE.RUN
	nodes     int    // of the cluster, this one included
	now       int64  // of the servers, in nanoseconds since 1970
	seen      own    // what this run knows that it has taken
}

// own is what a run has taken of one window.
type own struct{ start, taken int64 }

// answer is what becomes of a want.
type answer struct {
	lease quota.Lease // without Ends
	ends  int64       // of its window, by the clock of the servers
	seen  own         // once next is stored
	next  *record     // what is to be stored in place of the record; nil: nothing
}

// settle says what a node gets of what the record leaves. r is nil where there is no record.
func settle(r *record, w *want) (*answer, error) {
	window := int64(w.Window)
	start := w.now - w.now%window
	if r != nil && (r.Window == window && r.Start < start || r.Window != window && r.ends() <= w.now) {
		r = nil // of a window that has ended
	}
	if r == nil {
		r = &record{Start: start, Window: window, Limit: w.Limit, By: w.node}
	}
	if r.Window != window {
		return nil, &windowsDiffer{w.Policy, r.By, time.Duration(r.Window), w.Window, r.ends()}
	}
	a := &answer{ends: r.ends(), seen: own{r.Start, r.Taken[w.run]}}
	if r.Start > w.now { // by a clock of the servers that was ahead: it counts, for no longer than a window from now
		a.ends = w.now + window
	}
	a.lease.Of = r.Start
	limit := w.Limit
	if r.By != w.node { // who stated it may state another
		limit = min(r.Limit, limit)
	}
	if r.Limit != w.Limit && r.By != w.node {
		a.lease.Note = fmt.Sprintf("node %s lets %d through in %v, and this node %d: the smaller limit holds for both",
			r.By, r.Limit, w.Window, w.Limit)
	}
	// What this run has taken and was not told of, as the answer was lost.
	if w.seen.start == r.Start {
		a.lease.Units = max(a.seen.taken-w.seen.taken, 0)
	} else {
		a.lease.Units = a.seen.taken
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

// lost returns what a run has taken and the record has not: servers that lost their power have lost
// their last writes too. Of a run that may be among those that are not named, nobody knows.
func (r *record) lost(w *want) int64 {
	if w.seen.start != r.Start || r.Rest > 0 {
		return 0
	}
	return max(w.seen.taken-r.Taken[w.run], 0)
}

// size is that of a full lease: all nodes together hold at most an eighth of the limit.
func size(limit int64, nodes int) int64 { return max(limit/(8*int64(max(nodes, 1))), 1) }

// with returns the record with what a run has taken.
func (r *record) with(w *want, taken, limit int64) *record {
	next := *r
	if next.Limit != limit {
		next.Limit, next.By = limit, w.node
	}
	next.Taken = make(map[string]int64, len(r.Taken)+1)
	for run, n := range r.Taken {
		if _, named := r.Taken[w.run]; !named && len(r.Taken) >= maxRuns {
			next.Rest += n // what such a run was not told of is lost
			continue
		}
		next.Taken[run] = n
	}
	next.Taken[w.run] = taken
	return &next
}
