package dispatch

import (
	"errors"
	"time"

	"github.com/exthost/exthost/protocol"
)

// handed is what became of a call at instances, across all passes: what one instance may have done stays done when
// another refuses the call.
type handed struct {
	requests int           // requests that instances got, or may have got
	failed   bool          // the extension answered the last request with an error of its own
	asked    bool          // the call reached Admit
	reached  bool          // an instance had the call
	took     time.Duration // time spent at instances
}

// outcomeUnknown is [protocol.Error].Outcome of a call that an instance may have acted on.
const outcomeUnknown = "unknown"

// hand sends a request of the call to an instance, and records whether the instance may act on it. It counts a
// request whose send panics.
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
	default: // the instance never gets it, by the contract of [runtime.Instance]
		c.handed.requests--
		c.handed.failed = failedBefore
	}
	return err
}

// MayHaveRun reports whether an instance may have acted on the call: repeating it could carry it out twice.
func (c *Call) MayHaveRun() bool { return c.handed.requests > 0 }

// outcome decides [protocol.Error].Outcome for the error of the call, whatever ended the call after it was sent: its
// time limit, policies, hooks, further requests, other nodes. An error of the extension is an answer, with a known
// outcome. An answer of the host is made from other calls, and their errors have an outcome already.
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

// errPanicked is the error of a call in which a stage panicked.
var errPanicked = protocol.Errorf(protocol.ExtensionError,
	"the call broke off inside the host, which is at fault; its log says where")
