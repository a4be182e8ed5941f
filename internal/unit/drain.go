package unit

import (
	"context"
	"time"
)

// stopMargin is what a stop may take beyond drain_timeout and shutdown_grace before the
// processes are killed.
const stopMargin = 5 * time.Second

// Drain stops u once the calls that may be with it have left, at the latest after its
// drain_timeout, and kills it if it does not stop. past holds a channel for each set of
// such calls, closed when they have left. Drain reports false when closing ended first: the
// unit may have processes then.
func Drain(closing context.Context, u Runner, past []<-chan struct{}) (stopped bool) {
	base := u.Base()
	drained, cancel := context.WithTimeout(closing, base.Spec.Options.DrainTimeout)
	defer cancel()
	for _, left := range past {
		select {
		case <-left:
		case <-drained.Done():
		}
	}
	deadline, _ := drained.Deadline()
	drain := max(0, time.Until(deadline))
	ctx, cancel := context.WithTimeout(closing, drain+base.Spec.Options.ShutdownGrace+stopMargin)
	defer cancel()
	if err := u.Stop(ctx, drain); err != nil {
		if closing.Err() != nil {
			return false
		}
		base.Log.Error("did not stop, and is killed", "error", err)
		u.Kill()
	}
	return true
}
