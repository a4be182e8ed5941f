package status

import (
	"encoding/json"
	"time"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/protocol"
)

// Rehearsal is what one policy would decide about calls that have ended.
type Rehearsal struct {
	Policy string `json:"policy"`
	Calls  int    `json:"calls"` // that the policy decided about
	// calls whose params are not kept whole, about which it did not decide
	Skipped int `json:"skipped"`
	// results that are not kept whole, about which it did not decide
	SkippedResults int               `json:"skipped_results"`
	Denied         int               `json:"denied"`         // calls that it would deny
	Changed        int               `json:"changed"`        // calls whose params or result it would change, or answer itself
	Asked          int               `json:"asked"`          // calls that it would ask a person about
	Failed         int               `json:"failed"`         // calls that it could not decide about
	Otherwise      []Rehearsed       `json:"otherwise"`      // the decisions other than to let pass, newest call first
	Left           int               `json:"left,omitempty"` // calls that there was no time for
	Took           protocol.Duration `json:"took_ms"`
	// what else the operator should know, such as that the process of the policy has seen the calls
	Note string `json:"note,omitempty"`
}

// Rehearsed is one decision of a [Rehearsal].
type Rehearsed struct {
	ID      uint64            `json:"id"`             // of the call, as in the history of calls, or as it was given
	Time    time.Time         `json:"time"`           // when the call began
	Tool    string            `json:"tool,omitempty"` // registered name; "" for other requests than tools/call
	Method  string            `json:"method"`
	Caller  string            `json:"caller,omitempty"`
	Outcome Outcome           `json:"outcome"` // of the call, then
	Flow    governance.Flow   `json:"flow"`
	Action  governance.Action `json:"action,omitempty"` // "" if the policy could not decide
	Code    string            `json:"code,omitempty"`
	Reason  string            `json:"reason,omitempty"`
	// for a change, the beginning of the params or of the result after it
	Changed *Excerpt `json:"changed,omitempty"`
}

// RecordedCall is a request to an extension in a cassette, with the messages as the cassette has them.
type RecordedCall struct {
	ID        uint64          `json:"id"` // chosen by the caller, and given back
	Time      time.Time       `json:"time"`
	Extension string          `json:"extension"`
	Sent      json.RawMessage `json:"sent"`               // the request
	Received  json.RawMessage `json:"received,omitempty"` // the response; nil: there is none
}
