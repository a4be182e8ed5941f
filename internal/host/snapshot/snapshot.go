package snapshot

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/exthost/exthost/hooks"
	"github.com/exthost/exthost/internal/listing/toolsearch"
	"github.com/exthost/exthost/internal/listing/toolset"
	"github.com/exthost/exthost/internal/wire/mcpext"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/tools"
)

// Snapshot is everything that a call needs. A call uses the snapshot that it entered until it ends.
type Snapshot struct {
	*Plan
	Catalog  *tools.Catalog
	Hooks    *hooks.Set
	Declared *mcpext.Merged // the extensions of MCP that servers declare
	Toolsets *toolset.Views // views of sessions with a toolset
	Indexes  *toolsearch.Indexes

	skillIndex func() toolsearch.Skills // of the skills in the folders of extensions, made at the first search

	users atomic.Int64  // calls in it, plus 1 while the snapshot is current
	left  chan struct{} // closed when the last user has left
	once  sync.Once
}

// View returns what a session sees; a nil view shows everything. It fails if the session's toolset does not exist, so
// that a session of a removed toolset sees nothing.
func (s *Snapshot) View(of *protocol.Session) (*toolset.View, error) {
	if of == nil || of.Toolset == "" {
		return nil, nil
	}
	return s.Toolsets.Of(of.Toolset)
}

// Leave ends a use of the snapshot that began with [Store.Enter].
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

// Store holds the current snapshot, and the past ones that calls may still use.
type Store struct {
	current atomic.Pointer[Snapshot]

	mu   sync.Mutex // one replacement at a time; guards past
	past []*Snapshot
}

// Load returns the current snapshot, for reading only. It is nil before the first.
func (s *Store) Load() *Snapshot { return s.current.Load() }

// Enter returns the current snapshot for a call. Its units are not stopped before the caller has called
// [Snapshot.Leave].
func (s *Store) Enter() *Snapshot {
	for {
		now := s.current.Load()
		now.users.Add(1)
		if s.current.Load() == now {
			return now
		}
		now.Leave() // replaced meanwhile, and maybe left by all its users
	}
}

// Unused returns a function that reports whether the current snapshot is the same as at its last call and no call
// is in it.
func (s *Store) Unused() func() bool {
	last := s.Load()
	return func() bool {
		now, before := s.Load(), last
		last = now
		return now == before && now.users.Load() == 1
	}
}

// Past returns a channel for each replaced snapshot that calls may still use. A channel is closed when the last call
// has left its snapshot.
func (s *Store) Past() (left []<-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.past {
		left = append(left, p.left)
	}
	return left
}

// Hold calls f with the current snapshot, which is not replaced before f returns.
func (s *Store) Hold(f func(*Snapshot)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s.current.Load())
}

// Replace makes a snapshot of plan, or of the current plan if plan is nil, and puts it in force. finish completes
// next, which has only its plan; number is for its catalog, and before is the previous snapshot, nil for the first.
// published runs once the snapshot is in force and before the next replacement. Replace reports whether the list of
// tools has changed.
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
