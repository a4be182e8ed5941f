package vendorplugin

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// cursorEvents are Claude Code's names of Cursor's events. Here every tool is one of MCP.
var cursorEvents = map[string]string{
	"preToolUse":         "PreToolUse",
	"postToolUse":        "PostToolUse",
	"postToolUseFailure": "PostToolUseFailure",
	"beforeMCPExecution": "PreToolUse",
	"afterMCPExecution":  "PostToolUse",
	"beforeSubmitPrompt": "UserPromptSubmit",
	"sessionStart":       "SessionStart",
	"sessionEnd":         "SessionEnd",
}

// cursorOwn are events about what Cursor does itself, without a tool of MCP.
var cursorOwn = []string{"beforeShellExecution", "afterShellExecution", "beforeReadFile", "afterFileEdit",
	"beforeTabFileRead", "afterTabFileEdit"}

// cursorTools are tools of Cursor's own, which matchers name.
var cursorTools = []string{"Shell", "Read", "Write", "Edit", "StrReplace", "Grep", "Glob", "Delete", "Task", "WebFetch",
	"WebSearch"}

// cursorHooks rewrites Cursor's hooks as Claude Code's, and names events that have no counterpart. where is the file.
func (r *reader) cursorHooks(where string, data json.RawMessage) json.RawMessage {
	var file struct {
		Hooks map[string][]map[string]any `json:"hooks"`
	}
	if json.Unmarshal(data, &file) != nil {
		return data // hookimport says what is wrong
	}
	groups := map[string][]map[string]any{}
	for _, event := range slices.Sorted(maps.Keys(file.Hooks)) {
		name, known := cursorEvents[event]
		switch {
		case slices.Contains(cursorOwn, event):
			r.note(where+": "+event, true, "has no counterpart: it is about what Cursor does without a tool of MCP")
			continue
		case !known:
			r.note(where+": "+event, true, "has no counterpart")
			continue
		}
		for _, hook := range file.Hooks[event] {
			matcher, _ := hook["matcher"].(string)
			chosen, ok := cursorMatcher(matcher, strings.Contains(event, "MCP"))
			if !ok {
				r.note(where+": "+event, true, "matcher %q chooses tools of Cursor's own", matcher)
				continue
			}
			groups[name] = append(groups[name], map[string]any{"matcher": chosen, "hooks": []any{cursorHook(hook)}})
		}
	}
	out, err := json.Marshal(map[string]any{"hooks": groups})
	if err != nil {
		return data
	}
	return out
}

// cursorHook rewrites one hook of Cursor as one of Claude Code.
func cursorHook(hook map[string]any) map[string]any {
	hook = maps.Clone(hook)
	if closed, _ := hook["failClosed"].(bool); closed {
		hook["onFailure"] = "block"
	}
	if hook["timeout"] == nil {
		hook["timeout"] = defaultTimeout
	}
	for _, key := range []string{"matcher", "failClosed", "loop_limit"} {
		delete(hook, key)
	}
	return hook
}

// cursorMatcher returns the matcher of a hook of Cursor, where every tool is one of MCP, which MCP:NAME names and MCP
// names all of. mcp means that the event knows no others. ok is false if it chooses tools of Cursor's own alone.
func cursorMatcher(matcher string, mcp bool) (chosen string, ok bool) {
	words := strings.Split(matcher, "|")
	switch {
	case matcher == "" || slices.Contains(words, "MCP"):
		return "", true
	case !mcp:
		words = slices.DeleteFunc(words, func(word string) bool { return slices.Contains(cursorTools, word) })
		return strings.Join(words, "|"), len(words) > 0
	case strings.Contains(matcher, "MCP:") || strings.ContainsAny(matcher, "*.()[]^$"):
		return matcher, true
	}
	return "MCP:" + strings.Join(words, "|MCP:"), true
}
