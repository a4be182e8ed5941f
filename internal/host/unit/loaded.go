package unit

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/exthost/exthost/protocol"
)

// loading checks that a run uses only files that may run: before its start, and again after its code is loaded,
// because the files may have changed in between.
type loading struct {
	still   func() error // second check of the start's permit; nil: none
	done    atomic.Bool  // the second check has passed
	refused atomic.Pointer[protocol.Error]
}

// permitted checks permit, which may be nil, before the start.
func (l *loading) permitted(ctx context.Context, permit func(context.Context) (func() error, error)) (err error) {
	if permit != nil {
		l.still, err = permit(ctx)
	}
	return err
}

// loaded does the second check once the code is loaded. If it fails, loaded kills the run and returns why.
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

// loadTime is the time that a run without a handshake has to load its code, if it answers no call earlier. Later
// changes on disk concern the next run.
const loadTime = 10 * time.Second

// settle calls [loading.loaded] after loadTime, unless ctx ends first.
func (l *loading) settle(ctx context.Context, kill func()) {
	select {
	case <-time.After(loadTime):
		_ = l.loaded(kill)
	case <-ctx.Done():
	}
}

// answered calls [loading.loaded] for a run without a handshake: an answer or an error shows that its code is
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

// cause returns why the run ended: the failed check, or err of Serve.
func (l *loading) cause(ctx context.Context, err error) error {
	fault := l.refused.Load()
	if fault == nil || ctx.Err() != nil {
		return err
	}
	told := *fault
	told.Evidence = protocol.EvidenceOf(err)
	return &told
}
