package supervisor

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/exthost/exthost/protocol"
)

// Mode determines the number of slots and which keys share them.
type Mode int

const (
	// Shared is one slot for all keys.
	Shared Mode = 0
	// PerKey is one slot per key. The first call with a key creates the slot; Release, IdleTimeout, or lack of room for
	// another key removes it.
	PerKey Mode = -1
)

// Fixed is n slots for all keys; a call gets the Ready slot with the fewest calls in flight. It panics unless n is
// positive.
func Fixed(n int) Mode {
	if n <= 0 {
		panic("supervisor: Fixed needs at least one slot")
	}
	return Mode(n)
}

// Options configure a [Group]. The zero value is one shared, eager slot that is never restarted.
type Options struct {
	Name string // in events and breakers
	Mode Mode   // default Shared

	// Lazy slots start on the first call, and restart after a failure on the next call, or by themselves if there is a
	// Cooldown. By default, Start starts the slots, and they restart by themselves. PerKey slots are always lazy.
	Lazy bool

	MaxInstances int           // max running instances of a PerKey group, including stopping ones; default 16
	MaxInFlight  int           // max calls per instance; default 64
	MaxQueue     int           // max waiting calls per slot; default 256, negative: none
	QueueTimeout time.Duration // how long a call waits for room on a running instance; default 30 s
	IdleTimeout  time.Duration // stops an instance without calls after this time; 0: never
	DrainTimeout time.Duration // how long Restart and Release let calls in flight go on; default 30 s, negative: none

	Restart Restart
	Breaker Breaker

	// Keep protects a key's unused instance from being stopped to make room for another key in a full PerKey group.
	// Acquire calls it without the group's lock. Default: none is protected.
	Keep func(key string) bool

	// Fault reports whether the outcome of a call counts as a fault for the breaker. Default: [TransportFault]. Of the
	// other outcomes, nil and ExtensionError count as a success, and the rest does not count.
	Fault func(error) bool

	// Ended reports whether the outcome of a call means that the instance has ended, which a call may see before Serve
	// returns. Later calls then wait for the next instance, and the breaker ignores the outcome. Default: never.
	Ended func(error) bool

	// Replaced reports whether an error of Serve means that the host ended a Ready instance on purpose. The next
	// instance then starts at once, without counting against the restart budget. Default: never.
	Replaced func(error) bool

	// Blocked reports whether an error of Serve means that somebody has to act before a restart can succeed. The slot
	// is then Failed until a Trial, whatever is left of its budget; with a Cooldown, the next call starts it, and the
	// failure does not count. Default: never.
	Blocked func(error) bool

	// OnEvent gets the events of the group one at a time and in order, on a goroutine that Stop waits for, so it must
	// not call Stop. Up to 1024 events are queued; see [Event.Lost].
	OnEvent func(Event)

	Rand *rand.Rand // for the restart jitter; must not be shared; default: seeded at random
}

// Restart is the restart budget of a slot. The zero value allows no restarts.
//
// With a Cooldown, [Failed] is not final, and the budget counts consecutive failures: a successful call clears the
// failures of its slot. In a PerKey group the failed starts of all keys also share a second budget of the same size,
// which a successful start clears. A failed trial start begins the Cooldown again. Errors that wrap [ErrPermanent] stay
// final. Slots restart by themselves, lazy ones too, and calls wait for that, however long it takes: only when the
// budget is spent are they refused.
//
// With a Trial, [Failed] is not final either, unless MaxAttempts is 0. The budget works as without a Trial, and is
// restored once an instance that was started as a trial has been Ready for HealthyAfter.
//
// A negative MaxAttempts applies to the first start too: a slot whose first start fails becomes [Restarting].
type Restart struct {
	MaxAttempts int           // max restarts within any Window; 0: none, negative: unlimited
	Window      time.Duration // default 5 min
	// the nth restart in a row waits this long, doubled n-1 times, and up to a fifth longer; the first waits for
	// nothing; default 1 s, negative: no delay
	BaseBackoff  time.Duration
	MaxBackoff   time.Duration // limit of the doubled delay; default 16 s, negative: no delay
	HealthyAfter time.Duration // time in Ready that resets the delays; default 60 s, negative: any time
	// time after which a Failed slot may make one trial start: eager slots by themselves, others on the next call;
	// default 0: Failed is final
	Cooldown time.Duration
	Trial    time.Duration // like Cooldown without its other effects; not together with it; default 0: Failed is final
	// a call starts the next instance without waiting for backoff or Trial, for instances that start at no cost
	OnCall bool
}

// Breaker configures the circuit breaker for instances that run but do not answer.
type Breaker struct {
	Threshold  int           // consecutive faults that open the breaker; default 5
	Timeout    time.Duration // from opening to the probe, doubled by each failed probe; default 10 s
	MaxTimeout time.Duration // limit of the doubled timeout; default 120 s
}

func (o Options) withDefaults() Options {
	defaultTo(&o.MaxInstances, 16)
	defaultTo(&o.MaxInFlight, 64)
	defaultTo(&o.MaxQueue, 256)
	defaultTo(&o.QueueTimeout, 30*time.Second)
	defaultTo(&o.DrainTimeout, 30*time.Second)
	defaultTo(&o.Restart.Window, 5*time.Minute)
	defaultTo(&o.Restart.BaseBackoff, time.Second)
	defaultTo(&o.Restart.MaxBackoff, 16*time.Second)
	defaultTo(&o.Restart.HealthyAfter, time.Minute)
	defaultTo(&o.Breaker.Threshold, 5)
	defaultTo(&o.Breaker.Timeout, 10*time.Second)
	defaultTo(&o.Breaker.MaxTimeout, 2*time.Minute)
	o.MaxQueue, o.DrainTimeout = max(o.MaxQueue, 0), max(o.DrainTimeout, 0)
	o.Restart.BaseBackoff, o.Restart.MaxBackoff = max(o.Restart.BaseBackoff, 0), max(o.Restart.MaxBackoff, 0)
	o.Restart.HealthyAfter = max(o.Restart.HealthyAfter, 0)
	if o.Fault == nil {
		o.Fault = TransportFault
	}
	if o.Keep == nil {
		o.Keep = func(string) bool { return false }
	}
	if o.Ended == nil {
		o.Ended = func(error) bool { return false }
	}
	if o.Replaced == nil {
		o.Replaced = func(error) bool { return false }
	}
	if o.Blocked == nil {
		o.Blocked = func(error) bool { return false }
	}
	if o.Rand == nil {
		o.Rand = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	}
	return o
}

func defaultTo[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// onDemand reports whether only calls start slots that are Idle or Failed.
func (o *Options) onDemand() bool { return o.Lazy || o.Mode == PerKey }

// restartsItself reports whether slots that are Restarting start without a call.
func (o *Options) restartsItself() bool { return !o.onDemand() || o.Restart.Cooldown > 0 }

// outcomeOf classifies the outcome of a call.
func (o *Options) outcomeOf(err error) outcome {
	switch {
	case err == nil:
		return succeeded
	case o.Fault(err):
		return faulted
	case protocol.KindOf(err) == protocol.ExtensionError:
		return succeeded
	}
	return excluded
}

// TransportFault reports whether err means that an instance gave no usable answer to a call. Cancellation and deadlines
// of the caller, refusals by the host, and errors of the extension are not transport faults.
func TransportFault(err error) bool {
	var e *protocol.Error
	if !errors.As(err, &e) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	switch e.Kind {
	case protocol.InvalidJSON, protocol.InvalidResponse, protocol.SpawnFailed, protocol.ChildExited,
		protocol.LineTooLong, protocol.StdoutClosed, protocol.WriteStalled, protocol.CallTimeout, protocol.NodeLost:
		return true
	}
	return false
}
