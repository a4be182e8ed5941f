package status

import (
	"slices"

	"github.com/exthost/exthost/protocol"
)

// StageName is a part of the way of a call: a number, so that a call in the ring of the latest has no
// pointers for the collector to follow. Text and JSON have its word, such as "queue".
type StageName uint8

// The stages of a call, in the order of its way. A call may pass some of them again: when it is
// given to a second instance, or when hooks are between policies.
const (
	StageRequestPolicies  StageName = iota + 1 // policies decide about the request; a person too, where one is asked
	StageHooksBefore                           // hooks before the call, and policies about what they changed
	StageSignIn                                // the caller signs in at the server
	StageQueue                                 // it waits for room in an instance
	StageStart                                 // it waits for the start of an instance
	StageInstance                              // an instance has it
	StageResponsePolicies                      // policies decide about the outcome, and record it
	StageHooksAfter                            // hooks after the call, and policies about what they changed
)

var stageWords = [...]string{"", "request_policies", "hooks_before", "sign_in", "queue", "start", "instance",
	"response_policies", "hooks_after"}

// String returns the word of a stage; "" for one that this program does not know.
func (n StageName) String() string {
	if int(n) < len(stageWords) {
		return stageWords[n]
	}
	return ""
}

// MarshalText implements [encoding.TextMarshaler].
func (n StageName) MarshalText() ([]byte, error) { return []byte(n.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler]. A word of a later version is no stage.
func (n *StageName) UnmarshalText(text []byte) error {
	*n = StageName(max(slices.Index(stageWords[:], string(text)), 0))
	return nil
}

// Stage is the time that a call spent in one part of its way.
type Stage struct {
	Name StageName         `json:"name"`
	At   protocol.Duration `json:"at_ms"`   // from the beginning of the call to that of the stage
	Took protocol.Duration `json:"took_ms"` // how long the stage took
}

// Slowest returns the stage in which the call spent the most time, all its passes together, and
// that time; 0 for a call that passed none.
func (c *CallEvent) Slowest() (name StageName, took protocol.Duration) {
	var sums [len(stageWords)]protocol.Duration
	for _, s := range c.Stages {
		if int(s.Name) >= len(sums) {
			continue
		}
		if sums[s.Name] += s.Took; name == 0 || sums[s.Name] > took {
			name, took = s.Name, sums[s.Name]
		}
	}
	return name, took
}
