package governance

import (
	"slices"
	"time"
)

// Category is a policy's place in the pipeline.
type Category string

// The categories, in the order they run.
const (
	Observability  Category = "observability"  // watches; in parallel, delays nothing unless required
	Authentication Category = "authentication" // who is calling
	Authorization  Category = "authorization"  // may they
	RateLimiting   Category = "rate_limiting"  // how often
	Validation     Category = "validation"     // is it well formed
	Content        Category = "content"        // the only one that may change what passes
	Audit          Category = "audit"          // records; last and always
)

// Values returns every category in the order they run.
func (Category) Values() []string {
	return []string{string(Observability), string(Authentication), string(Authorization),
		string(RateLimiting), string(Validation), string(Content), string(Audit)}
}

// Values returns the flows of an exchange in the order they run.
func (Flow) Values() []string { return []string{string(Request), string(Response)} }

// Mode says what a decision does.
type Mode string

// The modes.
const (
	ModeEnforce Mode = "enforce" // decisions count; the default
	ModeShadow  Mode = "shadow"  // decisions are recorded and change nothing
)

// Values returns what files may say: the modes, then other systems' words that
// [Spec.Normalize] turns into one of them.
func (Mode) Values() []string {
	return []string{string(ModeEnforce), string(ModeShadow), "sequential", "transform", "concurrent",
		"enforce_ignore_error", "permissive", "audit", "fire_and_forget", "disabled"}
}

// Kind says how a policy is reached.
type Kind string

// The kinds.
const (
	KindBuiltin Kind = "builtin" // in this process
	KindGRPC    Kind = "grpc"    // a process serving mcpv.plugin.v1.PluginService on a unix socket
	KindMCP     Kind = "mcp"     // an MCP server with the tool invoke_hook
	KindNative  Kind = "native"  // an extension answering governance/decide

	kindExternal Kind = "external" // another system's word for KindMCP
)

// Values returns what files may say.
func (Kind) Values() []string {
	return []string{string(KindBuiltin), string(KindGRPC), string(KindMCP), string(KindNative), string(kindExternal)}
}

// Defaults of a Spec's bounds, used when it states 0.
const (
	DefaultTimeout          = 3 * time.Second
	DefaultHandshakeTimeout = 30 * time.Second
)

// Spec is one policy as the operator's files state it: an entry of `plugins:`.
// [Spec.SetDefaults] makes the spec that states nothing, [Spec.Normalize] fills
// in what depends on the rest, and [Spec.Validate] says what is wrong.
//
// The first block is what every policy has. The last one is what plugin files
// of other systems carry as well; Normalize turns it into the fields above it.
type Spec struct {
	Name     string   `json:"name" jsonschema:"required"`         // unique among all policies
	Category Category `json:"category,omitempty"`                 // place in the pipeline; default for kind mcp: content
	Kind     Kind     `json:"kind,omitempty"`                     // how it is reached; external is mcp; default: mcp with an mcp block, grpc with cmd, else builtin
	Builtin  string   `json:"builtin,omitempty"`                  // kind builtin: which of the built-in policies
	Required bool     `json:"required" jsonschema:"default=true"` // a failure to decide ends the call
	Disabled bool     `json:"disabled,omitempty"`                 // neither in the pipeline nor started
	Mode     Mode     `json:"mode,omitempty"`                     // enforce (default) or shadow
	Flows    []Flow   `json:"flows,omitempty"`                    // empty: both
	Match    Match    `json:"match,omitzero"`                     // what it sees; empty: everything
	Priority int      `json:"priority,omitempty"`                 // within its category: lower runs first, then by name; size_cap has 1000 unless another is stated

	Timeout          time.Duration `json:"timeout_ms,omitempty" jsonschema:"type=integer"`           // of one decision, in milliseconds; 0 is 3000
	HandshakeTimeout time.Duration `json:"handshake_timeout_ms,omitempty" jsonschema:"type=integer"` // from start to ready, in milliseconds; 0 is 30000

	Cmd        []string          `json:"cmd,omitempty"`             // argv of kinds grpc and native; a slash resolves against cwd
	Env        map[string]string `json:"env,omitempty"`             // added to the filtered environment
	Cwd        string            `json:"cwd,omitempty" path:"true"` // where cmd runs; default: the directory of the file that states the policy
	CommitHash string            `json:"commit_hash,omitempty"`     // kind grpc: what the policy must report; "" is anything
	Config     map[string]any    `json:"config,omitempty"`          // handed to the policy
	MCP        *MCP              `json:"mcp,omitempty"`             // kind mcp: where its server is

	Description string      `json:"description,omitempty"`                                              // for people
	Author      string      `json:"author,omitempty"`                                                   // for people
	Namespace   string      `json:"namespace,omitempty"`                                                // for people
	Version     string      `json:"version,omitempty"`                                                  // for people
	Tags        []string    `json:"tags,omitempty"`                                                     // for people
	Hooks       []string    `json:"hooks,omitempty"`                                                    // kind mcp: the hooks to invoke; empty: those the server names
	OnError     string      `json:"on_error,omitempty" jsonschema:"enum=fail,enum=ignore,enum=disable"` // ignore and disable mean required: false
	Conditions  []Condition `json:"conditions,omitempty"`                                               // a list of alternatives; becomes match
}

// Match selects exchanges. Each list holds globs of which one must fit; an empty
// list fits everything; all lists must fit.
type Match struct {
	Tools      []string `json:"tools,omitempty"`      // registered tool names
	Extensions []string `json:"extensions,omitempty"` // ids
	Methods    []string `json:"methods,omitempty"`    // MCP method names
	Callers    []string `json:"callers,omitempty"`    // authenticated callers
	Direction  []string `json:"direction,omitempty"`  // to_extension, to_caller
}

// Condition is one alternative of Spec.Conditions. What has no counterpart would let
// more through if it was left out.
type Condition struct {
	Tools        []string `json:"tools,omitempty"`         // becomes match.tools
	ServerIDs    []string `json:"server_ids,omitempty"`    // becomes match.extensions
	Prompts      []string `json:"prompts,omitempty"`       // has no counterpart, and is refused
	Resources    []string `json:"resources,omitempty"`     // has no counterpart, and is refused
	Agents       []string `json:"agents,omitempty"`        // has no counterpart, and is refused
	TenantIDs    []string `json:"tenant_ids,omitempty"`    // has no counterpart, and is refused
	UserPatterns []string `json:"user_patterns,omitempty"` // has no counterpart, and is refused
	ContentTypes []string `json:"content_types,omitempty"` // has no counterpart, and is refused
}

// The values of MCP.Proto.
const (
	ProtoStdio          = "STDIO"
	ProtoStreamableHTTP = "STREAMABLEHTTP"
	ProtoSSE            = "SSE"
)

// MCP says where the server of a policy of kind mcp is.
type MCP struct {
	Proto  string            `json:"proto" jsonschema:"required,enum=STDIO,enum=STREAMABLEHTTP,enum=SSE"` // how it is reached
	URL    string            `json:"url,omitempty"`                                                       // STREAMABLEHTTP and SSE only
	Cmd    []string          `json:"cmd,omitempty"`                                                       // STDIO only: argv; a slash resolves against cwd
	Script string            `json:"script,omitempty"`                                                    // STDIO only: started by what its suffix asks for
	Env    map[string]string `json:"env,omitempty"`                                                       // STDIO only: added to the filtered environment
	Cwd    string            `json:"cwd,omitempty" path:"true"`                                           // STDIO only; default: the directory of the file that states the policy
}

// SetDefaults makes s the spec that states nothing.
func (s *Spec) SetDefaults() { *s = Spec{Required: true} }

// Normalize fills in the kind and the bounds that s leaves open and turns the
// vocabulary of other systems into ours. What it cannot express it leaves for
// [Spec.Validate] to refuse.
func (s *Spec) Normalize() {
	if s.Kind == "" || s.Kind == kindExternal && s.MCP != nil {
		s.Kind = s.impliedKind()
	}
	if s.Kind == KindMCP && s.Category == "" {
		s.Category = Content // may change what passes, as such a plugin expects
	}
	s.normalizeMode()
	if s.OnError == "ignore" || s.OnError == "disable" {
		s.Required = false
	}
	s.OnError = ""
	if s.Timeout == 0 {
		s.Timeout = DefaultTimeout
	}
	if s.HandshakeTimeout == 0 {
		s.HandshakeTimeout = DefaultHandshakeTimeout
	}
	slices.Sort(s.Flows)
	s.Flows = slices.Compact(s.Flows)
	s.normalizeConditions()
}

func (s *Spec) impliedKind() Kind {
	switch {
	case s.MCP != nil:
		return KindMCP
	case len(s.Cmd) > 0:
		return KindGRPC
	}
	return KindBuiltin
}

func (s *Spec) normalizeMode() {
	switch s.Mode {
	case "", "sequential", "transform", "concurrent":
		s.Mode = ModeEnforce
	case "enforce_ignore_error":
		s.Mode, s.Required = ModeEnforce, false
	case "permissive", "audit", "fire_and_forget":
		s.Mode = ModeShadow
	case "disabled":
		s.Mode, s.Disabled = ModeEnforce, true
	}
}

// normalizeConditions moves conditions into Match where one Match says the same.
func (s *Spec) normalizeConditions() {
	if slices.ContainsFunc(s.Conditions, Condition.everything) {
		s.Conditions = nil
	}
	if len(s.Conditions) != 1 || len(s.Match.Tools)+len(s.Match.Extensions) > 0 {
		return
	}
	c := s.Conditions[0]
	tools, servers := c.Tools, c.ServerIDs
	c.Tools, c.ServerIDs = nil, nil
	if c.everything() {
		s.Match.Tools, s.Match.Extensions, s.Conditions = tools, servers, nil
	}
}

// everything reports whether c excludes nothing.
func (c Condition) everything() bool {
	return len(c.Tools)+len(c.ServerIDs)+len(c.Prompts)+len(c.Resources)+len(c.Agents)+
		len(c.TenantIDs)+len(c.UserPatterns)+len(c.ContentTypes) == 0
}
