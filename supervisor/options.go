package supervisor

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/exthost/exthost/protocol"
)

// Mode is the number of slots of a group and the keys that share them.
type Mode int

const (
	// Shared is one slot for all keys.
	Shared Mode = 0
	// PerKey is one slot for each key. The first call with a key creates the slot;
	// Release, IdleTimeout or the need of room for another key removes it.
	PerKey Mode = -1
)

// Fixed is n slots for all keys; a call goes to the ready slot with the fewest
// calls in flight. It panics unless n is positive.
func Fixed(n int) Mode {
	if n <= 0 {
		panic("supervisor: Fixed needs at least one slot")
	}
	return Mode(n)
}

// Options of a [Group]. The zero value is one shared, eager slot that is never
// restarted.
type Options struct {
	Name string // labels events and the breaker
	Mode Mode   // default Shared

	// Lazy slots start on the first call, and after a failure on the next call.
	// Default: slots start with Start and restart by themselves. PerKey slots are
	// always lazy.
	Lazy bool

	MaxInstances int           // running instances of a PerKey group, including stopping ones; default 16
	MaxInFlight  int           // calls per instance; default 64
	MaxQueue     int           // calls waiting per slot; default 256, negative: none
	QueueTimeout time.Duration // how long a call waits for room on a running instance; default 30 s
	IdleTimeout  time.Duration // stops an instance after this time without calls; 0: never
	DrainTimeout time.Duration // time that Restart and Release give to calls in flight; default 30 s, negative: none

	Restart Restart
	Breaker Breaker

	// Keep protects the unused instance of a key from being stopped to make room for
	// another key in a full PerKey group. Acquire asks it, outside the lock of the group.
	// Default: no instance is protected.
	Keep func(key string) bool

	// Fault reports whether the breaker counts an outcome of a call as a fault of
	// the instance. Default: [TransportFault]. Of the other outcomes, a nil error
	// and an ExtensionError count as a success; the rest does not count.
	Fault func(error) bool

	// Ended reports whether an outcome of a call means that the instance has ended.
	// A call can see this before Serve returns. Later calls then wait for the next
	// instance, and the breaker does not count the outcome. Default: no outcome
	// means that.
	Ended func(error) bool

	// Replaced reports whether an error of Serve means that the host itself ended a
	// Ready instance. The next instance then starts at once and does not count
	// against the restart budget. Default: no error means that.
	Replaced func(error) bool

	// Blocked reports whether an error of Serve means that somebody has to act before a
	// restart can succeed. The slot is then Failed until a Trial, whatever its budget.
	// Default: no error means that.
	Blocked func(error) bool

	// OnEvent gets the events of the group one at a time and in order, on a
	// goroutine that Stop waits for, so it must not call Stop. At most 1024 events
	// wait for OnEvent; see [Event.Lost].
	OnEvent func(Event)

	Rand *rand.Rand // draws the restart jitter; used by this group only; default: seeded at random
}

// Restart is the budget of a slot. The zero value allows no restart.
//
// With a Cooldown, [Failed] is not final, and the budget counts failures in a row: a
// call that the instance answers clears the failures of its slot. In a PerKey group
// the failed starts of all keys also share a second budget of the same size; a start
// that succeeds clears it. A trial start that fails begins the Cooldown again. An
// error that wraps [ErrPermanent] stays final.
//
// With a Trial, [Failed] is not final either, unless MaxAttempts is 0. The budget stays as
// it is without; an instance that a trial has started gets it back after HealthyAfter.
//
// A negative MaxAttempts also holds for the first start: a slot whose first start fails is
// [Restarting].
type Restart struct {
	MaxAttempts int           // restarts within any Window; 0: never, negative: unlimited
	Window      time.Duration // default 5 min
	// largest delay of the second restart, doubled for each further one; default 1 s, negative: no delays
	BaseBackoff  time.Duration
	MaxBackoff   time.Duration // limit of that doubling; default 16 s, negative: no delays
	HealthyAfter time.Duration // time of being Ready that resets the delays; default 60 s, negative: any time
	// time after which a Failed slot may make one trial start: an eager slot by itself, others on the next call;
	// default 0: Failed is final
	Cooldown time.Duration
	Trial    time.Duration // as Cooldown, without its other effects, and not beside it; default 0: Failed is final
	// a call starts the next instance without waiting for the backoff or the Trial; for starts that cost nothing
	OnCall bool
}

// Breaker configures the circuit breaker of an instance that runs but does not answer.
type Breaker struct {
	Threshold  int           // consecutive faults that open the breaker; default 5
	Timeout    time.Duration // time from opening to the probe, doubled by each failed probe; default 10 s
	MaxTimeout time.Duration // limit of that doubling; default 120 s
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

// onDemand reports whether only calls start slots.
func (o *Options) onDemand() bool { return o.Lazy || o.Mode == PerKey }

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

// TransportFault reports whether err means that an instance gave no usable answer to
// a call. Cancellation and deadlines of the caller, refusals by the host and errors
// of the extension are not transport faults.
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
