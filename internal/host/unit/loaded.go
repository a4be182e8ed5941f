package unit

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/exthost/exthost/protocol"
)

// loading is what is known of whether a run is of what may run. That is asked before its start, and once more
// when its code is loaded, which may be another one by then.
type loading struct {
	still   func() error // of the permit for the start; nil: there is nothing to look at again
	done    atomic.Bool  // it is of what may run
	refused atomic.Pointer[protocol.Error]
}

// permitted asks permit, which may be nil, before the start.
func (l *loading) permitted(ctx context.Context, permit func(context.Context) (func() error, error)) (err error) {
	if permit != nil {
		l.still, err = permit(ctx)
	}
	return err
}

// loaded says, once the code is loaded, why the run is not to be heard, and kills it then. Nil: it is of what
// may run.
func (l *loading) loaded(kill func()) *protocol.Error {
	if l.still == nil || l.done.Load() {
		return nil
	}
	err := l.still()
	if err == nil {
		l.done.Store(true)
		return nil
	}
	fault, ok := errors.AsType[*protocol.Error](err)
	if !ok {
		fault = protocol.Errorf(protocol.Untrusted, "%w", err)
	}
	l.refused.CompareAndSwap(nil, fault)
	kill()
	return l.refused.Load()
}

// loadTime is how long a run without a handshake has to load its code, if it answers no call before. What changes
// on disk later concerns the next run.
const loadTime = 10 * time.Second

// settle is [loading.loaded] after loadTime, unless ctx ends before.
func (l *loading) settle(ctx context.Context, kill func()) {
	select {
	case <-time.After(loadTime):
		_ = l.loaded(kill)
	case <-ctx.Done():
	}
}

// answered is [loading.loaded] for a run that nothing but the answer to a call, or its error, shows to be
// loaded.
func (l *loading) answered(err error, extension string, kill func()) error {
	e, ok := errors.AsType[*protocol.Error](err)
	if unsent := ok && e.Outcome == "" && e.Kind != protocol.ExtensionError; unsent {
		return nil
	}
	fault := l.loaded(kill)
	if fault == nil {
		return nil
	}
	told := *fault
	told.Extension, told.Outcome = extension, "unknown"
	return &told
}

// cause is why the run ended that Serve ended with err.
func (l *loading) cause(ctx context.Context, err error) error {
	fault := l.refused.Load()
	if fault == nil || ctx.Err() != nil {
		return err
	}
	told := *fault
	told.Evidence = protocol.EvidenceOf(err)
	return &told
}
