package manifest

import (
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/exthost/exthost/internal/strict"
	"github.com/exthost/exthost/protocol"
)

// validator checks the rules that no type can express. Every check reports and
// goes on.
type validator struct {
	*strict.Report
	root *strict.Node
	m    *Manifest
}

// errorf reports at the deepest part of path that the file has, unless its
// value could not be decoded and that has been said already.
func (v *validator) errorf(path []any, hint, format string, args ...any) {
	if n := v.find(path...); !n.Wrong {
		v.Add(n.Pos, hint, format, args...)
	}
}

// find follows keys (string) and indices (int) from the root as far as they exist.
func (v *validator) find(path ...any) *strict.Node {
	n := v.root
	for _, step := range path {
		var next *strict.Node
		switch step := step.(type) {
		case string:
			next = n.At(step)
		case int:
			if step < len(n.Items) {
				next = n.Items[step]
			}
		}
		if next == nil {
			return n
		}
		n = next
	}
	return n
}

func at(path ...any) []any { return path }

// stated reports whether the file has the key, whatever its value.
func (v *validator) stated(table, key string) bool { return v.root.At(table).At(key) != nil }

func (v *validator) manifest() {
	v.plugin()
	if v.root.At("transport") != nil {
		v.transport()
	} else if len(v.m.MCPServers) == 0 && v.root.At("mcp_servers") == nil && v.root.At("hooks") == nil {
		v.Add(v.root.Pos, `add [transport] with a command, MCP servers or [[hooks]]`, "the manifest starts nothing: it has no [transport]")
	}
	v.capabilities()
	v.requires()
	v.runtime()
	v.config()
	v.tools()
	v.hooks()
	v.servers()
	v.dev()
}

// semver is the grammar of semver.org, without the build's leading v that Go
// would ask for.
var semver = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)` +
	`(?:-(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*)?` +
	`(?:\+[0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*)?$`)

const maxDescription = 512 // characters

func (v *validator) plugin() {
	p := v.m.Plugin
	if err := ValidateID(p.ID); err != nil {
		v.errorf(at("plugin", "id"), "", "plugin.id: %v", err)
	}
	if !semver.MatchString(p.Version) {
		v.errorf(at("plugin", "version"), "", "plugin.version: want a version such as 0.1.0, got %q", p.Version)
	}
	if p.MinAgentVersion != "" && !semver.MatchString(p.MinAgentVersion) {
		v.errorf(at("plugin", "min_agent_version"), "", "plugin.min_agent_version: want one version such as 1.2.0, got %q", p.MinAgentVersion)
	}
	if n := utf8.RuneCountInString(p.Description); n > maxDescription {
		v.errorf(at("plugin", "description"), "", "plugin.description has %d characters; at most %d", n, maxDescription)
	}
}

var toolName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`)

func (v *validator) capabilities() {
	c := v.m.Capabilities
	if c == nil {
		if v.m.Transport.Protocol == ProtocolNative && v.root.At("capabilities") == nil {
			v.errorf(at("plugin"), `add [capabilities] with tools = ["…"] or hooks = ["…"]`, "a native extension says what it offers: [capabilities] is missing")
		}
		return
	}
	lists := []struct {
		key   string
		names []string
	}{{"tools", c.Tools}, {"hooks", c.Hooks}, {"channels", c.Channels}, {"providers", c.Providers}, {"pollers", c.Pollers}}
	total := 0
	for i, l := range lists {
		total += len(l.names)
		v.names(at("capabilities", l.key), l.key, l.names)
		if i >= 2 && len(l.names) > 0 {
			v.Diagnose(protocol.LevelInfo, CodeUnsupported, v.find("capabilities", l.key).Pos, "", "capabilities.%s has no effect: not supported", l.key)
		}
	}
	for i, name := range c.Hooks {
		if e, ok := ParseHookEvent(name); ok && e != ExtensionLoad {
			c.Hooks[i] = string(e)
		} else {
			v.errorf(at("capabilities", "hooks", i), strict.DidYouMean(name, eventNames()), "%q is not a hook point of extensions", name)
		}
	}
	if total == 0 && v.m.Transport.Protocol == ProtocolNative && !v.find("capabilities").Wrong {
		v.errorf(at("capabilities"), `name a tool or a hook`, "a native extension says what it offers: [capabilities] is empty")
	}
}

// names checks a list of tool-like names and their uniqueness.
func (v *validator) names(path []any, what string, names []string) {
	for i, name := range names {
		p := append(slices.Clone(path), i)
		switch {
		case !toolName.MatchString(name):
			v.errorf(p, "", "%q is not a name for %s: 1 to 128 of A-Z, a-z, 0-9, _ . and -", name, what)
		case slices.Contains(names[:i], name):
			v.errorf(p, "", "%q is listed twice", name)
		}
	}
}

// runtime also takes back what only the operator may grant.
func (v *validator) runtime() {
	r := &v.m.Runtime
	for _, p := range r.Validate() {
		v.problem(at("runtime"), p)
	}
	v.operatorsOwn("replay", &r.Replay, ReplayIdempotent)
	v.operatorsOwn("isolate", &r.Isolate, IsolateNone)
	if n := r.MaxInFlight; v.m.Transport.Protocol == ProtocolLite && n != nil && *n > 1 {
		v.errorf(at("runtime", "max_in_flight"), "", "protocol lite has one call in flight, not %d", *n)
	}
}

// operatorsOwn takes a value back that the author of a manifest must not choose.
func (v *validator) operatorsOwn(key string, stated *string, value string) {
	if *stated != value {
		return
	}
	v.Diagnose(protocol.LevelWarn, CodeUnsupported, v.find("runtime", key).Pos,
		"the operator may state it, in extensions.entries."+v.m.Plugin.ID+".runtime",
		"runtime.%s = %q has no effect in a manifest: that is for the operator to decide", key, value)
	*stated = ""
}

// problem reports p, found in the table at path.
func (v *validator) problem(path []any, p Problem) {
	if p.Field != "" {
		for key := range strings.SplitSeq(p.Field, ".") {
			path = append(path, key)
		}
	}
	var where strings.Builder
	for _, step := range path {
		switch step := step.(type) {
		case int:
			fmt.Fprintf(&where, "[%d]", step)
		case string:
			if where.Len() > 0 {
				where.WriteByte('.')
			}
			where.WriteString(step)
		}
	}
	v.errorf(path, p.Hint, "%s: %s", &where, p.Message)
}

func (v *validator) tools() {
	t := v.m.Transport
	declares := t.Kind == KindExec || t.Protocol == ProtocolLite
	tools := v.m.Tools
	if len(tools) > 0 && !declares {
		v.errorf(at("tools"), "", "[[tools]] is for kind exec and protocol lite; others offer their tools in the handshake")
	}
	if len(tools) == 0 && declares && v.root.At("tools") == nil {
		v.errorf(at("transport"), "add [[tools]] with a name", "an extension without a handshake declares its tools: [[tools]] is missing")
	}
	names := make([]string, 0, len(tools))
	for i, tool := range tools {
		switch {
		case !toolName.MatchString(tool.Name):
			v.errorf(at("tools", i, "name"), "", "tools[%d].name: want 1 to 128 of A-Z, a-z, 0-9, _ . and -, got %q", i, tool.Name)
		case slices.Contains(names, tool.Name):
			v.errorf(at("tools", i, "name"), "", "the tool %q is declared twice", tool.Name)
		}
		names = append(names, tool.Name)
		if len(tool.Command) > 0 && t.Kind != KindExec {
			v.errorf(at("tools", i, "command"), "", "a tool's command is for kind exec")
		}
		if tool.Command != nil && (len(tool.Command) == 0 || badProgram(tool.Command[0]) != "") {
			v.errorf(at("tools", i, "command"), "", "tools[%d].command names no program", i)
		}
		v.placeholders(i, tool)
		if tool.Method != "" && t.Protocol != ProtocolLite {
			v.errorf(at("tools", i, "method"), "", "a tool's method is for protocol lite")
		}
	}
}

func (v *validator) hooks() {
	for i := range v.m.Hooks {
		h := &v.m.Hooks[i]
		for _, p := range h.Validate() {
			v.problem(at("hooks", i), p)
		}
		e, _ := ParseHookEvent(h.Event)
		if e == ExtensionLoad {
			v.errorf(at("hooks", i, "event"), "", "extension_load is decided by the operator's hooks, not by extensions")
		}
		if e != "" {
			h.Event = string(e)
		}
	}
}

func (v *validator) servers() {
	if v.root.At("mcp_servers") == nil {
		return // those of a sidecar have been checked
	}
	var ids []string
	for _, name := range slices.Sorted(maps.Keys(v.m.MCPServers)) {
		s, _ := v.m.MCPServers[name].Complete()
		v.m.MCPServers[name] = s
		path := at("mcp_servers", name)
		switch id := ServerID("", name); {
		case id == "":
			v.errorf(path, "", "%q is not a server's name: 1 to %d characters", name, MaxIDLength)
		case slices.Contains(ids, id):
			v.errorf(path, "rename one of them", "there is a server named like %q already", name)
		default:
			ids = append(ids, id)
		}
		if anyWrong(v.find(path...)) {
			continue
		}
		for _, p := range s.Validate() {
			v.problem(path, p)
		}
	}
}

// anyWrong reports whether n or anything below it could not be decoded.
func anyWrong(n *strict.Node) bool {
	return n.Wrong || slices.ContainsFunc(n.Items, anyWrong) ||
		slices.ContainsFunc(n.Fields, func(f strict.Field) bool { return anyWrong(f.Value) })
}

// dev wants globs that can match: below the extension's directory.
func (v *validator) dev() {
	for i, glob := range v.m.Dev.Watch {
		if _, err := path.Match(glob, ""); err != nil {
			v.errorf(at("dev", "watch", i), `such as "*.py" or "src/**/*.ts"`, "dev.watch: %q is not a glob", glob)
		} else if !filepath.IsLocal(filepath.FromSlash(glob)) {
			v.errorf(at("dev", "watch", i), `such as "*.py" or "src/**/*.ts"`, "dev.watch: %q is not below the extension's directory", glob)
		}
	}
}
