package unit

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
	"github.com/exthost/exthost/status"
	"github.com/exthost/exthost/supervisor"
)

// Instance is one run of a unit.
type Instance struct {
	runtime.Instance
	Unit        *Unit
	Key         string    // of its slot
	Legacy      bool      // belongs to the unit's group for legacy clients of MCP
	Fingerprint string    // of the program that it runs; "" when its offer is not kept
	Ready       time.Time // when it became ready

	RefusedRoots atomic.Bool // a roots/list was refused, which is logged once

	loading  loading
	ended    chan struct{} // closed at the end of the run
	why      protocol.Kind // why it ended, set before that
	pid      int           // once it was ready
	logLevel atomic.Int64  // the log level that it has accepted last, as an index; NoLogLevel: none, or nobody knows
	logAsked atomic.Int64  // the one that it was asked for last
	logTurn  chan struct{} // holds a value while it is asked for another log level
}

var _ supervisor.Service = (*Instance)(nil)

// NoLogLevel is above every index of a log level.
const NoLogLevel = 1 << 16

// Ended is closed when the run has ended.
func (i *Instance) Ended() <-chan struct{} { return i.ended }

// IsElsewhere reports whether the instance stands for another node.
func (i *Instance) IsElsewhere() bool { return i.Unit.Spec.Manifest.Transport.Kind == KindElsewhere }

// IsUnsent reports whether the run ended before it got a request that failed with err.
func (i *Instance) IsUnsent(err error) bool {
	e, ok := errors.AsType[*protocol.Error](err)
	return ok && e.Outcome == "" && endedBy(i.Unit.Spec.Manifest.Transport.Kind, err)
}

// Why returns why the run has ended: shutting_down when it was stopped.
func (i *Instance) Why() protocol.Kind { return i.why }

// Serve implements [supervisor.Service].
func (i *Instance) Serve(ctx context.Context, ready func()) (err error) {
	u := i.Unit
	defer func() {
		i.why = cmp.Or(protocol.KindOf(err), protocol.ShuttingDown)
		close(i.ended)
	}()
	if !u.succession.await(ctx) {
		return ctx.Err()
	}
	u.instances.add(i)
	defer u.instances.remove(i, u.Calls)
	if err := i.loading.permitted(ctx, u.Spec.Permit); err != nil {
		return err
	}
	if admit := u.events.Admit; admit != nil {
		if err := admit(ctx); err != nil {
			return err
		}
	}
	i.tellSecrets()
	var beside sync.WaitGroup
	over, end := context.WithCancel(ctx)
	spawned := time.Now()
	err = i.Instance.Serve(ctx, func() {
		if !i.isLite() && i.loading.loaded(i.Kill) != nil {
			return // it is killed
		}
		u.Calls.Started(time.Since(spawned))
		i.pid, i.Ready = i.Info().PID, time.Now()
		i.offered(false)
		ready()
		if u.events.Ready != nil {
			beside.Go(func() { u.events.Ready(ctx, i) })
		}
		if i.isLite() {
			beside.Go(func() { i.loading.settle(over, i.Kill) })
		}
	})
	end()
	beside.Wait()
	err = i.loading.cause(ctx, err)
	if err = u.Mask(err); err != nil {
		i.crashed(err)
	}
	return err
}

// crashed notes why the run ended, unless it was stopped.
func (i *Instance) crashed(err error) {
	if protocol.KindOf(err) == protocol.ShuttingDown {
		return
	}
	if protocol.KindOf(err) != protocol.RequirementMissing { // nothing ran
		i.Unit.crash.Store(&status.Crash{
			Time:      time.Now(),
			Key:       i.Key,
			PID:       i.pid,
			StartedAt: i.Info().StartedAt,
			Kind:      protocol.KindOf(err),
			Reason:    protocol.Reason(err),
			Evidence:  protocol.EvidenceOf(err),
		})
	}
	i.Unit.trial.crash()
}

// isLite reports whether there is no handshake, which would show that the code is loaded.
func (i *Instance) isLite() bool {
	return i.Unit.Spec.Manifest.Transport.Protocol == manifest.ProtocolLite
}

// Call implements [runtime.Instance].
func (i *Instance) Call(ctx context.Context, r *runtime.Request) (json.RawMessage, error) {
	result, err := i.Instance.Call(ctx, r)
	if i.isLite() {
		if refusal := i.loading.answered(err, i.Unit.ID(), i.Kill); refusal != nil {
			return nil, i.Unit.Mask(refusal)
		}
	}
	return result, i.Unit.Mask(err)
}

// offered takes the instance's handshake, or with announced a later change of its tools.
func (i *Instance) offered(announced bool) {
	if i.Legacy {
		i.Unit.Legacy.handshake.Store(i.Handshake())
	} else {
		i.Unit.handshake.Store(i.Handshake())
	}
	if i.Unit.events.Offered != nil {
		i.Unit.events.Offered(i, announced)
	}
}

// LogLevel returns the log level that the instance has accepted last, as an index: 0 is the lowest. [NoLogLevel] says
// that it has accepted none, or that an attempt to change the level has failed, after which nobody knows.
func (i *Instance) LogLevel() int { return int(i.logLevel.Load()) }

// AskedLogLevel returns the log level that the instance was asked for last, accepted or not. Requests that nobody
// waited for do not count.
func (i *Instance) AskedLogLevel() int { return int(i.logAsked.Load()) }

// SetLogLevel calls ask with the log level that wanted returns, unless the instance has that level.
// It does so one call at a time, so that the instance is asked last for what is wanted last. The errors are
// those of ask, and canceled when ctx ends before. After an error the next call asks again.
func (i *Instance) SetLogLevel(ctx context.Context, wanted func() int, ask func(level int) error) error {
	select {
	case i.logTurn <- struct{}{}:
		defer func() { <-i.logTurn }()
	case <-ctx.Done():
		return protocol.Errorf(protocol.Canceled, "given up while the extension is asked for another log level: %w",
			ctx.Err())
	}
	level := wanted()
	if level == NoLogLevel || level == i.LogLevel() {
		return nil
	}
	i.logLevel.Store(NoLogLevel) // also after an error: the server may have changed the level
	i.logAsked.Store(int64(level))
	err := ask(level)
	switch {
	case err == nil:
		i.logLevel.Store(int64(level))
	case ctx.Err() != nil:
		i.logAsked.Store(NoLogLevel)
	}
	return err
}
