package governance

import (
	"cmp"
	"slices"
	"time"

	"github.com/exthost/exthost/protocol"
)

// Category is a policy's stage in the pipeline.
type Category string

// The categories, in the order they run.
const (
	Observability  Category = "observability"  // watches in parallel; delays the exchange only when required
	Authentication Category = "authentication" // establishes the caller
	Authorization  Category = "authorization"  // decides what the caller may do
	RateLimiting   Category = "rate_limiting"  // bounds how often
	Validation     Category = "validation"     // checks the form of the request
	Content        Category = "content"        // the only category that may change payloads
	Audit          Category = "audit"          // records; last, and for every exchange
)

// Values returns every category, in the order in which policies of the categories run.
func (Category) Values() []string {
	return []string{string(Observability), string(Authentication), string(Authorization),
		string(RateLimiting), string(Validation), string(Content), string(Audit)}
}

// Values returns the flows of an exchange, in their order.
func (Flow) Values() []string { return []string{string(Request), string(Response)} }

// Mode says whether a policy's decisions take effect.
type Mode string

// The modes.
const (
	ModeEnforce Mode = "enforce" // decisions take effect; the default
	ModeShadow  Mode = "shadow"  // decisions are recorded only
)

// Values returns the values allowed in files: the modes, then the words of other systems
// that [Spec.Normalize] translates.
func (Mode) Values() []string {
	return []string{string(ModeEnforce), string(ModeShadow), "sequential", "transform", "concurrent",
		"enforce_ignore_error", "permissive", "audit", "fire_and_forget", "disabled"}
}

// Layer says who states a policy. Within a category, policies of stronger layers run later, and so
// decide about what policies of weaker layers have changed.
type Layer int

// The layers, the weakest first.
const (
	LayerProject Layer = iota // a project's files, --config FILE and variables
	LayerUser                 // the user's files
	LayerSystem               // the system's files
	LayerProgram              // the program that embeds the host
	layerLast                 // after all others: policies that place themselves there
)

// Kind says how a policy runs.
type Kind string

// The kinds.
const (
	KindBuiltin Kind = "builtin" // in this process
	KindGRPC    Kind = "grpc"    // a process serving mcpv.plugin.v1.PluginService on a unix socket
	KindMCP     Kind = "mcp"     // an MCP server with the tool invoke_hook
	KindNative  Kind = "native"  // an extension that answers governance/decide

	kindExternal Kind = "external" // the name of KindMCP in files of other systems
)

// Values returns the values allowed in files.
func (Kind) Values() []string {
	return []string{
		string(KindBuiltin),
		string(KindGRPC),
		string(KindMCP),
		string(KindNative),
		string(kindExternal),
	}
}

// Defaults of the fields of Spec that are 0.
const (
	DefaultTimeout          = 3 * time.Second
	DefaultHandshakeTimeout = 30 * time.Second
)

// Spec is the configuration of one policy: an entry of `plugins:`. [Spec.Normalize] fills in
// fields that depend on others, and [Spec.Validate] reports every error.
//
// The last block holds fields of other systems' plugin files. Normalize translates those
// that have an equivalent above.
type Spec struct {
	Name string `json:"name" jsonschema:"required"` // unique among all policies
	// place in the pipeline; default for kind mcp: content
	Category Category `json:"category,omitempty"`
	// how the policy runs; external means mcp; default: mcp with an mcp block, grpc with cmd, else builtin
	Kind    Kind   `json:"kind,omitempty"`
	Builtin string `json:"builtin,omitempty"` // kind builtin: the name of the built-in policy
	// the call fails when the policy cannot decide
	Required *bool  `json:"required,omitempty" jsonschema:"default=true"`
	Disabled bool   `json:"disabled,omitempty"` // the policy is neither in the pipeline nor started
	Mode     Mode   `json:"mode,omitempty"`     // enforce (default) or shadow
	Flows    []Flow `json:"flows,omitempty"`    // empty: both
	// the exchanges that the policy decides about; empty: all
	Match Match `json:"match,omitzero"`
	// order within the category and the layer: lower runs first, equal ones by name; default 0
	Priority int   `json:"priority,omitempty"`
	Layer    Layer `json:"-"` // who states the policy; default LayerProject
	// the policy may write files below this directory only; "": anywhere
	Within string `json:"-"`

	// time limit of one decision, in milliseconds; 0 is 3000
	Timeout time.Duration `json:"timeout_ms,omitempty" jsonschema:"type=integer"`
	// from start to ready, in milliseconds; 0 is 30000
	HandshakeTimeout time.Duration `json:"handshake_timeout_ms,omitempty" jsonschema:"type=integer"`

	// argv of kinds grpc and native; a path with a slash resolves against cwd
	Cmd []string          `json:"cmd,omitempty"`
	Env map[string]string `json:"env,omitempty"` // added to the filtered environment
	// working directory of cmd; default: the directory of the configuration file
	Cwd string `json:"cwd,omitempty" path:"true"`
	// kind grpc: the hash that the policy must report; "" accepts any
	CommitHash string         `json:"commit_hash,omitempty"`
	Config     map[string]any `json:"config,omitempty"` // passed to the policy
	MCP        *MCP           `json:"mcp,omitempty"`    // kind mcp: where its server is

	Description string   `json:"description,omitempty"` // informational
	Author      string   `json:"author,omitempty"`      // informational
	Namespace   string   `json:"namespace,omitempty"`   // informational
	Version     string   `json:"version,omitempty"`     // informational
	Tags        []string `json:"tags,omitempty"`        // informational
	// kind mcp: the hooks to invoke; empty: those that the server lists
	Hooks []string `json:"hooks,omitempty"`
	// ignore and disable mean required: false
	OnError string `json:"on_error,omitempty" jsonschema:"enum=fail,enum=ignore,enum=disable"`
	// alternatives of which one must hold; a single one with only tools or server_ids becomes match
	Conditions []Condition `json:"conditions,omitempty"`
}

// Match selects exchanges. Each list holds globs, one of which must match; an empty list
// matches everything. All lists must match.
type Match struct {
	Tools      []string `json:"tools,omitempty"`      // registered tool names
	Extensions []string `json:"extensions,omitempty"` // ids
	Methods    []string `json:"methods,omitempty"`    // MCP method names
	Callers    []string `json:"callers,omitempty"`    // authenticated callers
	// cluster nodes of the callers: "." is this host, "?*" every other node
	Nodes     []string `json:"nodes,omitempty"`
	Direction []string `json:"direction,omitempty"` // to_extension, to_caller
	// risks of the tool: read, write, destroy; no globs
	Risk []protocol.Risk `json:"risk,omitempty"`
}

// Condition is one alternative of Spec.Conditions. Fields without an equivalent in Match
// are errors, because ignoring one would select more than the file states.
type Condition struct {
	Tools        []string `json:"tools,omitempty"`         // becomes match.tools
	ServerIDs    []string `json:"server_ids,omitempty"`    // becomes match.extensions
	Prompts      []string `json:"prompts,omitempty"`       // not supported: an error
	Resources    []string `json:"resources,omitempty"`     // not supported: an error
	Agents       []string `json:"agents,omitempty"`        // not supported: an error
	TenantIDs    []string `json:"tenant_ids,omitempty"`    // not supported: an error
	UserPatterns []string `json:"user_patterns,omitempty"` // not supported: an error
	ContentTypes []string `json:"content_types,omitempty"` // not supported: an error
}

// The values of MCP.Proto.
const (
	ProtoStdio          = "STDIO"
	ProtoStreamableHTTP = "STREAMABLEHTTP"
	ProtoSSE            = "SSE"
)

// MCP is the server of a policy of kind mcp.
type MCP struct {
	// the transport
	Proto string `json:"proto" jsonschema:"required,enum=STDIO,enum=STREAMABLEHTTP,enum=SSE"`
	// STREAMABLEHTTP and SSE only
	URL string `json:"url,omitempty"`
	// STDIO only: argv; a path with a slash resolves against cwd
	Cmd []string `json:"cmd,omitempty"`
	// STDIO only: a file whose suffix selects the interpreter
	Script string `json:"script,omitempty"`
	// STDIO only: added to the filtered environment
	Env map[string]string `json:"env,omitempty"`
	// STDIO only; default: the directory of the configuration file
	Cwd string `json:"cwd,omitempty" path:"true"`
}

// Normalize fills in the kind and the bounds that s omits, and translates the vocabulary of other
// systems. [Spec.Validate] reports the values that Normalize cannot translate.
func (s *Spec) Normalize() {
	if s.Kind == "" || s.Kind == kindExternal && s.MCP != nil {
		s.Kind = s.impliedKind()
	}
	if s.Kind == KindMCP && s.Category == "" {
		s.Category = Content // such servers expect to change payloads
	}
	s.normalizeMode()
	if s.OnError == "ignore" || s.OnError == "disable" {
		s.Required = new(false)
	}
	if s.OnError = ""; s.Required == nil {
		s.Required = new(true)
	}
	s.Timeout = cmp.Or(s.Timeout, DefaultTimeout)
	s.HandshakeTimeout = cmp.Or(s.HandshakeTimeout, DefaultHandshakeTimeout)
	s.Flows = slices.Compact(slices.Sorted(slices.Values(s.Flows)))
	s.normalizeConditions()
}

// hasProcess reports whether an operator can restart what decides.
func (s *Spec) hasProcess() bool {
	return s.Kind == KindGRPC || s.Kind == KindMCP || s.Kind == KindNative
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
		s.Mode, s.Required = ModeEnforce, new(false)
	case "permissive", "audit", "fire_and_forget":
		s.Mode = ModeShadow
	case "disabled":
		s.Mode, s.Disabled = ModeEnforce, true
	}
}

// normalizeConditions moves a single condition of tools and server_ids into Match.
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

func (c Condition) everything() bool {
	return len(c.Tools)+len(c.ServerIDs)+len(c.Prompts)+len(c.Resources)+len(c.Agents)+
		len(c.TenantIDs)+len(c.UserPatterns)+len(c.ContentTypes) == 0
}
