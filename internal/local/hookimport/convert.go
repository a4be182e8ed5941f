package hookimport

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/text"
	"github.com/exthost/exthost/internal/text/glob"
	"github.com/exthost/exthost/manifest"
)

// noCounterpart gives, for each event of Claude Code that the host lacks or that means something else here, the
// reason for not importing it.
var noCounterpart = map[string]string{
	"Notification": "it tells of prompts and idleness there, of the states of extensions here: state " +
		"extension_state if that is wanted",
	"ConfigChange": "it tells of settings there, of extensions about to start here: state extension_load if " +
		"that is wanted",
	"PermissionRequest":  "approval requests go to the host's approver: let before_tool_call decide ask, allow or deny",
	"PreCompact":         "the loop that compacts is not the host's",
	"PostCompact":        "the loop that compacts is not the host's",
	"SubagentStart":      "the host knows of no subagents",
	"SubagentStop":       "the host knows of no subagents",
	"StopFailure":        "the loop's errors are not the host's",
	"Setup":              "there is no such moment",
	"InstructionsLoaded": "there is no such moment",
	"PermissionDenied":   "policies and hooks that deny say so themselves",
	"PostToolBatch":      "calls are not batched",
}

// eventOf returns the event with this name, or the reason why there is none.
func eventOf(name string) (manifest.HookEvent, string) {
	if reason, ok := noCounterpart[name]; ok {
		return "", "has no counterpart: " + reason
	}
	if event, ok := manifest.ParseHookEvent(name); ok {
		return event, ""
	}
	names := []string{
		"PreToolUse",
		"PostToolUse",
		"PostToolUseFailure",
		"UserPromptSubmit",
		"Stop",
		"SessionStart",
		"SessionEnd",
	}
	if near := text.Nearest(name, names); near != "" {
		return "", fmt.Sprintf("has no counterpart; did it mean %s?", near)
	}
	return "", "has no counterpart"
}

// unsupported returns why a hook cannot be imported, or "".
func (h *hook) unsupported(o Options) string {
	switch {
	case h.Type != "" && h.Type != "command":
		return fmt.Sprintf("is of type %s: only commands run here", h.Type)
	case strings.TrimSpace(h.Command) == "":
		return "has no command"
	case slices.ContainsFunc(append(h.Args, h.Command), func(s string) bool { return strings.ContainsRune(s, 0) }):
		return "has a NUL character in its command"
	case h.If != "":
		return fmt.Sprintf("runs only if %s, which a matcher cannot say: let the command look at tool_input", h.If)
	case h.Async || h.Rewake:
		return "runs in the background, where it could decide nothing: here every hook is waited for"
	case h.Shell != "" && h.Shell != "bash" && h.Shell != "sh":
		return fmt.Sprintf("is a line for %s", h.Shell)
	case !o.Plugin && slices.ContainsFunc(append(h.Args, h.Command), pluginRoot.MatchString):
		return "needs CLAUDE_PLUGIN_ROOT, which only the hooks of an extension have: write the plugin's directory in " +
			"its place"
	}
	return ""
}

var pluginRoot = regexp.MustCompile(`\bCLAUDE_PLUGIN_ROOT\b`)

// builtin are Claude Code's built-in tools.
var builtin = []string{"Agent", "AskUserQuestion", "Bash", "BashOutput", "Edit", "ExitPlanMode", "Glob", "Grep",
	"KillShell", "LS",
	"MultiEdit", "NotebookEdit", "NotebookRead", "Read", "Skill", "Task", "TodoWrite", "WebFetch", "WebSearch", "Write"}

// matcher converts the matcher of a hook. It returns false, and adds a note, if the hook has to be dropped.
func (r *Result) matcher(where string, event manifest.HookEvent, matcher *string) (string, bool) {
	if matcher == nil || *matcher == "" || *matcher == "*" {
		return "", true
	}
	pattern, err := glob.ParseMatcher(*matcher)
	switch event {
	case manifest.BeforeToolCall, manifest.AfterToolCall, manifest.ToolCallFailed:
	case manifest.SessionStart, manifest.SessionEnd:
		if err == nil {
			return *matcher, true
		}
	default:
		return "", true // for these events, Claude Code ignores the matcher too
	}
	if err != nil {
		r.addNote(where, true, "matcher %q is no regular expression of RE2: %v", *matcher, err)
		return "", false
	}
	if builtinOnly(*matcher, pattern) {
		r.addNote(where, false,
			"matcher %q chooses tools of Claude Code's own; tools are called ext_EXTENSION_TOOL here, and "+
				"mcp__EXTENSION__TOOL also chooses them", *matcher)
	}
	return *matcher, true
}

// builtinOnly reports whether a pattern matches built-in tools only.
func builtinOnly(text string, p glob.Matcher) bool {
	return !strings.Contains(text, "mcp__") && !strings.Contains(text, "ext_") &&
		slices.ContainsFunc(builtin, func(name string) bool { return p.Match(name) }) &&
		!p.Match("ext_any_tool", "mcp__any__tool")
}
