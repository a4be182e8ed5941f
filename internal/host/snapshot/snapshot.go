package snapshot

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/exthost/exthost/hooks"
	"github.com/exthost/exthost/internal/listing/toolindex"
	"github.com/exthost/exthost/internal/listing/toolset"
	"github.com/exthost/exthost/internal/wire/mcpext"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/tools"
)

// Snapshot is everything that a call needs. A call uses the snapshot that it entered to
// its end.
type Snapshot struct {
	*Plan
	Catalog  *tools.Catalog
	Hooks    *hooks.Set
	Declared *mcpext.Merged // the extensions of MCP that servers declare
	Toolsets *toolset.Views // what sessions see that have a toolset
	Indexes  *toolindex.Indexes

	users atomic.Int64  // calls in it, and the store while the snapshot is current
	left  chan struct{} // closed when the last user has left
	once  sync.Once
}

// View returns what a session sees; nil for everything. The error says that its toolset is
// not there: a session of a toolset that was removed sees nothing.
func (s *Snapshot) View(of *protocol.Session) (*toolset.View, error) {
	if of == nil || of.Toolset == "" {
		return nil, nil
	}
	return s.Toolsets.Of(of.Toolset)
}

// Leave ends a use of the snapshot that [Store.Enter] began.
func (s *Snapshot) Leave() {
	if s.users.Add(-1) == 0 {
		s.once.Do(func() { close(s.left) })
	}
}

func (s *Snapshot) isLeft() bool {
	select {
	case <-s.left:
		return true
	default:
		return false
	}
}

// Store holds the current snapshot, and those that calls may still use.
type Store struct {
	current atomic.Pointer[Snapshot]

	mu   sync.Mutex // one replacement at a time; guards past
	past []*Snapshot
}

// Load returns the current snapshot, for a look at it. It is nil before the first.
func (s *Store) Load() *Snapshot { return s.current.Load() }

// Enter returns the current snapshot for a call. Nothing in it is stopped before the caller
// has left it with [Snapshot.Leave].
func (s *Store) Enter() *Snapshot {
	for {
		now := s.current.Load()
		now.users.Add(1)
		if s.current.Load() == now {
			return now
		}
		now.Leave() // replaced meanwhile, and maybe left by all
	}
}

// Unused returns a function that reports whether the current snapshot is that of its last call
// and no call is in it.
func (s *Store) Unused() func() bool {
	last := s.Load()
	return func() bool {
		now, before := s.Load(), last
		last = now
		return now == before && now.users.Load() == 1
	}
}

// Past returns a channel for each replaced snapshot that calls may still use. The channel
// is closed when the last of them has left.
func (s *Store) Past() (left []<-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.past {
		left = append(left, p.left)
	}
	return left
}

// Hold calls f with the current snapshot, which stays that until f returns.
func (s *Store) Hold(f func(*Snapshot)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s.current.Load())
}

// Replace makes the next snapshot of plan, or of the current plan when it is nil, and puts
// it in force. finish completes the snapshot, whose plan is set, with catalog and hooks; it
// is given the number of the catalog and the snapshot before, nil for the first. published
// runs once the snapshot is in force and before the next replacement. Replace reports
// whether the snapshot follows one with other tools.
func (s *Store) Replace(plan *Plan, finish func(next *Snapshot, number uint64, before *Snapshot) (published func()),
) (otherTools bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := &Snapshot{Plan: plan, left: make(chan struct{})}
	next.users.Store(1)
	number, prev := uint64(1), s.current.Load()
	if prev != nil {
		next.Plan = cmp.Or(plan, prev.Plan)
		number = prev.Catalog.Generation() + 1
	}
	published := finish(next, number, prev)
	s.current.Store(next)
	published()
	if prev == nil {
		return false
	}
	prev.Leave()
	s.past = append(slices.DeleteFunc(s.past, (*Snapshot).isLeft), prev)
	return !prev.Catalog.SameList(next.Catalog)
}
