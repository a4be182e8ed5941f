package status

import "time"

// PastCall is a call that has ended, with what it carried.
type PastCall struct {
	Time time.Time `json:"time"` // when it ended
	CallEvent
	Request  *Excerpt `json:"request,omitempty"`  // the params as policies and hooks let them pass; nil in a list
	Response *Excerpt `json:"response,omitempty"` // the result as the caller got it; nil in a list, and of a failed call
}

// Excerpt is the beginning of a payload, with secrets masked.
type Excerpt struct {
	Text  string `json:"text"`          // at most 4 KiB
	Bytes int    `json:"bytes"`         // of the whole payload
	Cut   bool   `json:"cut,omitempty"` // the payload is longer than Text
}

// History counts calls over the last hour.
type History struct {
	Step   time.Duration `json:"step_ns"` // of one point
	Points []Point       `json:"points"`  // the oldest first; steps without a call are left out
}

// Point counts the calls that ended in one step of a [History].
type Point struct {
	Time       time.Time `json:"time"` // when the step began
	Calls      int64     `json:"calls"`
	Denied     int64     `json:"denied"`            // of Calls, see [Outcome.IsDenial]
	Errors     int64     `json:"errors"`            // of Calls: any other error, of the caller too
	ToolErrors int64     `json:"tool_errors"`       // of Calls: the tool ran and reports a failure
	Latency    *Latency  `json:"latency,omitempty"` // nil when no call reached an instance
}

// ToolUse is how often a tool was called since the host was opened, and how long instances
// had the calls.
type ToolUse struct {
	Calls      int64    `json:"calls"`
	Denied     int64    `json:"denied"`            // of Calls, see [Outcome.IsDenial]
	Errors     int64    `json:"errors"`            // of Calls: any other error, of the caller too
	ToolErrors int64    `json:"tool_errors"`       // of Calls: the tool ran and reports a failure
	Latency    *Latency `json:"latency,omitempty"` // nil when no call reached an instance
}

// Client is somebody who uses the host over MCP: a session, or a client without sessions
// (of 2026-07-28) that made one of the latest calls.
type Client struct {
	Name      string     `json:"name,omitempty"`      // with its version, as the client states it
	Caller    string     `json:"caller,omitempty"`    // as the server has authenticated it; "" when anonymous
	Session   string     `json:"session,omitempty"`   // "" without a session
	Protocol  string     `json:"protocol"`            // the revision of MCP
	Extension string     `json:"extension,omitempty"` // to which the session is limited; "" for all
	LastCall  *time.Time `json:"last_call,omitempty"` // nil when none of the latest calls is its
}
