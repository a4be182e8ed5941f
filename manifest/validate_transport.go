package manifest

import (
	"cmp"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/text"
	"github.com/exthost/exthost/internal/text/strict"
	"github.com/exthost/exthost/protocol"
)

var (
	kinds       = []string{KindStdio, KindHTTP, KindSSE, KindExec, KindNATS, KindReplay}
	mcpVersions = []string{MCPVersionAuto, protocol.MCP20251125, protocol.MCP20260728}
)

func (v *validator) transport() {
	t := &v.m.Transport
	if t.Kind == "" && !v.at("transport.kind").Wrong {
		t.Kind = KindStdio
		if t.URL != "" && len(v.launchers()) == 0 {
			t.Kind = KindHTTP
		}
	}
	if t.Kind != KindNATS {
		v.onlyFor("nats", "subject_prefix", "framing")
	}
	if t.Kind != KindReplay {
		v.onlyFor("replay", "file", "extension", "match", "latency")
	}
	var p problems
	switch t.Kind {
	case KindReplay:
		v.replay()
		t.Match, t.Latency = cmp.Or(t.Match, MatchStrict), cmp.Or(t.Latency, LatencyNone)
		p.oneOf("match", t.Match, MatchStrict, MatchNearest)
		p.oneOf("latency", t.Latency, LatencyNone, LatencyReal)
	case KindStdio:
		v.launch(true)
		v.remoteOnly()
		v.protocol(ProtocolNative, ProtocolNative, ProtocolMCP, ProtocolLite)
	case KindExec:
		v.launch(v.runsTransport())
		v.remoteOnly()
		v.onlyFor("stdio", "protocol")
	case KindHTTP, KindSSE:
		p.not("url", badURL(t.URL))
		p.headers(t.Headers)
		v.credentials()
		v.onlyFor("stdio and exec", launchOnly...)
		v.protocol(ProtocolMCP, ProtocolMCP)
	case KindNATS:
		t.SubjectPrefix = cmp.Or(t.SubjectPrefix, "ext")
		p.not("subject_prefix", badSubject(t.SubjectPrefix))
		p.not("url", badNATSServer(t.URL))
		p.oneOf("framing", t.Framing, FramingLine, FramingNexo)
		v.credentials()
		v.onlyFor("http and sse", "headers", "oauth")
		v.onlyFor("stdio and exec", launchOnly...)
		v.protocol(ProtocolNative, ProtocolNative)
	case "": // wrong; reported by the decoder
	default:
		v.errorf("transport.kind", meantInstead(t.Kind), "transport.kind is %s, not %q", either(kinds), t.Kind)
	}
	for _, one := range p {
		v.problem("transport", one)
	}
}

// meantInstead returns the hint about an unknown kind: the one that other programs name so, or the protocol.
func meantInstead(kind string) string {
	if meant := MeantKind(kind); meant != "" {
		return fmt.Sprintf("write kind = %q", meant)
	}
	if slices.Contains([]string{ProtocolNative, ProtocolMCP, ProtocolLite}, kind) {
		return fmt.Sprintf("write protocol = %q: kind is what it is spoken over", kind)
	}
	return strict.DidYouMean(kind, kinds)
}

// launchOnly are the keys of transports that start a process.
var launchOnly = []string{"command", "args", "cmd", "script", "env", "cwd"}

// remoteOnly rejects keys of remote servers.
func (v *validator) remoteOnly() {
	v.onlyFor("http, sse and nats", "url", "token_env", "token_file")
	v.onlyFor("http and sse", "headers", "oauth")
}

// credentials checks the token, the headers and the OAuth client of a remote server.
func (v *validator) credentials() {
	t := &v.m.Transport
	if v.stated("transport.token_env") {
		v.tokenEnv(t.TokenEnv)
	}
	if v.stated("transport.token_file") {
		v.tokenFile(t.TokenFile)
	}
	for name := range t.Headers {
		if strings.EqualFold(name, "Authorization") && t.TokenEnv+t.TokenFile != "" {
			v.errorf("transport.headers", "keep one of them",
				"the header Authorization and the token of the transport exclude each other")
		}
	}
	for _, p := range t.OAuth.Validate() {
		v.problem("transport.oauth", p)
	}
	if t.OAuth != nil && !t.SignsIn() {
		v.errorf("transport.oauth", "keep one of them", "transport.oauth and other credentials exclude each other")
	}
	if t.Kind == KindSSE && t.MCPVersion == protocol.MCP20260728 {
		v.errorf("transport.mcp_version", "", "kind sse is older than MCP %s, which needs kind http",
			protocol.MCP20260728)
	}
}

func (v *validator) tokenEnv(name string) {
	switch {
	case v.stated("transport.token_file"):
		v.errorf("transport.token_file", "keep one of them", "transport.token_env and token_file exclude each other")
	case !envName.MatchString(name):
		v.errorf("transport.token_env", "state the name; the value stays in the environment",
			"transport.token_env is not a variable's name")
	case !slices.Contains(v.m.Requires.Env, name):
		v.errorf("transport.token_env",
			fmt.Sprintf("add env = [%q] under [requires]: what is passed on is declared there", name),
			"transport.token_env names a variable that requires.env does not")
	}
}

func (v *validator) tokenFile(name string) {
	switch {
	case name == "" || strings.ContainsRune(name, 0):
		v.errorf("transport.token_file", "", "transport.token_file names no file")
	case !filepath.IsLocal(name): // the manifest chooses who gets the content
		v.errorf("transport.token_file",
			"state token_env, and the file in extensions.entries."+v.m.Plugin.ID+
				".env_file of the host's configuration",
			"transport.token_file is not below the extension's directory")
	}
}

// replay checks the keys of a cassette. The protocol is known only when the cassette is opened.
func (v *validator) replay() {
	t := &v.m.Transport
	v.remoteOnly()
	v.onlyFor("stdio and exec", launchOnly...)
	v.onlyFor("stdio", "protocol", "mcp_version")
	if t.File == "" && !v.at("transport.file").Wrong {
		v.errorf("transport", `add file = "NAME.cassette"`, "transport of kind replay needs file, the cassette")
	}
}

// onlyFor reports each stated key of keys as valid only for kinds.
func (v *validator) onlyFor(kinds string, keys ...string) {
	for _, key := range keys {
		if v.stated("transport." + key) {
			v.errorf("transport."+key, "", "transport.%s is for kind %s only, not %s", key, kinds, v.m.Transport.Kind)
		}
	}
}

// protocol fills in defaults for the protocol and the MCP version.
func (v *validator) protocol(def string, allowed ...string) {
	t := &v.m.Transport
	if v.at("transport.protocol").Wrong {
		return
	}
	t.Protocol = cmp.Or(t.Protocol, def)
	if !slices.Contains(allowed, t.Protocol) {
		hint := strict.DidYouMean(t.Protocol, allowed)
		if kind := MeantKind(t.Protocol); kind != "" {
			hint = fmt.Sprintf("write kind = %q: protocol is what is spoken over it", kind)
		}
		v.errorf("transport.protocol", hint,
			"transport.protocol of kind %s is %s, not %q", t.Kind, either(allowed), t.Protocol)
		return
	}
	switch {
	case t.Protocol != ProtocolMCP:
		if t.MCPVersion != "" {
			v.errorf("transport.mcp_version", "", "transport.mcp_version is for protocol mcp only")
		}
	case t.MCPVersion == "":
		t.MCPVersion = MCPVersionAuto
	case !slices.Contains(mcpVersions, t.MCPVersion):
		v.errorf("transport.mcp_version", "", "transport.mcp_version is %s, not %q", either(mcpVersions), t.MCPVersion)
	}
}

// launchers returns the stated keys that start a process.
func (v *validator) launchers() (stated []string) {
	for _, key := range []string{"command", "cmd", "script"} {
		if v.stated("transport." + key) {
			stated = append(stated, key)
		}
	}
	return stated
}

// runsTransport reports whether calls of a tool run the command of [transport], because the tool states none.
func (v *validator) runsTransport() bool {
	for i := range v.m.Tools {
		if !v.stated(strict.Index("tools", i) + ".command") {
			return true
		}
	}
	return false
}

// launch checks that exactly one of command, cmd and script is stated.
func (v *validator) launch(needed bool) {
	t := v.m.Transport
	switch stated := v.launchers(); {
	case len(stated) > 1:
		v.errorf("transport."+stated[1], "keep one of them", "transport.%s exclude each other",
			strings.Join(stated, " and "))
	case len(stated) == 0 && needed:
		v.errorf("transport", `add command = "./program"`, "transport needs one of command, cmd and script")
	}
	if v.stated("transport.command") {
		v.program("command", t.Command)
	}
	if v.stated("transport.cmd") {
		if v.stated("transport.args") {
			v.errorf("transport.args", "put the arguments into cmd",
				"transport.cmd is the whole command line: args has no place beside it")
		}
		v.program("cmd", slices.Concat(t.Cmd, []string{""})[0])
	}
	if v.stated("transport.script") {
		v.program("script", t.Script)
		if t.Script != "" && !filepath.IsLocal(filepath.FromSlash(t.Script)) {
			v.errorf("transport.script", "", "transport.script %q is outside the extension's directory", t.Script)
		}
	}
	v.process()
}

// process checks the arguments, environment and directory of a process.
func (v *validator) process() {
	t := v.m.Transport
	for i, arg := range slices.Concat(t.Args, t.Cmd) {
		if strings.ContainsRune(arg, 0) {
			v.errorf(strict.Index("transport.args", i), "", "an argument has a NUL character")
		}
	}
	for name, value := range t.Env {
		if !envName.MatchString(name) || strings.ContainsRune(value, 0) {
			v.errorf("transport.env."+name, "", "transport.env: %q cannot be set in an environment", name)
		}
	}
	if v.stated("transport.cwd") && (t.Cwd == "" || strings.ContainsRune(t.Cwd, 0)) {
		v.errorf("transport.cwd", "", "transport.cwd names no directory")
	}
}

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func (v *validator) program(key, name string) {
	if why := badProgram(name, key == "command" && v.m.Transport.Protocol == ProtocolMCP); why != "" {
		v.errorf("transport."+key, "", "transport.%s: %s", key, why)
	}
	if words, line := wholeLine(name); line && key == "command" {
		hint := fmt.Sprintf("write cmd = %s", text.LiteralList(append(words, v.m.Transport.Args...)))
		if len(v.m.Transport.Args) > 0 {
			hint += " in place of command and args"
		}
		v.errorf("transport.command", hint,
			"transport.command is the program alone, and %q is a line: no shell runs it", name)
	}
}
