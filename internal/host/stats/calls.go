// Package stats counts the calls of extensions, the decisions of policies and the runs of hooks, and sends events
// to listeners.
package stats

import (
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
	"github.com/exthost/exthost/status"
)

// Calls counts the calls of one extension since the host was opened, across all its builds. The zero value is
// ready to use.
type Calls struct {
	requests, denied, invalid, toolErrors atomic.Int64 // by outcome for the caller

	count, errors, refused atomic.Int64
	failure                atomic.Pointer[status.Failure] // the latest
	inRow                  atomic.Int64                   // failures since the last answered call
	failures               failureLog
	denial                 atomic.Pointer[status.Denial] // the latest with a text
	deniedInRow            atomic.Int64                  // denials since the last call that was not denied
	flights                flights
	took                   Histogram
	sent, received         atomic.Int64 // bytes of params and results

	started  Histogram // from the spawn of an instance until it was ready
	restarts atomic.Int64
	loop     crashLoop

	late, unknown, noise atomic.Uint64 // of ended instances, as in [runtime.Info]
}

// Requested counts a request once, by its outcome for the caller, even if it was sent to several instances.
// reached tells whether an instance received the request, and served is then the time that instances spent on it.
func (c *Calls) Requested(o status.Outcome, reached bool, served time.Duration) {
	c.requests.Add(1)
	if reached {
		c.count.Add(1)
		c.took.Record(served)
	}
	if !o.IsDenial() && c.deniedInRow.Load() != 0 { // the usual call writes nothing
		c.deniedInRow.Store(0)
	}
	switch {
	case o == status.OutcomeOK:
	case o == status.OutcomeToolError:
		c.toolErrors.Add(1)
	case o == status.Outcome(protocol.InvalidArguments):
		c.invalid.Add(1)
	case o.IsDenial():
		c.denied.Add(1)
	case reached:
		c.errors.Add(1)
	default:
		c.refused.Add(1)
	}
}

// Transferred counts the bytes sent to an instance and received from it.
func (c *Calls) Transferred(params, result json.RawMessage) {
	c.sent.Add(int64(len(params)))
	c.received.Add(int64(len(result)))
}

// Started counts an instance that became ready.
func (c *Calls) Started(took time.Duration) { c.started.Record(took) }

// crashLoop counts the restarts of one run of bad luck.
type crashLoop struct {
	restarts atomic.Int64 // since the count was last forgotten
	last     atomic.Int64 // time of the latest, in nanoseconds
	refuted  atomic.Bool  // a call succeeded since the latest
}

// loopSpan is the time without a restart after which the next one begins a new row.
const loopSpan = 5 * time.Minute

// Restarted counts an instance that replaces one whose run ended unexpectedly.
func (c *Calls) Restarted(now time.Time) {
	c.restarts.Add(1)
	if last := c.loop.last.Swap(now.UnixNano()); now.UnixNano()-last > int64(loopSpan) {
		c.loop.restarts.Store(0)
	}
	c.loop.restarts.Add(1)
	c.loop.refuted.Store(false)
}

// Forget ends the rows of failures and of restarts: the operator restarted the extension, or a reload replaced it.
func (c *Calls) Forget() {
	c.inRow.Store(0)
	c.loop.restarts.Store(0)
}

// Succeeded ends a row of failures. The restarts before it count again if another follows.
func (c *Calls) Succeeded() {
	if c.inRow.Load() != 0 { // the usual call writes nothing
		c.inRow.Store(0)
	}
	if c.loop.restarts.Load() != 0 && !c.loop.refuted.Load() {
		c.loop.refuted.Store(true)
	}
}

// Failed records a failure for the status, and counts it among the failures in a row.
func (c *Calls) Failed(f *status.Failure) {
	c.inRow.Add(1)
	c.failure.Store(f)
}

// denialSpan is the time between two recorded denials of a row.
const denialSpan = time.Second

// Denied counts a denial of the row, and reports whether to record it with [Calls.KeepDenial]: its text is masked,
// which would slow down a flood of denials.
func (c *Calls) Denied(now time.Time) bool {
	first, last := c.deniedInRow.Add(1) == 1, c.denial.Load()
	return first || last == nil || now.Sub(last.Time) >= denialSpan
}

// KeepDenial records a denial for the status.
func (c *Calls) KeepDenial(d *status.Denial) { c.denial.Store(d) }

// ForgetDenials ends the row of denials if the policy refused the latest, and did so before the given time.
func (c *Calls) ForgetDenials(policy string, before time.Time) {
	if last := c.denial.Load(); last != nil && last.Policy == policy && last.Time.Before(before) {
		c.deniedInRow.Store(0)
	}
}

// At most failureLines failed calls of an extension are logged per failureSpan.
const (
	failureLines = 3
	failureSpan  = 10 * time.Second
)

// failureLog bounds the log lines about failed calls.
type failureLog struct {
	mu       sync.Mutex // guards the fields below
	began    time.Time  // start of the current span
	lines    int        // in the current span
	unlogged int64      // failures since the last line
}

// LogsFailure reports whether to log a failed call now, and how many failures since the last line were not
// logged.
func (c *Calls) LogsFailure(now time.Time) (unlogged int64, ok bool) {
	l := &c.failures
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.began) > failureSpan {
		l.began, l.lines = now, 0
	}
	if l.lines == failureLines {
		l.unlogged++
		return 0, false
	}
	unlogged, l.unlogged = l.unlogged, 0
	l.lines++
	return unlogged, true
}

// Ended adds the counts of an ended instance.
func (c *Calls) Ended(i runtime.Info) {
	c.late.Add(i.Late)
	c.unknown.Add(i.Unknown)
	c.noise.Add(i.Noise)
}

// Describe adds the counts to the status of the extension.
func (c *Calls) Describe(s *status.Extension) {
	s.Requests, s.Denied = c.requests.Load(), c.denied.Load()
	s.Invalid, s.ToolErrors = c.invalid.Load(), c.toolErrors.Load()
	s.Calls, s.Errors, s.Refused = c.count.Load(), c.errors.Load(), c.refused.Load()
	s.FailedInRow, s.DeniedInRow, s.LastDenial = c.inRow.Load(), c.deniedInRow.Load(), c.denial.Load()
	s.Latency, s.LastFailure, s.Restarts = c.took.Latency(), c.failure.Load(), int(c.restarts.Load())
	s.Slow = c.flights.slow(time.Now())
	if !c.loop.refuted.Load() {
		s.RestartsInRow = int(c.loop.restarts.Load())
	}
}

// Measure returns the counts for metrics, including those of running instances. Each instance is either in running or
// was passed to [Calls.Ended]; the caller ensures that no instance ends meanwhile.
func (c *Calls) Measure(id string, running []runtime.Info) status.ExtensionMeasure {
	m := status.ExtensionMeasure{
		ID:       id,
		Calls:    c.took.Totals(),
		Starts:   c.started.Totals(),
		Restarts: c.restarts.Load(),
		Sent:     c.sent.Load(),
		Received: c.received.Load(),
		Late:     c.late.Load(),
		Unknown:  c.unknown.Load(),
		Noise:    c.noise.Load(),
	}
	for _, i := range running {
		m.Late += i.Late
		m.Unknown += i.Unknown
		m.Noise += i.Noise
	}
	return m
}
