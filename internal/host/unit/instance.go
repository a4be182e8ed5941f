package unit

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/exthost/exthost/internal/host/stats"
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
	Fingerprint string    // of its program; "": its descriptors are not stored
	Ready       time.Time // time at which it became ready

	RefusedRoots atomic.Bool // a roots/list was refused and logged

	loading  loading
	ended    chan struct{} // closed at the end of the run
	why      protocol.Kind // reason of the end, set before ended is closed
	pid      int           // set once it was ready
	logLevel atomic.Int64  // index of the last accepted log level; NoLogLevel: none or unknown
	logAsked atomic.Int64  // index of the last requested log level
	logTurn  chan struct{} // holds a value while a log level is being requested
}

var _ supervisor.Service = (*Instance)(nil)

// NoLogLevel is greater than every index of a log level.
const NoLogLevel = 1 << 16

// Ended is closed when the run has ended.
func (i *Instance) Ended() <-chan struct{} { return i.ended }

// InLegacyGroup reports whether the instance is that of its unit's [LegacyGroup].
func (i *Instance) InLegacyGroup() bool { return i.Key == legacyKey }

// OwnKey returns the key of an instance whose clients and state are its own: it serves one session, the legacy
// clients or a node. It is "" for instances that serve the same clients.
func (i *Instance) OwnKey() string {
	if i.Unit.PerSession() || i.InLegacyGroup() || i.IsRemoteNode() {
		return i.Key
	}
	return ""
}

// IsRemoteNode reports whether the instance stands for another node.
func (i *Instance) IsRemoteNode() bool {
	return i.Unit.Spec.Manifest.Transport.Kind == status.TransportCluster
}

// IsUnsent reports whether the run ended before it got a request that failed with err.
func (i *Instance) IsUnsent(err error) bool {
	e, ok := errors.AsType[*protocol.Error](err)
	return ok && e.Outcome == "" && endedBy(i.Unit.Spec.Manifest.Transport.Kind, err)
}

// Why returns the reason for the end of the run, shutting_down if it was stopped.
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
		i.described(false)
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

// crashed records why the run ended, unless it was stopped.
func (i *Instance) crashed(err error) {
	if protocol.KindOf(err) == protocol.ShuttingDown {
		return
	}
	if protocol.KindOf(err) != protocol.RequirementMissing { // else no process ran
		i.Unit.crash.Store(&status.Crash{
			Time:      time.Now(),
			Key:       i.Key,
			PID:       i.pid,
			StartedAt: i.Info().StartedAt,
			Kind:      protocol.KindOf(err),
			Reason:    protocol.Reason(err),
			Next:      protocol.NextOf(err),
			Evidence:  protocol.EvidenceOf(err),
		})
	}
	i.Unit.trial.crash()
}

// isLite reports whether the protocol has no handshake, which would show that the code is loaded.
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

// described handles the instance's handshake or, if announced is set, a later change of its tools.
func (i *Instance) described(announced bool) {
	if i.InLegacyGroup() {
		i.Unit.Legacy.handshake.Store(i.Handshake())
	} else {
		i.Unit.handshake.Store(i.Handshake())
	}
	if i.Unit.events.Described != nil {
		i.Unit.events.Described(i, announced)
	}
}

// LogLevel returns the index of the last accepted log level: 0 is the lowest. [NoLogLevel] means that none was
// accepted, or that a request failed and the level is unknown.
func (i *Instance) LogLevel() int { return int(i.logLevel.Load()) }

// AskedLogLevel returns the index of the last requested log level, accepted or not. Requests whose caller gave up
// do not count.
func (i *Instance) AskedLogLevel() int { return int(i.logAsked.Load()) }

// SetLogLevel calls ask with the log level that wanted returns, unless the instance has it already. Calls are
// serialized, so that the level wanted last is requested last. The errors are those of ask, and canceled if ctx
// ends first. After an error the next call asks again.
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

// instances are the instances that may have a process.
type instances struct {
	mu  sync.Mutex // guards set
	set map[*Instance]struct{}
}

func (l *instances) add(i *Instance) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.set == nil {
		l.set = make(map[*Instance]struct{})
	}
	l.set[i] = struct{}{}
}

// remove removes an ended instance, whose counts are added to c.
func (l *instances) remove(i *Instance, c *stats.Calls) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.set, i)
	c.Ended(i.Info())
}

// Instances returns the instances that may have a process.
func (l *instances) Instances() []*Instance {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.set))
}

// infos returns the state of the instances by key. If two have the same key, the newer counts.
func (l *instances) infos() map[string]runtime.Info {
	all := make(map[string]runtime.Info)
	for _, i := range l.Instances() {
		info := i.Info()
		if other, ok := all[i.Key]; !ok || info.StartedAt.After(other.StartedAt) {
			all[i.Key] = info
		}
	}
	return all
}

// measure returns the counts of c and the instances.
func (l *instances) measure(id string, c *stats.Calls) status.ExtensionMeasure {
	l.mu.Lock() // no instance ends meanwhile
	defer l.mu.Unlock()
	var running []runtime.Info
	for i := range l.set {
		running = append(running, i.Info())
	}
	return c.Measure(id, running)
}
