package manifest

import (
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/exthost/exthost/internal/text/strict"
	"github.com/exthost/exthost/protocol"
)

// validator checks the rules that types cannot express. Each check reports its errors and continues.
type validator struct {
	*strict.Report
	places strict.Positions
	m      *Manifest
}

// at returns the position of the deepest part of path that the file states.
func (v *validator) at(path string) strict.Pos {
	pos, _ := v.places.At(path)
	return pos
}

// stated reports whether the file has the key, even with an invalid value.
func (v *validator) stated(path string) bool {
	_, ok := v.places[path]
	return ok
}

// errorf reports an error at path, unless the value there could not be decoded.
func (v *validator) errorf(path, hint, format string, args ...any) {
	if pos := v.at(path); !pos.Wrong {
		v.Add(pos, hint, format, args...)
	}
}

// problem reports p in the table at path.
func (v *validator) problem(path string, p Problem) {
	if p.Field != "" {
		path += "." + p.Field
	}
	v.errorf(path, p.Hint, "%s: %s", path, p.Message)
}

func (v *validator) manifest() {
	v.plugin()
	if v.stated("transport") {
		v.transport()
	} else if len(v.m.MCPServers) == 0 && !v.stated("mcp_servers") && !v.stated("hooks") {
		v.Add(v.at(""), `add [transport] with a command, MCP servers or [[hooks]]`,
			"the manifest starts nothing: it has no [transport]")
	}
	v.capabilities()
	v.requires()
	v.runtime()
	v.config()
	v.tools()
	v.risk()
	v.hooks()
	v.servers()
	v.dev()
}

// semver is the grammar of semver.org, without the leading v of Go's versions.
var semver = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)` +
	`(?:-(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*)?` +
	`(?:\+[0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*)?$`)

const maxDescription = 512 // characters

func (v *validator) plugin() {
	p := v.m.Plugin
	if err := ValidateID(p.ID); err != nil {
		v.errorf("plugin.id", "", "plugin.id: %v", err)
	}
	if !semver.MatchString(p.Version) {
		v.errorf("plugin.version", "", "plugin.version: want a version such as 0.1.0, got %q", p.Version)
	}
	if p.MinAgentVersion != "" && !semver.MatchString(p.MinAgentVersion) {
		v.errorf("plugin.min_agent_version", "", "plugin.min_agent_version: want one version such as 1.2.0, got %q",
			p.MinAgentVersion)
	}
	if n := utf8.RuneCountInString(p.Description); n > maxDescription {
		v.errorf("plugin.description", "", "plugin.description has %d characters; at most %d", n, maxDescription)
	}
}

var toolName = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

func isToolName(name string) bool { return len(name) <= 128 && toolName.MatchString(name) }

func (v *validator) capabilities() {
	c := v.m.Capabilities
	if c == nil {
		return
	}
	lists := []struct {
		key   string
		names []string
	}{
		{"tools", c.Tools},
		{"hooks", c.Hooks},
		{"channels", c.Channels},
		{"providers", c.Providers},
		{"pollers", c.Pollers},
	}
	total := 0
	for i, l := range lists {
		total += len(l.names)
		v.names("capabilities."+l.key, l.key, l.names)
		if i >= 2 && len(l.names) > 0 {
			v.Diagnose(protocol.LevelWarn, CodeUnsupported, v.at("capabilities."+l.key), "",
				"capabilities.%s has no effect: this host has tools and hooks, and no %s, so %s stay unused", l.key,
				l.key, strings.Join(l.names, ", "))
		}
	}
	for i, name := range c.Hooks {
		if e, ok := ParseHookEvent(name); ok && e != ExtensionLoad {
			c.Hooks[i] = string(e)
		} else {
			v.errorf(strict.Index("capabilities.hooks", i), strict.DidYouMean(name, eventNames()),
				"%q is not a hook point of extensions", name)
		}
	}
	if total == 0 && v.m.Transport.Protocol == ProtocolNative && !v.at("capabilities").Wrong {
		v.errorf("capabilities", `name a tool or a hook, or leave [capabilities] out, which admits all`,
			"[capabilities] is empty, and admits nothing that the extension offers")
	}
}

// names checks a list of tool-like names and their uniqueness.
func (v *validator) names(path, what string, names []string) {
	for i, name := range names {
		p := strict.Index(path, i)
		switch {
		case !isToolName(name):
			v.errorf(p, "", "%q is not a name for %s: 1 to 128 of A-Z, a-z, 0-9, _ . and -", name, what)
		case slices.Contains(names[:i], name):
			v.errorf(p, "", "%q is listed twice", name)
		}
	}
}

// runtime checks [runtime] and [sandbox], and clears values that only the operator may set.
func (v *validator) runtime() {
	r := &v.m.Runtime
	for _, p := range r.Validate() {
		v.problem("runtime", p)
	}
	if v.m.Sandbox != nil {
		for _, p := range v.m.Sandbox.Validate() {
			v.problem("sandbox", Problem(p))
		}
	}
	v.operatorsOwn("replay", &r.Replay, ReplayIdempotent)
	v.operatorsOwn("isolate", &r.Isolate, IsolateNone)
	if n := r.MaxInFlight; v.m.Transport.Protocol == ProtocolLite && n != nil && *n > 1 {
		v.errorf("runtime.max_in_flight", "", "protocol lite has one call in flight, not %d", *n)
	}
}

// operatorsOwn clears a value that only the operator may set.
func (v *validator) operatorsOwn(key string, stated *string, value string) {
	if *stated != value {
		return
	}
	v.Diagnose(protocol.LevelWarn, CodeUnsupported, v.at("runtime."+key),
		"the operator may state it, in extensions.entries."+v.m.Plugin.ID+".runtime",
		"runtime.%s = %q has no effect in a manifest: that is for the operator to decide", key, value)
	*stated = ""
}

func (v *validator) servers() {
	for path, pos := range v.places { // keys that only other hosts use
		if path == "outbound_bindings" ||
			strings.HasPrefix(path, "mcp_servers.") && strings.HasSuffix(path, ".log_level") {
			v.Diagnose(protocol.LevelInfo, CodeUnsupported, pos, "", "%s has no effect here", path)
		}
	}
	if !v.stated("mcp_servers") {
		return // the servers of a sidecar are checked already
	}
	var ids []string
	for _, name := range slices.Sorted(maps.Keys(v.m.MCPServers)) {
		s, _ := v.m.MCPServers[name].Complete()
		v.m.MCPServers[name] = s
		path := "mcp_servers." + name
		switch id := ServerID("", name); {
		case id == "":
			v.errorf(path, "", "%q is not a server's name: 1 to %d characters", name, MaxIDLength)
		case slices.Contains(ids, id):
			v.errorf(path, "rename one of them", "there is a server named like %q already", name)
		default:
			ids = append(ids, id)
		}
		for i, name := range s.RequiresEnv {
			if !envName.MatchString(name) {
				at := path + ".requires_env"
				v.errorf(strict.Index(at, i), "", "%s: %q is not a variable's name", at, name)
			}
		}
		if !anyWrong(v.places, path) {
			for _, p := range s.Validate() {
				v.problem(path, p)
			}
		}
	}
}

// anyWrong reports whether a value below path could not be decoded.
func anyWrong(places strict.Positions, path string) bool {
	for at, pos := range places {
		if pos.Wrong && (at == path || strings.HasPrefix(at, path+".")) {
			return true
		}
	}
	return false
}

// dev checks that the globs can match files below the extension's directory.
func (v *validator) dev() {
	for i, glob := range v.m.Dev.Watch {
		wrong := ""
		if _, err := path.Match(glob, ""); err != nil {
			wrong = "is not a glob"
		} else if !filepath.IsLocal(filepath.FromSlash(glob)) {
			wrong = "is not below the extension's directory"
		}
		if wrong != "" {
			v.errorf(strict.Index("dev.watch", i), `such as "*.py" or "src/**/*.ts"`, "dev.watch: %q %s", glob, wrong)
		}
	}
}

func (v *validator) requires() {
	r := v.m.Requires
	for i, bin := range r.Bins {
		if badProgram(bin, false) != "" || strings.ContainsAny(bin, `/\`) {
			v.errorf(strict.Index("requires.bins", i), "", "requires.bins: %q is not the name of a program on PATH",
				bin)
		}
	}
	for i, name := range r.Env {
		if !envName.MatchString(name) {
			v.errorf(strict.Index("requires.env", i), "", "requires.env: %q is not a variable's name", name)
		}
	}
	v.platforms("os", r.OS, knownOS)
	v.platforms("arch", r.Arch, knownArch)
}

func (v *validator) platforms(key string, names, known []string) {
	for i, name := range names {
		if !slices.Contains(known, name) {
			v.errorf(strict.Index("requires."+key, i), suggestPlatform(name, known),
				"requires.%s: %q is none that is known", key, name)
		}
	}
}
