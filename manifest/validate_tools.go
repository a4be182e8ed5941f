package manifest

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/text"
	"github.com/exthost/exthost/internal/text/strict"
	"github.com/exthost/exthost/protocol"
)

func (v *validator) tools() {
	t := v.m.Transport
	declares := t.Kind == KindExec || t.Protocol == ProtocolLite
	tools := v.m.Tools
	if len(tools) > 0 && !declares {
		v.errorf("tools", "", "[[tools]] is for kind exec and protocol lite; others offer their tools in the handshake")
	}
	if len(tools) == 0 && declares && !v.stated("tools") {
		v.errorf("transport", "add [[tools]] with a name",
			"an extension without a handshake declares its tools: [[tools]] is missing")
	}
	names := make([]string, 0, len(tools))
	for i, tool := range tools {
		path := strict.Index("tools", i)
		switch {
		case !isToolName(tool.Name):
			v.errorf(path+".name", "", "%s.name: want 1 to 128 of A-Z, a-z, 0-9, _ . and -, got %q", path, tool.Name)
		case slices.Contains(names, tool.Name):
			v.errorf(path+".name", "", "the tool %q is declared twice", tool.Name)
		}
		names = append(names, tool.Name)
		v.toolCall(path, tool)
	}
}

// toolCall checks what a call of a tool runs.
func (v *validator) toolCall(path string, tool ToolSpec) {
	if len(tool.Command) > 0 && v.m.Transport.Kind != KindExec {
		v.errorf(path+".command", "", "a tool's command is for kind exec")
	}
	if tool.Command != nil && (len(tool.Command) == 0 || badProgram(tool.Command[0], false) != "") {
		v.errorf(path+".command", "", "%s.command names no program", path)
	}
	v.placeholders(path+".command", tool)
	if tool.Method != "" && v.m.Transport.Protocol != ProtocolLite {
		v.errorf(path+".method", "", "a tool's method is for protocol lite")
	}
}

// risk checks [risk]. Names are compared with the declared tools, if the manifest declares them.
func (v *validator) risk() {
	if len(v.m.Risk) > 0 && !v.stated("transport") {
		v.errorf("risk", "", "[risk] is about the tools of the extension, and it has no [transport]")
		return
	}
	known := protocol.Risk("").Values()
	declared := make([]string, len(v.m.Tools))
	for i, tool := range v.m.Tools {
		declared[i] = tool.Name
	}
	for _, name := range slices.Sorted(maps.Keys(v.m.Risk)) {
		path, risk := "risk."+name, string(v.m.Risk[name])
		if !slices.Contains(known, risk) {
			v.errorf(path, cmp.Or(strict.DidYouMean(risk, known), "one of "+strings.Join(known, ", ")),
				"%s: %q is no risk", path, risk)
		}
		if len(declared) > 0 && !slices.Contains(declared, name) {
			v.errorf(path, strict.DidYouMean(name, declared), "%s: there is no tool %q in [[tools]]", path, name)
		}
	}
}

func (v *validator) hooks() {
	for i := range v.m.Hooks {
		h, path := &v.m.Hooks[i], strict.Index("hooks", i)
		for _, p := range h.Validate() {
			v.problem(path, p)
		}
		e, _ := ParseHookEvent(h.Event)
		if e == ExtensionLoad {
			v.errorf(path+".event", "", "extension_load is decided by the operator's hooks, not by extensions")
		}
		if e != "" {
			h.Event = string(e)
		}
	}
}

var placeholder = regexp.MustCompile(`\{([A-Za-z_][A-Za-z0-9_.-]*)\}`)

// placeholders checks that each {placeholder} of a tool's command line is a property of its schema; otherwise the
// program would get the literal text.
func (v *validator) placeholders(path string, tool ToolSpec) {
	properties, _ := tool.InputSchema["properties"].(map[string]any)
	known := slices.Sorted(maps.Keys(properties))
	for _, word := range tool.Command[min(1, len(tool.Command)):] {
		for _, m := range placeholder.FindAllStringSubmatch(word, -1) {
			whole, is := m[0] == word, slices.Contains(known, m[1])
			switch {
			case whole && !is && len(known) > 0:
				hint := "add the property, or take the word out"
				if near := text.Nearest(m[1], known); near != "" {
					hint = "did you mean {" + near + "}?"
				}
				v.errorf(path, hint, "%s: %s is no property of input_schema", path, word)
			case !whole && is:
				v.Diagnose(protocol.LevelWarn, CodeInvalid, v.at(path), "make it a word of its own",
					"%s: %s inside %q is not replaced", path, m[0], word)
			}
		}
	}
}
