package unit

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// succession is the position of a unit between its previous and its next build.
type succession struct {
	predecessor <-chan struct{} // closed when a process may start; nil: at once
	stopped     chan struct{}   // closed when no process is left
	retired     atomic.Bool
}

// await waits until the previous build has stopped. It returns false if ctx ends first.
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

// Stopped records that no process of the unit is left: the next build may start.
func (s *succession) Stopped() { close(s.stopped) }

// Replaces makes u the next build of before: u is started even if it is lazy, and its first crash is a failure of
// the start.
func (u *Unit) Replaces(before *Unit) {
	u.Calls = before.Calls
	u.trial.wanted = true
}

// ReplacesRunning reports whether [Unit.Replaces] was called.
func (u *Unit) ReplacesRunning() bool { return u.trial.wanted }

// Follows makes u the next build of before, to be started when before has stopped. Until then u has the handshake
// of before.
func (u *Unit) Follows(before *Unit) {
	u.Calls = before.Calls
	u.predecessor = before.stopped
	u.handshake.Store(before.handshake.Load())
}

// trial is the first start of a build that is to replace a running one. Until it has succeeded, only the reload
// reports failures.
type trial struct {
	wanted  bool
	pending atomic.Bool
	crashed context.Context // ends at the first crash
	crash   context.CancelFunc
}

func newTrial() *trial {
	t := new(trial)
	t.crashed, t.crash = context.WithCancel(context.Background())
	return t
}

// liteTrial is how long a lite script is watched after its start: it has no handshake, and a syntax error ends it
// soon after the spawn.
const liteTrial = 50 * time.Millisecond

// startTrial is Try for a new build. The first crash is a failure, even if the supervisor would start another
// instance for a caller.
func (u *Unit) startTrial(ctx context.Context) error {
	starting, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(u.trial.crashed, cancel)()
	u.trial.pending.Store(true)
	err := u.Try(starting)
	if hs := u.handshake.Load(); err == nil && hs != nil && hs.Protocol == manifest.ProtocolLite {
		select {
		case <-starting.Done():
		case <-time.After(liteTrial):
		}
	}
	if c := u.crash.Load(); c != nil {
		return &protocol.Error{Kind: c.Kind, Message: c.Reason, Evidence: c.Evidence}
	}
	u.trial.pending.Store(err != nil)
	return err
}
