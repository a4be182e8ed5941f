// Package starts tracks the units that start with the host, and lets requests wait for them.
package starts

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/exthost/exthost/internal/host/unit"
)

// Starting are the units that start with the host, each until it has started or failed and a snapshot reflects
// that. Nothing starts before Begin.
type Starting struct {
	done chan struct{} // closed when no unit is left

	mu      sync.Mutex // guards the fields below
	pending map[unit.Runner]start
	changed chan struct{} // closed when a unit leaves pending
}

// start is the first start of a unit.
type start struct {
	known   bool // its tools were known before
	decided bool // it has started or failed, and waits for a snapshot
}

// NewStarting returns an empty set. It is done only after Begin.
func NewStarting() *Starting {
	return &Starting{done: make(chan struct{}), changed: make(chan struct{})}
}

// Begin sets the units that start with the host. Call it once.
func (s *Starting) Begin(units []unit.Runner) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending = make(map[unit.Runner]start, len(units))
	for _, u := range units {
		x, ok := u.(*unit.Extension)
		s.pending[u] = start{known: ok && x.TellsTools()}
		u.Base().Phase.SetPending(true)
	}
}

// Decided records that u has started or failed. It takes effect with the next snapshot.
func (s *Starting) Decided(u unit.Runner) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending[u] = start{s.pending[u].known, true}
}

// BeforeSnapshot returns a function to call when the snapshot being made is in force: the units that are decided
// by now then leave the set.
func (s *Starting) BeforeSnapshot() (inForce func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var decided []unit.Runner
	for u, b := range s.pending {
		if b.decided {
			decided = append(decided, u)
		}
	}
	return func() { s.settle(decided) }
}

func (s *Starting) settle(decided []unit.Runner) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, u := range decided {
		delete(s.pending, u)
		u.Base().Phase.SetPending(false)
	}
	if len(decided) > 0 {
		close(s.changed)
		s.changed = make(chan struct{})
	}
	if s.pending != nil && len(s.pending) == 0 && !s.IsDone() {
		close(s.done)
	}
}

// IsDone reports whether every unit has started or failed.
func (s *Starting) IsDone() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// Done returns a channel that is closed when every unit has started or failed.
func (s *Starting) Done() <-chan struct{} { return s.done }

// Select returns the extensions left in the set for which f is true, sorted by id. known tells f whether the tools of
// x were known before its start. changed is closed when a unit leaves the set.
func (s *Starting) Select(f func(x *unit.Extension, known bool) bool,
) (left []*unit.Extension, changed <-chan struct{}) {
	if s.IsDone() {
		return nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for u, b := range s.pending {
		if x, ok := u.(*unit.Extension); ok && f(x, b.known) {
			left = append(left, x)
		}
	}
	slices.SortFunc(left, func(a, b *unit.Extension) int { return cmp.Compare(a.ID(), b.ID()) })
	return left, s.changed
}

// Wait waits until no extension is left for which f is true, or until ctx ends. It returns the extensions left.
func (s *Starting) Wait(ctx context.Context, f func(x *unit.Extension, known bool) bool) []*unit.Extension {
	for {
		left, changed := s.Select(f)
		if len(left) == 0 {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return left
		}
	}
}

// describe lists starting extensions and what they do, on one line.
func describe(list []*unit.Extension) string {
	var parts []string
	for _, x := range list {
		parts = append(parts, x.ID()+" ("+x.Phase.Doing()+")")
	}
	return strings.Join(parts, ", ")
}
