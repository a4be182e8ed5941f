package manifest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/exthost/exthost/manifest/sandbox"
	"github.com/exthost/exthost/protocol"
)

// FileName is the name of a manifest.
const FileName = "plugin.toml"

// Manifest is a valid plugin.toml. Values are as written, except that [Parse] fills in Transport.Kind,
// Transport.Protocol and Transport.MCPVersion and writes hook events in snake_case.
type Manifest struct {
	Plugin Plugin `toml:"plugin" json:"plugin"`
	// absent: whatever the handshake offers; required by native
	Capabilities *Capabilities `toml:"capabilities" json:"capabilities,omitempty"`
	// absent: only the MCP servers run
	Transport Transport `toml:"transport" json:"transport,omitzero"`
	Requires  Requires  `toml:"requires" json:"requires,omitzero"`
	Context   Context   `toml:"context" json:"context,omitzero"`
	Runtime   Runtime   `toml:"runtime" json:"runtime,omitzero"`
	// absent: not confined, unless the operator restricts it
	Sandbox *sandbox.Table `toml:"sandbox" json:"sandbox,omitempty"`
	Config  map[string]any `toml:"config" json:"config,omitempty"` // handed to a native extension
	// JSON Schema of config; absent: anything goes
	ConfigSchema map[string]any `toml:"config_schema" json:"config_schema,omitempty"`
	Tools        []ToolSpec     `toml:"tools" json:"tools,omitempty"` // exec and lite only
	// the most that calls of its tools can do, by the tool's name: read, write or destroy; absent: what the tool's
	// annotations say
	Risk  Risks      `toml:"risk" json:"risk,omitempty"`
	Hooks []HookSpec `toml:"hooks" json:"hooks,omitempty"`
	// by name; each runs as an extension {id}.{name}
	MCPServers map[string]Server `toml:"mcp_servers" json:"mcp_servers,omitempty"`
	Dev        Dev               `toml:"dev" json:"dev,omitzero"`

	// accepted, not supported
	OutboundBindings map[string]any `toml:"outbound_bindings" json:"outbound_bindings,omitempty"`
	Meta             Meta           `toml:"meta" json:"meta,omitzero"`

	// Portable is set for a package of Agent Plugins, which has no plugin.toml: package agentplugin makes the manifest.
	Portable bool `toml:"-" json:"-"`
	// Translated is set for a file that begins with [TranslatedMark].
	Translated bool `toml:"-" json:"-"`
	// Servers are the tables of such a package that are about one server, by the name of the server.
	Servers ServerTables `toml:"-" json:"-"`
	// ToolTexts are the texts about the tools of the server that this manifest describes, by the name of the tool.
	ToolTexts map[string]ToolText `toml:"-" json:"-"`
}

// Plugin describes the extension.
type Plugin struct {
	// a-z first, then a-z, 0-9, _ and -; at most 64; not a reserved id
	ID          string `toml:"id" json:"id"`
	Version     string `toml:"version" json:"version"`                   // strict semver, no leading v
	Name        string `toml:"name" json:"name,omitempty"`               // for people; "" shows the id
	Description string `toml:"description" json:"description,omitempty"` // at most 512 characters
	// strict semver; "" is any host
	MinAgentVersion string `toml:"min_agent_version" json:"min_agent_version,omitempty"`
	// order of its hooks: lower runs first, default 0
	Priority int `toml:"priority" json:"priority,omitempty"`
}

// Capabilities are the names that the extension may offer, for the operator to review: a list admits its names alone,
// without a list everything is admitted. An absent list (nil) differs from an empty one.
type Capabilities struct {
	// names of its tools; others are not served; absent: all are
	Tools []string `toml:"tools" json:"tools,omitempty"`
	// the hook points it answers; others are not; absent: all are
	Hooks     []string `toml:"hooks" json:"hooks,omitempty"`
	Channels  []string `toml:"channels" json:"channels,omitempty"`   // accepted, not supported
	Providers []string `toml:"providers" json:"providers,omitempty"` // accepted, not supported
	Pollers   []string `toml:"pollers" json:"pollers,omitempty"`     // accepted, not supported
}

// The transport kinds.
const (
	KindStdio = "stdio" // a child process, one JSON object per line
	KindExec  = "exec"  // one process per call
	KindHTTP  = "http"  // MCP over streamable HTTP
	KindSSE   = "sse"   // MCP over HTTP with server-sent events
	KindNATS  = "nats"  // native requests to a service on NATS

	KindReplay = "replay" // a cassette answers; no process runs
)

// The protocols of a stdio child.
const (
	ProtocolNative = "native"
	ProtocolMCP    = "mcp"
	ProtocolLite   = "lite"
)

// Transport sets how the host reaches the extension. Command, Cmd or Script starts a process; URL reaches a
// running server.
type Transport struct {
	// default stdio, with a url http; `type` is accepted too
	Kind string `toml:"kind" alias:"type" json:"kind,omitempty"`
	// with a slash: relative to the extension's directory; bare: on PATH; "exthost": this executable
	Command string   `toml:"command" json:"command,omitempty"`
	Args    []string `toml:"args" json:"args,omitempty"` // beside command or script
	Cmd     []string `toml:"cmd" json:"cmd,omitempty"`   // the whole command line, in words
	// run by the interpreter for its suffix
	Script string            `toml:"script" json:"script,omitempty"`
	Env    map[string]string `toml:"env" json:"env,omitempty"` // added to the child's environment
	Cwd    string            `toml:"cwd" json:"cwd,omitempty"` // default: the extension's directory
	// http, sse and nats only; nats://host:port or tls://host:port for nats, default the host's cluster.urls
	URL     string            `toml:"url" json:"url,omitempty"`
	Headers map[string]string `toml:"headers" json:"headers,omitempty"` // http and sse only
	// http, sse and nats only: the variable with the bearer token, for nats with the text of a credentials file,
	// an NKey seed or a token, without the white space around it; also declare it in requires.env
	TokenEnv string `toml:"token_env" json:"token_env,omitempty"`
	// http, sse and nats only: a file with the bearer token or NATS credentials, below the extension's directory and
	// private to its owner; read for each request, for nats for each connection
	TokenFile string `toml:"token_file" json:"token_file,omitempty"`
	// http and sse only: the OAuth client for logins; default: whatever the server's authorization server offers
	OAuth *OAuthClient `toml:"oauth" json:"oauth,omitempty"`
	// default native for stdio, mcp with a url; exec has none
	Protocol string `toml:"protocol" json:"protocol,omitempty"`
	// auto (default), 2025-11-25 or 2026-07-28; mcp only
	MCPVersion string `toml:"mcp_version" json:"mcp_version,omitempty"`

	// nats only: the service takes requests at PREFIX.ID.rpc with the extension's id; default ext
	SubjectPrefix string `toml:"subject_prefix" json:"subject_prefix,omitempty"`
	// nats only: line (default): a message is one JSON-RPC line; nexo: the line is the payload of a JSON object,
	// as nexo's broker sends it
	Framing string `toml:"framing" json:"framing,omitempty"`

	// replay only: a cassette of exthost calls record, relative to the extension's directory
	File string `toml:"file" json:"file,omitempty"`
	// replay only: the recorded id; default: the only one in the cassette
	Extension string `toml:"extension" json:"extension,omitempty"`
	// replay only: strict (default): a call that was not recorded is an error; nearest: it gets the response to
	// the most similar call
	Match string `toml:"match" json:"match,omitempty"`
	// replay only: "0" (default): respond at once; real: take as long as recorded
	Latency string `toml:"latency" json:"latency,omitempty"`

	// Literal is set for a server of Agent Plugins: no variable and no secret:// in its values is replaced, and
	// "exthost" is no other command than any.
	Literal bool `toml:"-" json:"-"`
	// Secrets are the values of such a server that refer to stored secrets.
	Secrets ServerSecrets `toml:"-" json:"-"`
}

// The values of Transport.Match and Latency.
const (
	MatchStrict  = "strict"
	MatchNearest = "nearest"
	LatencyNone  = "0"
	LatencyReal  = "real"
)

// The values of Transport.Framing.
const (
	FramingLine = "line"
	FramingNexo = "nexo"
)

// SignsIn reports whether users sign in to the server of t, because t states no other credentials.
func (t *Transport) SignsIn() bool {
	if t.URL == "" || t.Kind == KindNATS || t.TokenEnv != "" || t.TokenFile != "" {
		return false
	}
	for _, headers := range []map[string]string{t.Headers, t.Secrets.Headers} {
		for name := range headers {
			if strings.EqualFold(name, "Authorization") {
				return false
			}
		}
	}
	return true
}

// CommandLine returns the stated words of the transport: the URL, the command with its arguments, or for a
// cassette the command that replays it. It is nil if nothing is stated.
func (t Transport) CommandLine() []string {
	switch {
	case t.File != "":
		return []string{"exthost", "calls", "replay", t.File}
	case t.URL != "":
		return []string{t.URL}
	case len(t.Cmd) > 0:
		return t.Cmd
	case t.Script+t.Command != "": // at most one of them is set
		return append([]string{t.Script + t.Command}, t.Args...)
	}
	return nil
}

// Requires lists what the extension needs to run.
type Requires struct {
	Bins []string `toml:"bins" json:"bins,omitempty"` // executables on PATH
	// variables that must be set and not empty; secret-like ones are passed on only if listed here; those that make
	// programs load code, such as PYTHONPATH, only if the operator states them
	Env  []string          `toml:"env" json:"env,omitempty"`
	OS   []string          `toml:"os" json:"os,omitempty"`     // any of these GOOS values; empty: all
	Arch []string          `toml:"arch" json:"arch,omitempty"` // any of these GOARCH values; empty: all
	Hint map[string]string `toml:"hint" json:"hint,omitempty"` // by the name of a missing requirement: how to get it
}

// Context selects which parts of a call's context the extension receives.
type Context struct {
	Passthrough bool `toml:"passthrough" json:"passthrough,omitempty"` // agent and session id in _meta; default false
}

// ToolSpec declares a tool of an extension that has no handshake.
type ToolSpec struct {
	Name        string         `toml:"name" json:"name"` // [A-Za-z0-9_.-]{1,128}
	Title       string         `toml:"title" json:"title,omitempty"`
	Description string         `toml:"description" json:"description,omitempty"`
	InputSchema map[string]any `toml:"input_schema" json:"input_schema,omitempty"` // JSON Schema; absent: any object
	Annotations map[string]any `toml:"annotations" json:"annotations,omitempty"`   // MCP's tool annotations
	// exec: this tool's command line instead of the transport's
	Command Command `toml:"command" json:"command,omitempty"`
	// lite: what to call; default the name
	Method string `toml:"method" json:"method,omitempty"`
}

// Risks are risks of tools, by the name of the tool. A tool that is annotated as destructive stays so: the manifest was
// agreed to before the tool said it.
type Risks map[string]protocol.Risk

// HookSpec is one exec hook, of an extension or of the operator.
type HookSpec struct {
	Name string `toml:"name" json:"name,omitempty"` // for logs; "" shows the command
	// a hook point, also in PascalCase or by Claude Code's name
	Event string `toml:"event" json:"event"`
	// which tools: names, a pattern or a regular expression; "" or "*" is all
	Matcher string `toml:"matcher" json:"matcher,omitempty"`
	// run without a shell; a relative path with a slash starts at the folder of the manifest
	Command Command   `toml:"command" json:"command"`
	Timeout *Duration `toml:"timeout" json:"timeout,omitempty"` // default 15 s
	// the decision if the hook fails: allow or deny; default: deny at gates for the operator's hooks, else allow
	OnError  string `toml:"on_error" json:"on_error,omitempty"`
	Priority int    `toml:"priority" json:"priority,omitempty"` // lower runs first, default 0
}

// TranslatedMark begins the plugin.toml that exthost add makes of a plugin in the format of another program. Its folder
// is a copy of the package.
const TranslatedMark = "# Made by exthost add from "

// DirVariable is the variable in the environment of an extension's processes with the folder of its manifest.
const DirVariable = "EXTHOST_EXTENSION_DIR"

// Server is one MCP server beside or inside a manifest.
type Server struct {
	// stdio, http or sse; default follows from the other keys; `transport` is accepted too
	Type string `toml:"type" alias:"transport" json:"type,omitempty"`
	// stdio: a program, as in [transport]
	Command string            `toml:"command" json:"command,omitempty"`
	Args    []string          `toml:"args" json:"args,omitempty"`       // its arguments
	Env     map[string]string `toml:"env" json:"env,omitempty"`         // added to its filtered environment
	Cwd     string            `toml:"cwd" json:"cwd,omitempty"`         // where it runs
	URL     string            `toml:"url" json:"url,omitempty"`         // of http and sse
	Headers map[string]string `toml:"headers" json:"headers,omitempty"` // sent with every request

	// like passthrough in [context], for this server only
	ContextPassthrough bool `toml:"context_passthrough" json:"context_passthrough,omitempty"`
	// like env in [requires], for this server only
	RequiresEnv []string `toml:"requires_env" json:"requires_env,omitempty"`
	// accepted but ignored
	LogLevel string `toml:"log_level" json:"log_level,omitempty"`
}

// Transport returns the transport that runs the server.
func (s Server) Transport() Transport {
	return Transport{
		Kind:       s.Type,
		Command:    s.Command,
		Args:       s.Args,
		Env:        s.Env,
		Cwd:        s.Cwd,
		URL:        s.URL,
		Headers:    s.Headers,
		Protocol:   ProtocolMCP,
		MCPVersion: MCPVersionAuto,
	}
}

// Dev helps to work on the extension.
type Dev struct {
	// globs, relative to the extension's directory; a change restarts it
	Watch []string `toml:"watch" json:"watch,omitempty"`
	// command line in words, run by exthost dev in the extension's directory after a change, before the restart
	Build []string `toml:"build" json:"build,omitempty"`
}

// Meta is for catalogues.
type Meta struct {
	Author   string `toml:"author" json:"author,omitempty"`     // who wrote it
	License  string `toml:"license" json:"license,omitempty"`   // an SPDX expression
	Homepage string `toml:"homepage" json:"homepage,omitempty"` // a URL
}

// MCPVersionAuto negotiates the newest revision that both sides speak.
const MCPVersionAuto = "auto"

// MaxIDLength is the maximum length of an extension's id in bytes.
const MaxIDLength = 64

// reserved ids name parts of an agent or HTTP routes. memory is not among them: tools have the prefix ext_, and a
// widely used MCP server has that name.
var reserved = []string{
	"agent", "browser", "core", "email", "exthost", "heartbeat", "telegram", "whatsapp",
	"api", "healthz", "mcp", "message", "metrics", "readyz", "sse", "ui",
}

// ReservedIDs returns the ids that no extension may have, sorted.
func ReservedIDs() []string { return slices.Sorted(slices.Values(reserved)) }

var idPattern = regexp.MustCompile(`^[a-z][a-z0-9_-]*$`)

// ValidateID requires ^[a-z][a-z0-9_-]*$, at most [MaxIDLength] bytes and an id that is not reserved.
func ValidateID(id string) error {
	switch {
	case id == "":
		return fmt.Errorf("an id is needed, such as %q", "weather")
	case len(id) > MaxIDLength:
		return fmt.Errorf("an id has at most %d characters, this one has %d", MaxIDLength, len(id))
	case !idPattern.MatchString(id):
		return fmt.Errorf("%q is not an id: it starts with a-z and goes on with a-z, 0-9, _ and -", id)
	case slices.Contains(reserved, id):
		return fmt.Errorf("%q is reserved for the host", id)
	}
	return nil
}
