package supervisor

import (
	"context"
	"errors"
)

// Service is one run of the supervised thing. It is used once.
type Service interface {
	// Serve runs the service until it ends. It calls ready once the service can take calls. When ctx ends, it stops the
	// service and returns; the result is then ignored. Any other return, even nil, is a failure that counts against the
	// restart budget. An error that wraps [ErrPermanent] prevents a restart. The cause of ctx is [ErrRestarted] if
	// [Group.Restart] replaces the service.
	Serve(ctx context.Context, ready func()) error
}

// ErrPermanent marks an error of a [Service] that a restart cannot fix.
var ErrPermanent = errors.New("permanent failure")

// ErrRestarted is the cause of the context of a [Service] that [Group.Restart] replaces.
var ErrRestarted = errors.New("it was restarted by the operator")

// errEnded replaces the nil error of a service that returned before its context ended.
var errEnded = errors.New("the service ended by itself")

// State is the state of a slot.
type State string

// The states of a slot.
const (
	Idle       State = "idle"       // no instance; the next call or Start starts one
	Spawning   State = "spawning"   // an instance is starting
	Ready      State = "ready"      // the instance takes calls
	Restarting State = "restarting" // the instance has ended; the next one is due at SlotStatus.Next
	Draining   State = "draining"   // the instance takes no new calls and is being stopped
	Failed     State = "failed"     // no restarts, except by Group.Restart and after a Cooldown or a Trial
	Shutdown   State = "shutdown"   // stopped for good
)
