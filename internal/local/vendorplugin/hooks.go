package vendorplugin

import (
	"encoding/json"
	"strings"

	"github.com/exthost/exthost/internal/local/hookimport"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/manifest"
)

const hooksFile = "hooks/hooks.json"

// hooks reads the hooks of a plugin.
func (r *reader) hooks(f *format) {
	read := map[string]bool{}
	for _, l := range r.hookListings(f) {
		if l.path != "" && read[l.path] {
			continue
		}
		read[l.path] = true
		data := l.data
		if !rawjson.IsObject(rawjson.Get(data, "hooks")) {
			data = rawjson.Set(json.RawMessage("{}"), "hooks", data)
		}
		switch f.name {
		case Gemini:
			data = geminiHooks(data)
		case Cursor:
			data = r.cursorHooks(l.where, data)
		}
		result, err := hookimport.Read(data, hookimport.Options{Plugin: true})
		if err != nil {
			r.note(l.where, true, "%v", err)
			continue
		}
		for _, n := range result.Notes {
			r.note(l.where+": "+n.Where, n.Dropped, "%s", n.Message)
		}
		for _, h := range result.Hooks {
			r.plugin.Hooks = append(r.plugin.Hooks, r.hook(f, h))
		}
	}
	if (f.name == Gemini || f.name == Cursor) && len(r.plugin.Hooks) > 0 {
		r.note("hooks", false, "hooks are told the events under Claude Code's names, and tool_input as an object; "+
			"they answer as %s has them answer", f.name)
	}
}

// The variables of a hook's command.
const (
	hookRoot = "${CLAUDE_PLUGIN_ROOT}"
	hookData = "${CLAUDE_PLUGIN_DATA}"
)

// hook replaces the placeholders of the program in the command of a hook.
func (r *reader) hook(f *format, h manifest.HookSpec) manifest.HookSpec {
	for i, word := range h.Command {
		switch f.name {
		case Claude:
			h.Command[i] = r.options(word)
		case Codex:
			h.Command[i] = strings.NewReplacer("${PLUGIN_ROOT}", hookRoot, "${PLUGIN_DATA}", hookData).Replace(word)
		case Gemini:
			h.Command[i] = strings.NewReplacer("${extensionPath}", hookRoot, "${/}", "/", "${pathSeparator}", "/",
				"${workspacePath}", "${CLAUDE_PROJECT_DIR}").Replace(word)
		case Cursor:
			h.Command[i] = strings.NewReplacer("${CURSOR_PLUGIN_ROOT}", hookRoot, "${CURSOR_PROJECT_DIR}",
				"${CLAUDE_PROJECT_DIR}").Replace(word)
		}
	}
	switch f.name {
	case Codex:
		h.Command = append(manifest.Command{"env", "PLUGIN_ROOT=" + hookRoot, "PLUGIN_DATA=" + hookData}, h.Command...)
	case Cursor:
		h.Command = append(manifest.Command{"env", "CURSOR_PLUGIN_ROOT=" + hookRoot,
			"CURSOR_PROJECT_DIR=${CLAUDE_PROJECT_DIR}"}, h.Command...)
	}
	return h
}

// geminiEvents are Claude Code's names of Gemini CLI's events.
var geminiEvents = map[string]string{
	"BeforeTool":  "PreToolUse",
	"AfterTool":   "PostToolUse",
	"BeforeAgent": "UserPromptSubmit",
	"AfterAgent":  "Stop",
}

// defaultTimeout is that of hooks of Gemini CLI and Cursor that state none, in seconds.
const defaultTimeout = 60

// geminiHooks rewrites Gemini CLI's hooks as Claude Code's: other names of events, and timeouts in seconds.
func geminiHooks(data json.RawMessage) json.RawMessage {
	var file struct {
		Hooks map[string][]map[string]any `json:"hooks"`
	}
	if json.Unmarshal(data, &file) != nil {
		return data // hookimport says what is wrong
	}
	hooks := map[string][]map[string]any{}
	for event, groups := range file.Hooks {
		for _, group := range groups {
			delete(group, "sequential")
			list, _ := group["hooks"].([]any)
			for _, one := range list {
				hook, isHook := one.(map[string]any)
				if ms, ok := hook["timeout"].(float64); ok {
					hook["timeout"] = ms / 1000
				} else if isHook && hook["timeout"] == nil {
					hook["timeout"] = defaultTimeout
				}
				delete(hook, "name")
				delete(hook, "description")
			}
		}
		if name, ok := geminiEvents[event]; ok {
			event = name
		}
		hooks[event] = append(hooks[event], groups...)
	}
	out, err := json.Marshal(map[string]any{"hooks": hooks})
	if err != nil {
		return data
	}
	return out
}

// hookListings returns the hooks that the manifest states, and those of the usual file.
func (r *reader) hookListings(f *format) []listing {
	found := r.listings("hooks")
	if _, stated := r.fields["hooks"]; (f.both || !stated) && r.exists(hooksFile) {
		if one, ok := r.listing(hooksFile); ok {
			found = append(found, one)
		}
	}
	return found
}
