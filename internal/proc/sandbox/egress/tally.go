package egress

import (
	"context"
	"net/netip"
	"sync"
	"time"
)

// Limits of what is recorded: a child may ask for one host in a loop, or for a new host each time.
const (
	interval = time.Minute
	maxKinds = 50 // kinds told apart within an interval; all others are counted as one
)

// kind identifies attempts that are counted together. The reasons of their failures may differ,
// because they contain ports.
type kind struct {
	target  string
	address netip.Addr
	refused bool
}

// tally records the first attempt of each kind at once. It records the later ones together, as one
// Attempt with their number, once per interval and at the end.
type tally struct {
	record func(Attempt)

	mu    sync.Mutex
	again map[kind]Attempt // counted since the last record; Times is 0 if none was
}

func newTally(record func(Attempt)) *tally {
	return &tally{record: record, again: make(map[kind]Attempt)}
}

func (t *tally) add(a Attempt) {
	if a.Times = 1; t.count(a) {
		t.record(a)
	}
}

// count reports whether a is the first of its kind, which is recorded at once; any other it adds to the tally.
func (t *tally) count(a Attempt) bool {
	k := kind{a.Target, a.Address, a.Refused != ""}
	t.mu.Lock()
	defer t.mu.Unlock()
	before, known := t.again[k]
	if !known && len(t.again) < maxKinds {
		t.again[k] = Attempt{}
		return true
	}
	if !known {
		k = kind{refused: k.refused}
		a.Target, a.Address = "", netip.Addr{}
		before = t.again[k]
	}
	a.Times += before.Times
	t.again[k] = a
	return false
}

// tell records what was counted, and forgets kinds without attempts.
func (t *tally) tell() {
	var due []Attempt
	t.mu.Lock()
	for k, a := range t.again {
		if a.Times == 0 {
			delete(t.again, k)
			continue
		}
		due = append(due, a)
		t.again[k] = Attempt{}
	}
	t.mu.Unlock()
	for _, a := range due {
		t.record(a)
	}
}

// run calls tell once per interval until ctx ends.
func (t *tally) run(ctx context.Context) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			t.tell()
		case <-ctx.Done():
			return
		}
	}
}
