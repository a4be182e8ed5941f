package dispatch

import (
	"time"

	"github.com/exthost/exthost/internal/host/unit"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// maxStages bounds the stages that are kept of a call: those of one that is given to four
// instances, with policies and hooks.
const maxStages = 14

// stages are when a call was where. They are a part of the call, so that they allocate nothing.
type stages struct {
	began    time.Time
	policies status.StageName // in which of its two stages the pipeline has the call
	since    time.Time        // when that stage began; zero: with the call
	kept     [maxStages]status.Stage
	n        int
}

// Passed notes that the call was in a stage from a time until now, which it returns.
func (c *Call) Passed(name status.StageName, from time.Time) (now time.Time) {
	now = c.stages.now()
	c.stages.add(name, from, now)
	return now
}

// now returns the time for less than time.Now does, which reads two clocks: it matters for a call of
// some microseconds.
func (s *stages) now() time.Time {
	if s.began.IsZero() { // of a call that is entered and not counted
		return time.Now()
	}
	return s.began.Add(time.Since(s.began))
}

func (s *stages) add(name status.StageName, from, to time.Time) {
	if s.n < maxStages {
		s.kept[s.n] = status.Stage{
			Name: name,
			At:   protocol.Duration(from.Sub(s.began)),
			Took: protocol.Duration(to.Sub(from)),
		}
		s.n++
	}
}

// decided notes that the policies have had the call until now. Without policies nobody looks at
// the clock.
func decided(c *Call) {
	if c.Exchange.ID != "" { // a pipeline without policies gives none
		from := c.stages.since
		if from.IsZero() {
			from = c.stages.began
		}
		c.Passed(c.stages.policies, from)
	}
}

// decides notes that the policies have the outcome of the call from now on.
func decides(c *Call) {
	if c.Exchange.ID != "" {
		c.stages.policies, c.stages.since = status.StageResponsePolicies, c.stages.now()
	}
}

// waited is the stage of a call that waited for i from a time on: for its start or for room in it. err
// is why the call got none.
func waited(i *unit.Instance, from time.Time, err error) status.StageName {
	if err == nil && i.Ready.Before(from) {
		return status.StageQueue
	}
	switch protocol.KindOf(err) {
	case protocol.Overloaded, protocol.BreakerOpen, protocol.Canceled, protocol.ShuttingDown:
		return status.StageQueue
	}
	return status.StageStart
}
