// Package hooks holds ordered callbacks at named points of the agent loop. A
// [Set] is immutable.
package hooks

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"github.com/exthost/exthost/protocol"
)

// Point names a moment of the agent loop.
type Point string

// The points. The host itself fires the tool points; the embedding loop fires
// the others through its host.
const (
	SessionStart       Point = "session_start"
	SessionEnd         Point = "session_end"
	BeforeMessage      Point = "before_message"
	AfterMessage       Point = "after_message"
	BeforeModelRequest Point = "before_model_request"
	AfterModelResponse Point = "after_model_response"
	ToolsSelect        Point = "tools_select"
	BeforeToolCall     Point = "before_tool_call"
	AfterToolCall      Point = "after_tool_call"
	ToolCallFailed     Point = "tool_call_failed"
	ExtensionLoad      Point = "extension_load"
	ExtensionState     Point = "extension_state"
)

// Event is what a handler is told.
type Event struct {
	Point     Point
	Session   string
	Extension string
	Tool      string          // the registered name, at the tool points
	Payload   json.RawMessage // arguments before a call, the result after it
}

// Reply is a handler's answer; nil continues.
type Reply struct {
	Abort  bool
	Reason string
}

// Handler is one callback. Lower priorities run first; equal ones in the order of
// registration.
type Handler struct {
	Name     string
	Point    Point
	Priority int
	Run      func(ctx context.Context, e *Event) (*Reply, error)
}

// Set is an ordered, immutable collection of handlers. Its zero value has none.
type Set struct {
	handlers map[Point][]Handler
}

// NewSet orders the handlers.
func NewSet(handlers ...Handler) *Set {
	s := &Set{handlers: make(map[Point][]Handler)}
	for _, h := range handlers {
		s.handlers[h.Point] = append(s.handlers[h.Point], h)
	}
	for _, hs := range s.handlers {
		slices.SortStableFunc(hs, func(a, b Handler) int { return cmp.Compare(a.Priority, b.Priority) })
	}
	return s
}

// Run calls the handlers of e.Point in order. The first that aborts or fails ends
// it with kind rejected: a gate that cannot answer does not open.
func (s *Set) Run(ctx context.Context, e *Event) error {
	for _, h := range s.handlers[e.Point] {
		reply, err := h.Run(ctx, e)
		switch {
		case err != nil:
			return rejected(e, "hook %s failed: %v", h.Name, err)
		case reply != nil && reply.Abort:
			return rejected(e, "hook %s: %s", h.Name, reply.Reason)
		}
	}
	return nil
}

func rejected(e *Event, format string, args ...any) error {
	err := protocol.Errorf(protocol.Rejected, format, args...)
	err.Extension, err.Tool = e.Extension, e.Tool
	return err
}
