package supervisor

import (
	"context"
	"errors"
)

// Service is one run of the thing to keep alive. It is used once.
type Service interface {
	// Serve runs the service in the calling goroutine until it ends, and calls
	// ready once it can take calls. When ctx ends it stops and returns, and the
	// result is ignored. Any other return, nil included, is a failure that the
	// restart budget answers. An error wrapping [ErrPermanent] allows no restart.
	Serve(ctx context.Context, ready func()) error
}

// ErrPermanent marks an error of a [Service] that no restart can cure.
var ErrPermanent = errors.New("permanent failure")

// errEnded is the error of a service that returned nil without being asked to stop.
var errEnded = errors.New("the service ended by itself")

// State is where a slot is in its life.
type State string

// The states of a slot.
const (
	Idle       State = "idle"       // nothing runs; the next call, or Start, starts an instance
	Spawning   State = "spawning"   // an instance runs and is not ready yet
	Ready      State = "ready"      // the instance takes calls
	Restarting State = "restarting" // the instance died; the next one is due at a known time
	Draining   State = "draining"   // the instance takes no more calls and ends
	Failed     State = "failed"     // given up until its Cooldown has passed, if it has one; Restart leads out at once
	Shutdown   State = "shutdown"   // ended for good
)
