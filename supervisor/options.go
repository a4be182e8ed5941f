package supervisor

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/exthost/exthost/protocol"
)

// Mode says how many slots a group has and who shares them.
type Mode int

const (
	// Shared is one slot for all keys.
	Shared Mode = 0
	// PerKey is one slot for each key, made by the first call with that key,
	// dropped by Release, by IdleTimeout, or to make room for another.
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

	// Lazy slots start on the first call and come back on the next call after a
	// failure, not by themselves. PerKey slots are always lazy.
	Lazy bool

	MaxInstances int           // of a PerKey group, stopping ones included; default 16
	MaxInFlight  int           // calls per instance; default 64
	MaxQueue     int           // calls waiting per slot; default 256, negative: none
	QueueTimeout time.Duration // how long a call waits for a running instance to have room; default 30 s
	IdleTimeout  time.Duration // an instance without calls for this long is stopped; 0: never
	DrainTimeout time.Duration // what Restart and Release leave to calls in flight; default 30 s, negative: nothing

	Restart Restart
	Breaker Breaker

	// Keep reports whether the instance of a key is not to be stopped, while it is
	// unused, to make room for another key's in a full PerKey group. Default: none.
	Keep func(key string) bool

	// Fault reports whether an outcome given to release is the instance's fault
	// and counts for the breaker. Default: [TransportFault]. A nil error or an
	// extension's own error counts as a success, the rest as neither.
	Fault func(error) bool

	// Ended reports whether an outcome says that the instance is ending, which a
	// call may learn before Serve returns: later calls then wait for what follows,
	// and the breaker, which is for instances that live, does not count it.
	// Default: none does.
	Ended func(error) bool

	// Replaced reports whether an error of Serve means that the host itself gave
	// the instance up: the next one starts at once and costs nothing of the budget.
	// Default: none does.
	Replaced func(error) bool

	// OnEvent gets the group's events one at a time and in order, on a goroutine
	// of the group that Stop waits for. It must not call Stop. While it lags, at
	// most 1024 events are kept for it; see [Event.Lost].
	OnEvent func(Event)

	Rand *rand.Rand // draws the restart jitter; used by this group only; default: seeded at random
}

// Restart is the budget of a slot. The zero value allows no restart.
//
// With a Cooldown, [Failed] is not final, and failures count only while they come
// in a row: a call that the instance answers clears those of its slot. In a PerKey
// group the failed starts of all keys also share one such budget, which a start
// that succeeds clears. An error wrapping [ErrPermanent] stays final.
type Restart struct {
	MaxAttempts  int           // restarts within any Window; 0: never, negative: unlimited
	Window       time.Duration // default 5 min
	BaseBackoff  time.Duration // bound of the second restart's delay, doubled by each one after; default 1 s, negative: no delays
	MaxBackoff   time.Duration // bound of that doubling; default 16 s, negative: no delays
	HealthyAfter time.Duration // Ready for this long, a slot starts over with an immediate restart; default 60 s, negative: no matter how long
	Cooldown     time.Duration // how long a slot stays Failed before one trial start, by itself if eager, else by a call; 0: until Group.Restart
}

// Breaker bounds the harm of an instance that runs but does not answer.
type Breaker struct {
	Threshold  int           // consecutive faults that open it; default 5
	Timeout    time.Duration // how long it stays open before one probe; doubled by each failed probe; default 10 s
	MaxTimeout time.Duration // bound of that doubling; default 120 s
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

// onDemand reports whether slots start only because a call wants them.
func (o *Options) onDemand() bool { return o.Lazy || o.Mode == PerKey }

// outcomeOf judges what a call came to.
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

// TransportFault reports whether err says that an instance did not answer a
// call, or not in a way that can be used. The caller's own cancellation or
// deadline, refusals of the host and errors of the extension are no such faults.
func TransportFault(err error) bool {
	var e *protocol.Error
	if !errors.As(err, &e) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	switch e.Kind {
	case protocol.InvalidJSON, protocol.InvalidResponse, protocol.SpawnFailed, protocol.ChildExited,
		protocol.LineTooLong, protocol.StdoutClosed, protocol.WriteStalled, protocol.CallTimeout:
		return true
	}
	return false
}
