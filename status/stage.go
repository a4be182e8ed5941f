package status

import "github.com/exthost/exthost/protocol"

// StageName is a part of the way of a call.
type StageName string

// The stages of a call, in the order of its way. A call may pass some of them again: when it is
// given to a second instance, or when hooks are between policies.
const (
	StageRequestPolicies  StageName = "request_policies"  // policies decide about the request; a person too, where one is asked
	StageHooksBefore      StageName = "hooks_before"      // hooks before the call, and policies about what they changed
	StageSignIn           StageName = "sign_in"           // the caller signs in at the server
	StageQueue            StageName = "queue"             // it waits for room in an instance
	StageStart            StageName = "start"             // it waits for the start of an instance
	StageInstance         StageName = "instance"          // an instance has it
	StageResponsePolicies StageName = "response_policies" // policies decide about the outcome, and record it
	StageHooksAfter       StageName = "hooks_after"       // hooks after the call, and policies about what they changed
)

// Stage is the time that a call spent in one part of its way.
type Stage struct {
	Name StageName         `json:"name"`
	At   protocol.Duration `json:"at_ms"`   // from the beginning of the call to that of the stage
	Took protocol.Duration `json:"took_ms"` // how long the stage took
}

// Slowest returns the stage in which the call spent the most time, all its passes together, and
// that time; "" for a call that passed none.
func (c *CallEvent) Slowest() (name StageName, took protocol.Duration) {
	sums := make(map[StageName]protocol.Duration, len(c.Stages))
	for _, s := range c.Stages {
		if sums[s.Name] += s.Took; name == "" || sums[s.Name] > took {
			name, took = s.Name, sums[s.Name]
		}
	}
	return name, took
}
