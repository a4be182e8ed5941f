package unit

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// trial is the first start of a new build that is to replace a running one. Until it has
// succeeded, failures are reported by the reload alone.
type trial struct {
	wanted  bool
	pending atomic.Bool
	crashed context.Context // ends with the first crash
	crash   context.CancelFunc
}

func newTrial() *trial {
	t := new(trial)
	t.crashed, t.crash = context.WithCancel(context.Background())
	return t
}

// liteTrial is how long a lite script is watched after its start: it has no handshake,
// and one with a syntax error ends soon after the spawn.
const liteTrial = 50 * time.Millisecond

// startTrial is startOne for a new build. The first crash is a failure, even where the
// supervisor would start another instance for a caller.
func (u *Unit) startTrial(ctx context.Context) error {
	starting, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(u.trial.crashed, cancel)()
	u.trial.pending.Store(true)
	err := u.startOne(starting)
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
