package status

import (
	"time"

	"github.com/exthost/exthost/governance/approval"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/supervisor"
)

// EventKind tells which field of an [Event] is set.
type EventKind string

// The kinds of event, and the fields that they set.
const (
	EventCall      EventKind = "call"      // an exchange ended: Call
	EventState     EventKind = "state"     // an instance changed its state: State
	EventBreaker   EventKind = "breaker"   // an instance's breaker changed its state: State
	EventTools     EventKind = "tools"     // the catalog changed: Tools
	EventReload    EventKind = "reload"    // a reload ended: Reload or Error
	EventApprovals EventKind = "approvals" // the pending approval requests changed: Approvals
)

// EventKinds returns all kinds of event.
func EventKinds() []EventKind {
	return []EventKind{EventCall, EventState, EventBreaker, EventTools, EventReload, EventApprovals}
}

// Event is something that happened in a host.
type Event struct {
	Time time.Time `json:"time"`
	Kind EventKind `json:"kind"`
	// events dropped before this one because the listener was too slow
	Lost      int                 `json:"lost,omitempty"`
	Call      *CallEvent          `json:"call,omitempty"`      // of kind call
	State     *StateEvent         `json:"state,omitempty"`     // of kinds state and breaker
	Tools     *ToolsEvent         `json:"tools,omitempty"`     // of kind tools
	Reload    *Change             `json:"reload,omitempty"`    // of kind reload: what was done
	Error     string              `json:"error,omitempty"`     // of kind reload: why it failed
	Approvals *[]approval.Request `json:"approvals,omitempty"` // of kind approvals: all pending ones, oldest first
	Silent    []Silent            `json:"silent,omitempty"`    // of kind approvals: nodes whose requests are missing
}

// CallEvent is a finished exchange with an extension.
type CallEvent struct {
	ID        uint64 `json:"id"` // number of the call since the host was opened
	Extension string `json:"extension,omitempty"`
	// cluster node that served the call; "" for this host
	Node    string `json:"node,omitempty"`
	Tool    string `json:"tool,omitempty"` // the registered name
	Method  string `json:"method"`
	Caller  string `json:"caller,omitempty"`
	Session string `json:"session,omitempty"`
	Client  string `json:"client,omitempty"` // name and version as stated by the client
	// how the client is connected: http, sse or stdio; "" for calls of the program itself
	Front string `json:"front,omitempty"`
	// the client's revision of MCP; "" for calls of the program itself
	Protocol string            `json:"protocol,omitempty"`
	Outcome  Outcome           `json:"outcome"`
	Message  string            `json:"message,omitempty"` // of the error, at most 512 bytes
	Policy   string            `json:"policy,omitempty"`  // the policy or hook that denied the call
	Code     string            `json:"code,omitempty"`    // of the denial
	Decision string            `json:"decision_id,omitempty"`
	Trace    string            `json:"trace_id,omitempty"` // from the caller's W3C trace context
	Replayed bool              `json:"replayed,omitempty"`
	Took     protocol.Duration `json:"took_ms"` // of the whole call, policies included
	// the stages of the call in order; the rest of the time is the host's own
	Stages []Stage `json:"stages,omitempty"`
}

// StateEvent is a change of an instance, or of a policy's process.
type StateEvent struct {
	Extension string                  `json:"extension"` // its id; policy:NAME for a policy's process
	Instance  string                  `json:"instance,omitempty"`
	State     supervisor.State        `json:"state,omitempty"`
	Breaker   supervisor.BreakerState `json:"breaker,omitempty"`
	Reason    string                  `json:"reason,omitempty"`
	Attempt   int                     `json:"attempt,omitempty"` // number of this restart
	Of        int                     `json:"of,omitempty"`      // number of allowed restarts; negative: no limit
	// time of the next restart, or of the breaker's probe
	Due *time.Time `json:"due,omitempty"`
}

// ToolsEvent is a new catalog.
type ToolsEvent struct {
	Generation uint64 `json:"generation"`
	Count      int    `json:"count"`
}

// Outcome is how an exchange ended: [OutcomeOK], [OutcomeToolError], or the kind of its error. The set is closed,
// so that it can label metrics.
type Outcome string

// The outcomes that are not kinds of errors.
const (
	OutcomeOK        Outcome = "ok"
	OutcomeToolError Outcome = "tool_error" // the tool ran and reported a failure
)

// IsDenial reports whether governance refused the exchange: a policy or hook denied it, a required policy could
// not decide, or its tool is withheld.
func (o Outcome) IsDenial() bool {
	switch protocol.Kind(o) {
	case protocol.Rejected, protocol.GovernanceUnavailable, protocol.DescriptorChanged, protocol.Untrusted:
		return true
	}
	return false
}

// Outcomes returns all outcomes.
func Outcomes() []Outcome {
	all := []Outcome{OutcomeOK, OutcomeToolError}
	for _, kind := range protocol.Kinds() {
		all = append(all, Outcome(kind))
	}
	return all
}
