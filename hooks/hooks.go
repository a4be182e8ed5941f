// Package hooks runs ordered callbacks at named points of the agent loop.
//
//	point ──> handler ──> handler ──> …          by priority, then registration
//	            │ each may change the payload for the next
//	            │ and decide: deny > ask > allow
//	            └──> Outcome
//
// A [Set] is immutable. A [Handler] is Go code; a [Runner] makes handlers of commands,
// which use the JSON of Claude Code's hooks.
package hooks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/exthost/exthost/protocol"
)

// Point names a moment of the agent loop.
type Point string

// The points. The host fires those of tools, extensions, and sessions of its servers; the
// embedding loop fires the others.
const (
	SessionStart       Point = "session_start"        // a client's session begins
	SessionEnd         Point = "session_end"          // a client's session ends
	BeforeMessage      Point = "before_message"       // gate: the user's message, before the model gets it
	AfterMessage       Point = "after_message"        // the loop's turn has ended; a denial asks it to continue
	BeforeModelRequest Point = "before_model_request" // gate: the request to the model
	AfterModelResponse Point = "after_model_response" // the model's answer
	// gate: the tools offered to the model; handlers can only remove some
	ToolsSelect    Point = "tools_select"
	BeforeToolCall Point = "before_tool_call" // gate: a tool's arguments
	AfterToolCall  Point = "after_tool_call"  // a tool's result
	ToolCallFailed Point = "tool_call_failed" // the error of a tool call
	ExtensionLoad  Point = "extension_load"   // gate: an extension is about to start; not sent to extensions
	ExtensionState Point = "extension_state"  // an extension changed its state
)

var points = []Point{SessionStart, SessionEnd, BeforeMessage, AfterMessage, BeforeModelRequest, AfterModelResponse,
	ToolsSelect, BeforeToolCall, AfterToolCall, ToolCallFailed, ExtensionLoad, ExtensionState}

// Points returns every point, in the order of an agent loop.
func Points() []Point { return slices.Clone(points) }

// Gate reports whether a denial at the point stops the action. At a gate, a failing handler
// of the operator or of Go code also denies, unless its OnError says otherwise.
func (p Point) Gate() bool {
	return strings.HasPrefix(string(p), "before_") || p == ToolsSelect || p == ExtensionLoad
}

// deniable reports whether a denial at the point is an error for the caller of Run: at
// gates, and where a result can be withheld.
func (p Point) deniable() bool { return p.Gate() || p == AfterToolCall }

// Event is the input of handlers.
type Event struct {
	Point     Point
	Session   string // "" outside sessions
	Caller    string // authenticated; "" when anonymous
	Node      string // the cluster node of the caller; "" for this host
	Extension string // the tool's extension, or the one the event is about
	Tool      string // the registered name; only at the points of tools
	OwnName   string // the extension's own name of the tool
	Call      string // an id common to all events of one tool call
	// the part that handlers may change: the arguments before a call, the result after it, at other points an object
	// that depends on the point
	Payload   json.RawMessage
	Arguments json.RawMessage // after_tool_call and tool_call_failed: the arguments of the call
	Error     *protocol.Error // tool_call_failed only
	Took      time.Duration   // duration of the call; after_tool_call only
}

// Decision is a handler's decision about the action.
type Decision string

// The decisions. The strongest of several counts: deny, then ask, then allow.
const (
	None  Decision = ""      // no decision
	Allow Decision = "allow" // no objection; does not overrule other handlers
	Ask   Decision = "ask"   // ask a person
	Deny  Decision = "deny"
)

// strength returns the rank of a decision, -1 for an invalid one.
func (d Decision) strength() int { return slices.Index([]Decision{None, Allow, Ask, Deny}, d) }

// Reply is the answer of a handler; nil means no change and no decision.
type Reply struct {
	// Abort skips the handlers that follow. At a gate it denies.
	Abort bool
	// Reason explains an abort or a decision to people and models.
	Reason string
	// Override is an object whose members replace those of the payload; null deletes a
	// member. All other members keep their bytes.
	Override json.RawMessage
	// Replace is a new payload, applied before Override. nil replaces nothing.
	Replace json.RawMessage
	// Decision is combined with those of the other handlers.
	Decision Decision
	// Asking is for Ask. The most cautious of several counts.
	Asking protocol.Asking
	// Context is text for the model. The host adds it to a tool's result; at other points the embedding loop is to add
	// it.
	Context string
}

// OnError is the decision of a handler that fails.
type OnError string

// The values of OnError.
const (
	ByPoint      OnError = ""      // deny at gates for handlers of the operator and Go code, else allow
	AllowOnError OnError = "allow" // ignore the failure
	DenyOnError  OnError = "deny"
)

// DefaultTimeout is the timeout of a handler whose Timeout is 0.
const DefaultTimeout = 15 * time.Second

// Handler is one callback. Handlers run in order of priority, lowest first, then of
// registration.
type Handler struct {
	Name     string
	Point    Point
	Priority int
	// Matcher selects events: at the points of tools by registered name or
	// mcp__EXTENSION__TOOL, in a hook of an extension also by the names that Claude Code, Gemini
	// CLI and Cursor give tools of plugins; at those of extensions by id, at those of sessions by
	// source or reason. It is ignored elsewhere. "" and "*" select all; any other value is a list of
	// names, a shell pattern or a regular expression.
	Matcher string
	// Timeout bounds Run, and is the deadline of its ctx. Default: DefaultTimeout.
	Timeout time.Duration
	OnError OnError
	// Extension is the owner of the handler; "" is the operator or Go code.
	Extension string
	// Own restricts the handler to events about its own Extension and about Servers, the MCP servers of its manifest.
	Own     bool
	Servers []string
	// Command is the command line that Run executes; nil for Go code and for extensions
	// that handle the event in their own protocol.
	Command []string
	// Run handles e. It must not change e, nor use e after it returns. A panic is an error.
	Run func(ctx context.Context, e *Event) (*Reply, error)
}

// Check returns why a handler cannot run, nil if it can.
func (h *Handler) Check() error {
	switch {
	case h.Run == nil:
		return errors.New("it has no Run, which would handle the event")
	case !slices.Contains(points, h.Point):
		return fmt.Errorf("%q is not a hook point", h.Point)
	case !slices.Contains([]OnError{ByPoint, AllowOnError, DenyOnError}, h.OnError):
		return fmt.Errorf("OnError %q is neither %q nor %q", h.OnError, AllowOnError, DenyOnError)
	}
	if err := CheckMatcher(h.Matcher); err != nil {
		return fmt.Errorf("matcher: %w", err)
	}
	return nil
}

func (h Handler) withDefaults() Handler {
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
	// Approve waits for a person's decision about e, which has the payload after all handlers; o says who asks, why and
	// how. Nil approves; an error is the reason for the denial.
	Approve(ctx context.Context, e *Event, o Outcome) error
}
