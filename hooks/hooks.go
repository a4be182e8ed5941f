// Package hooks holds ordered callbacks at named points of the agent loop.
//
//	point ──> handler ──> handler ──> …          by priority, then registration
//	            │ each may lay something over the payload, which the next one sees,
//	            │ and decide: deny > ask > allow
//	            └──> Outcome
//
// A [Set] is immutable. A [Handler] is Go code; a [Runner] makes handlers of
// commands, which speak the JSON of Claude Code's hooks.
package hooks

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/exthost/exthost/protocol"
)

// Point names a moment of the agent loop.
type Point string

// The points. The host itself fires those of tools and extensions, and those of
// sessions that its fronts attach; the embedding loop fires the others.
const (
	SessionStart       Point = "session_start"        // a client's stay begins
	SessionEnd         Point = "session_end"          // a client's stay ends
	BeforeMessage      Point = "before_message"       // gate: the user's message, before the model sees it
	AfterMessage       Point = "after_message"        // the loop's turn is over; a denial asks it to go on
	BeforeModelRequest Point = "before_model_request" // gate: what the model is sent
	AfterModelResponse Point = "after_model_response" // what it answered
	ToolsSelect        Point = "tools_select"         // gate: which tools the model is offered; handlers can only take away
	BeforeToolCall     Point = "before_tool_call"     // gate: a tool's arguments
	AfterToolCall      Point = "after_tool_call"      // a tool's result
	ToolCallFailed     Point = "tool_call_failed"     // why there is none
	ExtensionLoad      Point = "extension_load"       // gate: an extension is about to be started; not told to extensions
	ExtensionState     Point = "extension_state"      // an extension entered a state
)

var points = []Point{SessionStart, SessionEnd, BeforeMessage, AfterMessage, BeforeModelRequest, AfterModelResponse,
	ToolsSelect, BeforeToolCall, AfterToolCall, ToolCallFailed, ExtensionLoad, ExtensionState}

// Points returns every point, in the order of an agent loop.
func Points() []Point { return slices.Clone(points) }

// Gate reports whether what happens at the point waits for leave to happen: a
// denial stops it, and so does, unless it says otherwise, a handler of the
// operator's or of Go code that fails.
func (p Point) Gate() bool {
	return strings.HasPrefix(string(p), "before_") || p == ToolsSelect || p == ExtensionLoad
}

// deniable reports whether a denial at the point is an error for whoever fired it:
// at the gates, and where a result can be held back.
func (p Point) deniable() bool { return p.Gate() || p == AfterToolCall }

// Event is what handlers are told.
type Event struct {
	Point     Point
	Session   string          // "" outside sessions
	Caller    string          // authenticated; "" when anonymous
	Extension string          // whose tool it is, or which extension it is about
	Tool      string          // the registered name, at the points of tools
	OwnName   string          // what the extension itself calls that tool
	Call      string          // the same for all points of one tool call
	Payload   json.RawMessage // what handlers may change: arguments before a call, its result after it, else an object of the point's own
	Arguments json.RawMessage // after a call and a failed one: what the tool was called with
	Error     *protocol.Error // tool_call_failed: why
	Took      time.Duration   // after a call: how long it took
}

// Decision is a handler's word on whether something may happen.
type Decision string

// The decisions. Of several the strongest counts: deny, then ask, then allow.
const (
	None  Decision = ""      // says nothing
	Allow Decision = "allow" // has no objection; it overrules nobody
	Ask   Decision = "ask"   // a person is to decide
	Deny  Decision = "deny"
)

// strength orders decisions.
func (d Decision) strength() int { return slices.Index([]Decision{None, Allow, Ask, Deny}, d) }

// Reply is a handler's answer; nil continues.
type Reply struct {
	// Abort keeps the handlers that follow from running. At a gate it denies.
	Abort bool
	// Reason is for people and models, of an abort or a decision.
	Reason string
	// Override is an object whose members are laid over those of the payload; one
	// that is null deletes. What is not named keeps its bytes.
	Override json.RawMessage
	// Replace is a whole new payload, laid down before Override; nil replaces nothing.
	Replace json.RawMessage
	// Decision is taken together with those of the other handlers.
	Decision Decision
	// Context is told the model: beside the tool's result, or by the loop.
	Context string
}

// OnError says what a handler that fails amounts to.
type OnError string

// The values of OnError.
const (
	ByPoint      OnError = ""      // deny at gates for the operator's and Go handlers, else allow
	AllowOnError OnError = "allow" // as if it had not been there
	DenyOnError  OnError = "deny"
)

// DefaultTimeout is how long a handler may take that does not say.
const DefaultTimeout = 15 * time.Second

// Handler is one callback. Lower priorities run first; equal ones in the order of
// registration.
type Handler struct {
	Name     string
	Point    Point
	Priority int
	// Matcher chooses tools by their registered names or as mcp__EXTENSION__TOOL, at
	// the points of extensions their ids, at those of sessions their source or
	// reason; elsewhere it is ignored. "" and "*" choose all; else it is a list of
	// names, a shell pattern or a regular expression.
	Matcher string
	// Timeout ends ctx and the wait. Default: DefaultTimeout.
	Timeout time.Duration
	OnError OnError
	// Extension is whose handler it is; "" is the operator's or Go code.
	Extension string
	// Own restricts the handler to events about its own Extension.
	Own bool
	// Command is what it runs; nil for Go code and for the hooks of extensions that
	// are told of them in their own protocol.
	Command []string
	// Run must not keep or change e. A panic is an error.
	Run func(ctx context.Context, e *Event) (*Reply, error)
}

// resolved is h with its defaults filled in.
func (h Handler) resolved() Handler {
	if h.Timeout <= 0 {
		h.Timeout = DefaultTimeout
	}
	if h.OnError == ByPoint {
		h.OnError = AllowOnError
		if h.Point.Gate() && h.Extension == "" {
			h.OnError = DenyOnError
		}
	}
	return h
}

// Approver asks a person.
type Approver interface {
	// Approve waits for the answer about e, whose payload is what would happen. Nil
	// is yes; an error says why not.
	Approve(ctx context.Context, e *Event, reason string) error
}
