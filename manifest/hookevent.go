package manifest

import (
	"maps"
	"slices"
	"strings"
)

// HookEvent is a point of the agent loop where hooks run, in snake_case.
type HookEvent string

// The hook points.
const (
	SessionStart       HookEvent = "session_start"
	SessionEnd         HookEvent = "session_end"
	BeforeMessage      HookEvent = "before_message"
	AfterMessage       HookEvent = "after_message"
	BeforeModelRequest HookEvent = "before_model_request"
	AfterModelResponse HookEvent = "after_model_response"
	ToolsSelect        HookEvent = "tools_select"
	BeforeToolCall     HookEvent = "before_tool_call"
	AfterToolCall      HookEvent = "after_tool_call"
	ToolCallFailed     HookEvent = "tool_call_failed"
	ExtensionLoad      HookEvent = "extension_load" // never sent to extensions
	ExtensionState     HookEvent = "extension_state"
)

var hookEvents = []HookEvent{SessionStart, SessionEnd, BeforeMessage, AfterMessage, BeforeModelRequest,
	AfterModelResponse, ToolsSelect, BeforeToolCall, AfterToolCall, ToolCallFailed, ExtensionLoad, ExtensionState}

// aliases are Claude Code's names that differ from ours in PascalCase.
var aliases = map[string]HookEvent{
	"PreToolUse":         BeforeToolCall,
	"PostToolUse":        AfterToolCall,
	"PostToolUseFailure": ToolCallFailed,
	"UserPromptSubmit":   BeforeMessage,
	"Stop":               AfterMessage,
	"Notification":       ExtensionState,
	"ConfigChange":       ExtensionLoad,
}

// HookEvents returns all hook points, in the order of an agent loop.
func HookEvents() []HookEvent { return slices.Clone(hookEvents) }

// ParseHookEvent reads a name in snake_case, in PascalCase or as Claude Code spells it.
func ParseHookEvent(name string) (HookEvent, bool) {
	if e, ok := aliases[name]; ok {
		return e, true
	}
	for _, e := range hookEvents {
		if name == string(e) || name == e.Pascal() {
			return e, true
		}
	}
	return "", false
}

// Pascal returns the name in PascalCase.
func (e HookEvent) Pascal() string {
	var b strings.Builder
	for part := range strings.SplitSeq(string(e), "_") {
		b.WriteString(strings.ToUpper(part[:1]) + part[1:])
	}
	return b.String()
}

// eventNames returns all names that [ParseHookEvent] accepts.
func eventNames() (names []string) {
	for _, e := range hookEvents {
		names = append(names, string(e), e.Pascal())
	}
	return append(names, slices.Sorted(maps.Keys(aliases))...)
}
