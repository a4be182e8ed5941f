package dispatch

import (
	"time"

	"github.com/exthost/exthost/internal/host/unit"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// maxStages bounds the recorded stages: enough for a call given to four instances, with policies and hooks.
const maxStages = 14

// stages records the times of a call's stages. It is part of the call, and allocates nothing.
type stages struct {
	began    time.Time
	policies status.StageName // the pipeline's current stage: request or response
	since    time.Time        // start of that stage; zero: start of the call
	kept     [maxStages]status.Stage
	n        int
}

// Passed records a stage from a time until now, and returns now.
func (c *Call) Passed(name status.StageName, from time.Time) (now time.Time) {
	now = c.stages.now()
	c.stages.add(name, from, now)
	return now
}

// now is cheaper than time.Now, which reads two clocks: that matters for a call of some microseconds.
func (s *stages) now() time.Time {
	if s.began.IsZero() { // only entered: it has no start
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

// leavePolicies records the time that policies took until now. It skips the clock if there are no policies.
func (c *Call) leavePolicies() {
	if c.Exchange.ID != "" { // empty without policies
		from := c.stages.since
		if from.IsZero() {
			from = c.stages.began
		}
		c.Passed(c.stages.policies, from)
	}
}

// enterPolicies records the time at which policies got the result.
func (c *Call) enterPolicies() {
	if c.Exchange.ID != "" {
		c.stages.policies, c.stages.since = status.StageResponsePolicies, c.stages.now()
	}
}

// waited returns the stage for the time that a call waited for an instance since from: the start of i, or room in i.
// err is why the call got no instance.
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
