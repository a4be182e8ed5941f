package status

import (
	"slices"

	"github.com/exthost/exthost/protocol"
)

// StageName is a stage of a call. It is a number, so that the ring of latest calls has fewer pointers for the garbage
// collector to follow. In text and JSON it is a name, such as "queue".
type StageName uint8

// The stages of a call in order. A call may repeat some: with a second instance, or when hooks run between
// policies.
const (
	StageRequestPolicies  StageName = iota + 1 // policies, and a person if asked, decide about the request
	StageHooksBefore                           // hooks before the call, and policies about their changes
	StageSignIn                                // the caller signs in at the server
	StageQueue                                 // waiting for room in an instance
	StageStart                                 // waiting for the start of an instance
	StageInstance                              // the instance processes the call
	StageResponsePolicies                      // policies decide about the outcome and record it
	StageHooksAfter                            // hooks after the call, and policies about their changes
)

var stageWords = [...]string{"", "request_policies", "hooks_before", "sign_in", "queue", "start", "instance",
	"response_policies", "hooks_after"}

// String returns the name of a stage, or "" for an unknown one.
func (n StageName) String() string {
	if int(n) < len(stageWords) {
		return stageWords[n]
	}
	return ""
}

// MarshalText implements [encoding.TextMarshaler].
func (n StageName) MarshalText() ([]byte, error) { return []byte(n.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler]. Names from later versions become 0.
func (n *StageName) UnmarshalText(text []byte) error {
	*n = StageName(max(slices.Index(stageWords[:], string(text)), 0))
	return nil
}

// Stage is the time that a call spent in one stage.
type Stage struct {
	Name StageName         `json:"name"`
	At   protocol.Duration `json:"at_ms"`   // since the beginning of the call
	Took protocol.Duration `json:"took_ms"` // duration of the stage
}

// Slowest returns the stage with the most time in all its passes, and that time; 0 for a call without stages.
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
