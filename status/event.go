package status

import (
	"time"

	"github.com/exthost/exthost/governance/approval"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/supervisor"
)

// EventKind says which field of an [Event] is set.
type EventKind string

// The kinds of event.
const (
	EventCall      EventKind = "call"      // an exchange has ended: Call
	EventState     EventKind = "state"     // an instance of an extension has changed its state: State
	EventBreaker   EventKind = "breaker"   // an instance's breaker has changed its state: State
	EventTools     EventKind = "tools"     // the catalog has changed: Tools
	EventReload    EventKind = "reload"    // a reload has ended: Reload or Error
	EventApprovals EventKind = "approvals" // the approval requests that wait for a person have changed: Approvals
)

// EventKinds returns every kind of event.
func EventKinds() []EventKind {
	return []EventKind{EventCall, EventState, EventBreaker, EventTools, EventReload, EventApprovals}
}

// Event is something that happened in a host.
type Event struct {
	Time time.Time `json:"time"`
	Kind EventKind `json:"kind"`
	// events dropped just before this one because the listener was too slow
	Lost      int                 `json:"lost,omitempty"`
	Call      *CallEvent          `json:"call,omitempty"`      // of a call
	State     *StateEvent         `json:"state,omitempty"`     // of a state or a breaker
	Tools     *ToolsEvent         `json:"tools,omitempty"`     // of tools
	Reload    *Change             `json:"reload,omitempty"`    // of a reload that was carried out
	Error     string              `json:"error,omitempty"`     // of a reload that was not: why
	Approvals *[]approval.Request `json:"approvals,omitempty"` // of approvals: all that wait now, the oldest first
}

// CallEvent is one exchange with an extension that has ended.
type CallEvent struct {
	ID        uint64 `json:"id"` // the number of the call since the host was opened
	Extension string `json:"extension,omitempty"`
	// the node of the cluster that the call went to; "" for this host
	Node    string `json:"node,omitempty"`
	Tool    string `json:"tool,omitempty"` // the registered name
	Method  string `json:"method"`
	Caller  string `json:"caller,omitempty"`
	Session string `json:"session,omitempty"`
	Client  string `json:"client,omitempty"` // name and version, as the client states them
	// how the client is connected: http, sse or stdio; "" for calls of the program itself
	Front string `json:"front,omitempty"`
	// the client's revision of MCP; "" for calls of the program itself
	Protocol string            `json:"protocol,omitempty"`
	Outcome  Outcome           `json:"outcome"`
	Message  string            `json:"message,omitempty"` // of the error, at most 512 bytes
	Policy   string            `json:"policy,omitempty"`  // that rejected it
	Code     string            `json:"code,omitempty"`    // of the rejection
	Decision string            `json:"decision_id,omitempty"`
	Trace    string            `json:"trace_id,omitempty"` // from the caller's W3C trace context
	Replayed bool              `json:"replayed,omitempty"`
	Took     protocol.Duration `json:"took_ms"` // in all, policies included
	// the times of its way, in order; what is in none of them, the host did itself
	Stages []Stage `json:"stages,omitempty"`
}

// StateEvent is a change of one instance of an extension, or of a policy's process.
type StateEvent struct {
	Extension string                  `json:"extension"` // its id; policy:NAME for a policy's process
	Instance  string                  `json:"instance,omitempty"`
	State     supervisor.State        `json:"state,omitempty"`
	Breaker   supervisor.BreakerState `json:"breaker,omitempty"`
	Reason    string                  `json:"reason,omitempty"`
	Attempt   int                     `json:"attempt,omitempty"` // the number of this restart
	Of        int                     `json:"of,omitempty"`      // restarts allowed; negative: any number
	// when the next restart, or the breaker's probe, is due
	Due *time.Time `json:"due,omitempty"`
}

// ToolsEvent is a new catalog.
type ToolsEvent struct {
	Generation uint64 `json:"generation"`
	Count      int    `json:"count"`
}

// Outcome is how an exchange ended: [OutcomeOK], [OutcomeToolError], or the kind of its
// error. The set is closed, so that it can be the label of a metric.
type Outcome string

// The outcomes that are no kind of error.
const (
	OutcomeOK        Outcome = "ok"
	OutcomeToolError Outcome = "tool_error" // the tool ran and reports a failure
)

// IsDenial reports whether governance kept the call from its caller: a policy or a hook
// denied it, a required policy could not decide, or its tool is held back.
func (o Outcome) IsDenial() bool {
	switch protocol.Kind(o) {
	case protocol.Rejected, protocol.GovernanceUnavailable, protocol.DescriptorChanged, protocol.Untrusted:
		return true
	}
	return false
}

// Outcomes returns every outcome: the two above, then the kinds of error.
func Outcomes() []Outcome {
	all := []Outcome{OutcomeOK, OutcomeToolError}
	for _, kind := range protocol.Kinds() {
		all = append(all, Outcome(kind))
	}
	return all
}
