package unit

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// loading is what is known of whether an instance runs what may run. That is asked before its start, and
// once more when its code is loaded, which may be another one by then.
type loading struct {
	still   func() error // of the permit for the start; nil: there is nothing to look at again
	done    atomic.Bool  // it runs what may run
	refused atomic.Pointer[protocol.Error]
}

// admit asks whether the instance may start.
func (i *Instance) admit(ctx context.Context) (err error) {
	if permit := i.Unit.Spec.Permit; permit != nil {
		if i.loading.still, err = permit(ctx); err != nil {
			return err
		}
	}
	if admit := i.Unit.events.Admit; admit != nil {
		return admit(ctx)
	}
	return nil
}

// looksAtAnswer reports whether nothing but an answer shows that the code is loaded: there is no handshake.
func (i *Instance) looksAtAnswer() bool {
	return i.Unit.Spec.Manifest.Transport.Protocol == manifest.ProtocolLite
}

// loaded says, once the code is loaded, why the instance is not to be heard; it is killed then. Nil: it runs
// what may run.
func (i *Instance) loaded() *protocol.Error {
	l := &i.loading
	if l.still == nil || l.done.Load() {
		return nil
	}
	if err := l.still(); err != nil {
		fault, ok := errors.AsType[*protocol.Error](err)
		if !ok {
			fault = protocol.Errorf(protocol.Untrusted, "%w", err)
		}
		l.refused.CompareAndSwap(nil, fault)
		i.Kill()
		return l.refused.Load()
	}
	l.done.Store(true)
	return nil
}

// refusal says why the answer to a call, or its error, is not to be used; nil when it is.
func (i *Instance) refusal(err error) error {
	e, ok := errors.AsType[*protocol.Error](err)
	if unsent := ok && e.Outcome == "" && e.Kind != protocol.ExtensionError; unsent || !i.looksAtAnswer() {
		return nil
	}
	fault := i.loaded()
	if fault == nil {
		return nil
	}
	told := *fault
	told.Extension, told.Outcome = i.Unit.ID(), "unknown"
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
