// Package stats counts the calls of extensions, the decisions of policies and the runs
// of hooks, and tells listeners what happens.
package stats

import (
	"encoding/json"
	"sync/atomic"
	"time"

	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
	"github.com/exthost/exthost/status"
)

// Calls counts the calls of one extension since the host was opened, through all builds
// of the extension. Its zero value is ready.
type Calls struct {
	requests, denied, invalid, toolErrors atomic.Int64 // by what became of them for their callers

	count, errors, refused atomic.Int64
	failure                atomic.Pointer[status.Failure] // the latest
	timeoutLogged          atomic.Int64                   // when the latest timeout was logged, in Unix nanoseconds
	took                   Histogram
	sent, received         atomic.Int64 // bytes of params and results

	started  Histogram // from the spawn of an instance until it was ready
	restarts atomic.Int64

	late, unknown, noise atomic.Uint64 // of instances that have ended, as in [runtime.Info]
}

// Requested counts a request by its outcome for the caller, whether or not it reached an
// instance.
func (c *Calls) Requested(o status.Outcome) {
	c.requests.Add(1)
	switch {
	case o == status.OutcomeOK:
	case o == status.OutcomeToolError:
		c.toolErrors.Add(1)
	case o == status.Outcome(protocol.InvalidArguments):
		c.invalid.Add(1)
	case o.IsDenial():
		c.denied.Add(1)
	}
}

// Record counts a call that reached an instance.
func (c *Calls) Record(took time.Duration, params, result json.RawMessage, err error) {
	c.count.Add(1)
	if err != nil {
		c.errors.Add(1)
	}
	c.took.Record(took)
	c.sent.Add(int64(len(params)))
	c.received.Add(int64(len(result)))
}

// Refused counts a call that reached no instance.
func (c *Calls) Refused() { c.refused.Add(1) }

// Started counts an instance that has become ready.
func (c *Calls) Started(took time.Duration) { c.started.Record(took) }

// Restarted counts a restart after a crash.
func (c *Calls) Restarted() { c.restarts.Add(1) }

// Failed keeps a failure for the status, unless the caller has canceled the call. reason
// is "" when the failure is in the extension's own words, which policies mask before
// anybody sees them.
func (c *Calls) Failed(tool string, kind protocol.Kind, reason string) {
	if kind != protocol.Canceled {
		c.failure.Store(&status.Failure{Time: time.Now(), Tool: tool, Kind: kind, Reason: reason})
	}
}

// timeoutSpacing is the least time between two logged timeouts of one extension.
const timeoutSpacing = 10 * time.Second

// LogsTimeout reports whether another timeout is to be logged now, and notes that it is.
func (c *Calls) LogsTimeout(now time.Time) bool {
	last := c.timeoutLogged.Load()
	return now.UnixNano()-last > int64(timeoutSpacing) && c.timeoutLogged.CompareAndSwap(last, now.UnixNano())
}

// Ended takes over the counts of an instance that has ended.
func (c *Calls) Ended(i runtime.Info) {
	c.late.Add(i.Late)
	c.unknown.Add(i.Unknown)
	c.noise.Add(i.Noise)
}

// Describe adds the counts to an extension's status.
func (c *Calls) Describe(s *status.Extension) {
	s.Requests, s.Denied, s.Invalid, s.ToolErrors = c.requests.Load(), c.denied.Load(), c.invalid.Load(), c.toolErrors.Load()
	s.Calls, s.Errors, s.Refused = c.count.Load(), c.errors.Load(), c.refused.Load()
	s.Latency, s.LastFailure = c.took.Latency(), c.failure.Load()
}

// Measure returns the counts for metrics, those of the running instances included. An
// instance is either in running or was given to [Calls.Ended]; the caller makes sure that
// none changes sides meanwhile.
func (c *Calls) Measure(id string, running []runtime.Info) status.ExtensionMeasure {
	m := status.ExtensionMeasure{
		ID: id, Calls: c.took.Totals(), Starts: c.started.Totals(), Restarts: c.restarts.Load(),
		Sent: c.sent.Load(), Received: c.received.Load(),
		Late: c.late.Load(), Unknown: c.unknown.Load(), Noise: c.noise.Load(),
	}
	for _, i := range running {
		m.Late += i.Late
		m.Unknown += i.Unknown
		m.Noise += i.Noise
	}
	return m
}
