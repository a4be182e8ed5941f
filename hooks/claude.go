package hooks

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
)

// claudeNames are the names of points in Claude Code.
var claudeNames = map[Point]string{
	BeforeToolCall: "PreToolUse",
	AfterToolCall:  "PostToolUse",
	ToolCallFailed: "PostToolUseFailure",
	BeforeMessage:  "UserPromptSubmit",
	AfterMessage:   "Stop",
	ExtensionState: "Notification",
	ExtensionLoad:  "ConfigChange",
}

// CommandName returns the name of the point for commands: Claude Code's name, or else the
// point in PascalCase.
func (p Point) CommandName() string {
	if name, ok := claudeNames[p]; ok {
		return name
	}
	var b strings.Builder
	for part := range strings.SplitSeq(string(p), "_") {
		b.WriteString(strings.ToUpper(part[:1]) + part[1:])
	}
	return b.String()
}

// commandInput returns the JSON for a command: the common members, and the members of the payload. At the points of
// tools the payload itself is one of the members.
func (e *Event) commandInput(cwd string) json.RawMessage {
	base := json.RawMessage("{}")
	m := map[string]json.RawMessage{
		"session_id":      rawjson.Quote(e.Session),
		"transcript_path": rawjson.Quote(""),
		"cwd":             rawjson.Quote(cwd),
		"permission_mode": rawjson.Quote("default"),
		"hook_event_name": rawjson.Quote(e.Point.CommandName()),
		"extension_id":    rawjson.Quote(e.Extension),
		"caller":          rawjson.Quote(e.Caller),
	}
	switch e.Point {
	case BeforeToolCall, AfterToolCall, ToolCallFailed:
		m["tool_name"], m["tool_use_id"] = rawjson.Quote(e.Tool), rawjson.Quote(e.Call)
	default:
		if rawjson.IsObject(e.Payload) {
			base = e.Payload
		}
	}
	switch e.Point {
	case BeforeToolCall:
		m["tool_input"] = e.Payload
	case AfterToolCall:
		m["tool_input"], m["tool_response"] = e.Arguments, e.Payload
		m["duration_ms"] = strconv.AppendInt(nil, e.Took.Milliseconds(), 10)
	case ToolCallFailed:
		m["tool_input"] = e.Arguments
		m["error"], m["error_kind"], m["is_interrupt"] = failure(e.Error)
	}
	return append(rawjson.Edit(base, m), '\n')
}

func failure(err *protocol.Error) (message, kind, interrupt json.RawMessage) {
	if err == nil {
		return rawjson.Quote(""), rawjson.Quote(""), json.RawMessage("false")
	}
	return rawjson.Quote(err.Message), rawjson.Quote(string(err.Kind)), strconv.AppendBool(nil,
		err.Kind == protocol.Canceled)
}
