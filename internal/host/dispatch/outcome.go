package dispatch

import (
	"errors"

	"github.com/exthost/exthost/protocol"
)

// handed is what instances were given of a call. It holds for the whole call, however often stages send it:
// what one instance may have done stays done when another one refuses the call.
type handed struct {
	requests int  // that an instance has got, or may have got
	failed   bool // the extension answered the last of them with an error of its own
}

// outcomeUnknown is [protocol.Error].Outcome of a call that an instance may have acted on.
const outcomeUnknown = "unknown"

// hand gives an instance a request of the call by send, and notes whether the instance may act on it. A
// panic of send leaves that open, so the request counts.
func (c *Call) hand(send func() error) error {
	c.handed.requests++
	failedBefore := c.handed.failed
	c.handed.failed = false
	err := send()
	e, ok := errors.AsType[*protocol.Error](err)
	switch {
	case err == nil || !ok || e.Outcome != "":
	case e.Kind == protocol.ExtensionError:
		c.handed.failed = true
	default: // the contract of [runtime.Instance]: it never gets the request
		c.handed.requests--
		c.handed.failed = failedBefore
	}
	return err
}

// MayHaveRun reports whether an instance has acted on the call, or may have: to make the call again could
// carry it out twice.
func (c *Call) MayHaveRun() bool { return c.handed.requests > 0 }

// outcome decides [protocol.Error].Outcome of the error that the call ends with, for all that may end a call
// after it was sent: its own time limit, policies and hooks of the response, further requests to the
// instance, other nodes. An error of the extension itself is an answer, and says what became of the call. The
// host's answers to calls without a target are made of the answers to other calls, which know their outcome.
func (c *Call) outcome(e *protocol.Error) string {
	switch {
	case c.handed.failed && e.Kind == protocol.ExtensionError:
		return ""
	case c.MayHaveRun():
		return outcomeUnknown
	case c.Target != nil:
		return ""
	}
	return e.Outcome
}

// errPanicked is the error of a call that broke off inside the host.
var errPanicked = protocol.Errorf(protocol.ExtensionError,
	"the call broke off inside the host, which is at fault; its log says where")
