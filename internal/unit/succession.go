package unit

import (
	"context"
	"sync/atomic"
)

// succession is the place of a unit between the build before it and the build after it.
type succession struct {
	predecessor <-chan struct{} // closed when a process may start; nil: at once
	stopped     chan struct{}   // closed when no process will be left
	retired     atomic.Bool
}

// await waits until the build that the unit follows has stopped. It reports false when ctx
// ends first.
func (s *succession) await(ctx context.Context) bool {
	if s.predecessor == nil {
		return true
	}
	select {
	case <-s.predecessor:
		return true
	case <-ctx.Done():
		return false
	}
}

// Retire reports whether the caller is the first to retire the unit, and so has to stop it.
func (s *succession) Retire() bool { return s.retired.CompareAndSwap(false, true) }

// Stopped notes that no process of the unit is left: a build that follows it may start.
func (s *succession) Stopped() { close(s.stopped) }

// Replaces makes u the next build of before: u is started even if it is lazy, and its first
// crash is a failure of the start.
func (u *Unit) Replaces(before *Unit) {
	u.Calls = before.Calls
	u.trial.wanted = true
}

// Follows makes u the next build of before that starts once before has stopped. Until then
// u offers what before offered.
func (u *Unit) Follows(before *Unit) {
	u.Calls = before.Calls
	u.predecessor = before.stopped
	u.handshake.Store(before.handshake.Load())
}
