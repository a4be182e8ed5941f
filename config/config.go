package config

import (
	"maps"
	"slices"
	"time"

	"github.com/exthost/exthost/config/cluster"
	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/listing/toolsearch"
	"github.com/exthost/exthost/internal/listing/toolset"
	"github.com/exthost/exthost/internal/recording/faults"
	"github.com/exthost/exthost/internal/text/strict"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/manifest/sandbox"
	"github.com/exthost/exthost/protocol"
)

// Config is the configuration of a host. [Default] has the defaults.
//
// The tag project of a key, or of the section around it, says what a file of the working directory may state: "yes" is
// anything, "tighten" is what guard.keep allows, and "no,TEXT" is nothing, with a warning that the file cannot TEXT.
type Config struct {
	// where extensions come from and how they run
	Extensions Extensions `json:"extensions"`
	// the policies that every exchange passes
	Plugins []governance.Spec `json:"plugins" project:"yes"`
	// what policies receive
	Governance Governance `json:"governance,omitzero"`
	// commands at points of the agent loop
	Hooks []manifest.HookSpec `json:"hooks" project:"yes"`
	// MCP servers bridged to HTTP, by name
	Destinations Destinations `json:"destinations" list:"name"`
	// what clients see of tools, prompts and resources, by the name of the toolset
	Toolsets map[string]Toolset `json:"toolsets,omitempty" project:"tighten"`
	Tools    toolsearch.Listing `json:"tools" project:"yes"` // how tools are listed to clients
	Server   Server             `json:"server"`              // the HTTP front
	// where the secrets of secret://NAME are kept
	Secrets Secrets `json:"secrets" project:"no,say where the user's secrets are"`
	Audit   Audit   `json:"audit" project:"tighten"` // the log of all exchanges
	// the cluster of hosts to join; not in a project's file; default: none
	Cluster cluster.Membership `json:"cluster" project:"no,have the host join others"`
	// calls that fail on purpose, for tests of agents; not in a project's file
	Inject []faults.Rule `json:"inject,omitempty" project:"no,have calls fail"`
	// where traces are sent
	OTel Tracing `json:"otel,omitzero" project:"no,say where traces of the user's calls are sent"`
	Log  Log     `json:"log" project:"yes"` // the host's log
	// a cassette of the messages between the host and its extensions; default: none
	Record Cassette `json:"record,omitzero" project:"yes"`

	// Files are the absolute paths that [Load] read, or would have read if the files existed: watch these for
	// changes.
	Files []string `json:"-"`

	// Variables are the names of the environment variables that the files refer to.
	Variables []string `json:"-"`

	// SecretUses are the references to stored secrets. [Load] sets them.
	SecretUses []SecretUse `json:"-"`

	// Project is what the files of the working directory add. [Load] sets it.
	Project Project `json:"-"`

	// Warnings are what [Load] found doubtful, and Origins where it read each value. [Load] sets them.
	Warnings []protocol.Diagnostic `json:"-"`
	Origins  *Origins              `json:"-"`

	hidden hiddenValues // hides the values of secret variables in output
}

// Project is the part of a configuration that comes from the working directory, which often holds another person's
// code.
type Project struct {
	Dir   string            // absolute
	Files map[string]string // SHA-256 in hex of the directory's configuration files, by absolute path
	// SearchPaths is true if the search paths are the default or come from the directory's files, rather than from
	// flags, variables, the user's or the system's files.
	SearchPaths bool
}

// Extensions selects the extensions and sets how they run.
type Extensions struct {
	// false: do not look for extensions; default true
	Enabled bool `json:"enabled" project:"yes"`
	// searched in order: the first path with an id wins, and an id that is twice in one path does not run; default
	// ./extensions
	SearchPaths []string `json:"search_paths" project:"yes" path:"true"`
	// exact base names; default node_modules, .git, target
	IgnoreDirs []string `json:"ignore_dirs" project:"yes"`
	// ids of extensions not to run
	Disabled []string `json:"disabled" project:"yes"`
	// ids of extensions that may run; default: all
	Allowlist []string `json:"allowlist" project:"tighten"`
	// path elements below a search path, plugin.toml included; default 4
	MaxDepth int `json:"max_depth" project:"yes" jsonschema:"minimum=1,maximum=64"`
	// follow symbolic links inside a search path; default false
	FollowLinks bool `json:"follow_links" project:"yes"`
	// how the host reacts to changes on disk
	Watch Watch `json:"watch" project:"yes"`
	// whether extensions are confined
	Sandbox Sandbox `json:"sandbox" project:"tighten"`
	// the variables of the host that extensions see
	Env Env `json:"env" project:"tighten"`
	// values that a manifest's [runtime] does not state
	Defaults manifest.Runtime `json:"defaults" project:"tighten"`
	// directories whose files are used, at any depth, even if other users own or may write them; / means all; not in a
	// project's file; default: none
	SafeDirectories []string `json:"safe_directories" project:"tighten" path:"true"`
	// which code of the working directory may run: ask: what the user agreed to; lock: what exthost.lock states;
	// off: all; not in a project's file; default ask
	Trust string `json:"trust" project:"no,say whether it is trusted" jsonschema:"enum=ask,enum=lock,enum=off"`
	// minimum age of a package and its dependencies for exthost add and upgrade; a project's file can only raise
	// it; default 72h
	MinReleaseAge manifest.Duration `json:"min_release_age" project:"tighten"`
	// settings by id; OWNER.SERVER for a sidecar server
	Entries map[string]Entry `json:"entries"`
}

// The values of Extensions.Trust.
const (
	TrustAsk  = "ask"  // what the user agreed to, unchanged since
	TrustLock = "lock" // what exthost.lock of the directory states
	TrustOff  = "off"  // all
)

// The values of Watch.Mode.
const (
	WatchLog    = "log"    // log changes
	WatchReload = "reload" // reload changed extensions
)

// Watch sets how the host reacts to changes in the search paths and the configuration.
type Watch struct {
	Enabled bool   `json:"enabled"`                                // default false
	Mode    string `json:"mode" jsonschema:"enum=log,enum=reload"` // default log
	// quiet time before acting, in milliseconds; default 500
	Debounce manifest.Duration `json:"debounce_ms"`
}

// The values of Env.Mode.
const (
	EnvFilter    = "filter"    // the host's variables without those that look secret
	EnvAllowlist = "allowlist" // basic variables, Env.Pass and those that manifests declare
)

// Env sets which of the host's environment variables extensions see.
type Env struct {
	Mode string   `json:"mode" jsonschema:"enum=filter,enum=allowlist"` // default filter
	Pass []string `json:"pass"`                                         // variables that mode allowlist adds
}

// Sandbox sets the default confinement of extensions.
type Sandbox struct {
	// for extensions without [sandbox]: strict allows only their own folder and state directory, what the profile of
	// their command adds, and no network; default off
	Default string `json:"default" jsonschema:"enum=strict,enum=off"`
}

// The values of Entry.Hooks.
const (
	HooksAll  = "all"  // its hooks see every event, and calls of all extensions
	HooksOwn  = "own"  // its hooks see only calls of its own tools and its own state
	HooksNone = "none" // its hooks do not run
)

// Entry is the operator's settings for one extension.
type Entry struct {
	// laid over the manifest's [config]
	Config map[string]any `json:"config,omitempty" project:"tighten"`
	// added to its environment
	Env map[string]string `json:"env,omitempty" project:"tighten"`
	// a file of NAME=value lines, or YAML, added to its environment; env wins
	EnvFile string `json:"env_file,omitempty" project:"tighten" path:"true"`
	// variables to withhold although its manifest declares them
	EnvDeny []string `json:"env_deny,omitempty" project:"tighten"`
	// variables of the host to pass on although they look like secrets; same as exthost secret grant
	EnvPass []string `json:"env_pass,omitempty" project:"tighten"`
	// which events its hooks see; default own
	Hooks string `json:"hooks,omitempty" project:"tighten" jsonschema:"enum=all,enum=own,enum=none"`
	// directories in the answer to roots/list requests of its MCP server; default: ask the client
	Roots []string `json:"roots,omitempty" project:"yes" path:"true"`
	// laid over the manifest's [runtime]
	Runtime manifest.Runtime `json:"runtime,omitzero" project:"tighten"`
	// the host is not ready while the extension cannot run; default false
	Required bool `json:"required,omitempty" project:"yes"`
	// settings of single tools, by the names that the extension gives them
	Tools map[string]ToolEntry `json:"tools,omitempty" project:"tighten"`

	// replaces the manifest's [sandbox]; a project's file can only state strict
	Sandbox sandbox.Override `json:"sandbox,omitzero" project:"tighten"`

	// Linux: its processes may gain privileges through setuid programs (sudo, newuidmap) and file capabilities,
	// and keep the host's capabilities; not in a project's file; default false
	NewPrivileges bool `json:"new_privileges,omitempty" project:"tighten"`

	// Problems say why the values of the entry cannot be used: unset variables, an unreadable env_file. [Load]
	// sets them.
	Problems []string          `json:"-"`
	FileEnv  map[string]string `json:"-"` // the variables of env_file; [Load] sets them
}

// ToolEntry is the operator's settings for one tool.
type ToolEntry struct {
	// the most that a call of it can do, whatever it says of itself; a project's file can only raise it; default: what
	// its manifest's [risk] or its annotations say, write if they say nothing
	Risk protocol.Risk `json:"risk,omitempty"`
}

// Discovery returns the options of a search for these extensions.
func (e *Extensions) Discovery() discovery.Options {
	return discovery.Options{
		SearchPaths: e.SearchPaths,
		IgnoreDirs:  e.IgnoreDirs,
		Disabled:    e.Disabled,
		Allowlist:   e.Allowlist,
		Configured:  slices.Sorted(maps.Keys(e.Entries)),
		MaxDepth:    e.MaxDepth,
		FollowLinks: e.FollowLinks,
		Safe:        e.SafeDirectories,
	}
}

// Required returns the sorted ids of the extensions with required = true.
func (e *Extensions) Required() (ids []string) {
	for id, entry := range e.Entries {
		if entry.Required {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// SetDefaults makes e an empty entry.
func (e *Entry) SetDefaults() { *e = Entry{Hooks: HooksOwn} }

// Governance sets what policies receive besides the exchanges, and how their denials reach clients.
type Governance struct {
	// additional HTTP headers of callers for policies of category authentication, besides Authorization; at most
	// 16
	Headers []string `json:"headers,omitempty" project:"tighten"`
	// how a tools/call ends that a policy or hook rejects: result: a result with isError, which models read; error: a
	// JSON-RPC error; default result
	Rejections string `json:"rejections,omitempty" project:"yes" jsonschema:"enum=result,enum=error"`
}

// The values of Governance.Rejections.
const (
	RejectionsResult = "result"
	RejectionsError  = "error"
)

// Toolset selects and renames what a client sees. The zero value selects everything. Its fields:
//
//	Include  []string             // patterns of the names and URIs that clients see; nil: everything
//	Exclude  []string             // patterns of what clients do not see, even if included
//	Risk     []protocol.Risk      // of the tools that clients see; nil: all
//	Skills   []string             // patterns of the skills that clients see; nil: those whose files Include shows
//	Prefix   *string              // of the names of tools and prompts in place of ext_; nil: ext_
//	Describe map[string]string    // descriptions that replace those of tools, by registered name
//	Tools    map[string]ShownTool // tools in another shape, by registered name
type Toolset = toolset.Definition

// ShownTool is how a toolset shows one tool. The zero value shows it as it is, and is an error. Its fields:
//
//	Name        string              // that clients see and call; "": with the prefix of the toolset
//	Describe    string              // replaces the description; "": the tool's own
//	Args        map[string]ShownArg // how arguments are shown, by name; others are shown as they are
//	Annotations ShownAnnotations    // hints in place of those of the tool; the zero value: its own
//	Result      ShownResult         // what clients get of results; the zero value: all
//
// A tool that cannot be shown so is held back: no client sees or calls it, and the status says why.
type ShownTool = toolset.ShownTool

// ShownArg is how a toolset shows an argument of a tool. At most one of Fix, Default and Hide is set. Its fields:
//
//	Fix      any    // always sent, a value of JSON; clients do not see the argument, and may not send it; nil: none
//	Default  any    // sent for a client that does not send the argument; nil: none
//	Hide     bool   // clients do not see the argument, and it is never sent
//	Describe string // replaces its description; "": its own
type ShownArg = toolset.Arg

// ShownAnnotations are the hints of MCP that clients get about a tool, whose risk stays as it is. Its fields:
//
//	Title           string // a name for people; "": its own
//	ReadOnlyHint    *bool  // it changes nothing; nil: its own, as with those below
//	DestructiveHint *bool  // it may delete or overwrite
//	IdempotentHint  *bool  // a second equal call changes nothing more
//	OpenWorldHint   *bool  // it reaches beyond a closed set of things
type ShownAnnotations = toolset.Annotations

// ShownResult is what clients get of the results of a tool. Its fields:
//
//	Keep      []string // JSON Pointers into structuredContent, and into texts that are JSON; nil: all
//	MaxTokens int      // after which a result is cut, as bytes / 4; 0: no bound
type ShownResult = toolset.Result

// Server is the HTTP server.
type Server struct {
	// host:port; default 127.0.0.1:7800; port 0 is any free port
	Listen string `json:"listen" project:"yes"`
	// bearer token; default: none, which serves loopback only
	Auth Auth `json:"auth,omitzero" project:"tighten"`
	// the toolset of clients that have none of their own; they can use no other; default: they see everything
	Toolset string `json:"toolset,omitempty" project:"tighten"`
	// callers with tokens of their own, by name; with any, every HTTP client needs a token; not in a project's
	// file; default: none
	Clients        map[string]Client `json:"clients,omitempty" project:"no,say who the host's clients are"`
	AllowedOrigins []string          `json:"allowed_origins" project:"tighten"` // in addition to this machine's
	AllowedHosts   []string          `json:"allowed_hosts" project:"tighten"`   // in addition to this machine's
	TLS            TLS               `json:"tls,omitzero" project:"tighten"`    // default: none
	Metrics        bool              `json:"metrics" project:"yes"`             // serve /metrics; default true
	// maximum size of a request in bytes; default 16 MiB
	MaxBody manifest.Size `json:"max_body" project:"yes" jsonschema:"minimum=1024"`
	// how long lists wait, after the host has started, for extensions that are new to it and still starting; default 25
	// s, 0: not at all
	ListWait manifest.Duration `json:"list_wait" project:"yes"`
	// time without clients after which a background host of exthost serve --stdio ends; default 10 min, 0: never
	IdleExit manifest.Duration `json:"idle_exit" project:"yes"`
}

// toolsets returns the toolsets that s gives to clients, by key.
func (s *Server) toolsets() map[string]string {
	named := map[string]string{"server.toolset": s.Toolset}
	for name, c := range s.Clients {
		named[strict.Join("server.clients", name)+".toolset"] = c.Toolset
	}
	return named
}

// Client is a caller that policies, budgets and the audit log know by name.
type Client struct {
	// sha256: and the SHA-256 of its token in hex, as written by exthost client add; default: none, for clients on
	// stdio only
	TokenHash string `json:"token_hash,omitempty"`
	// the same for its previous token, as written by exthost client rotate --keep
	OldTokenHash string `json:"old_token_hash,omitempty"`
	OldUntil     string `json:"old_until,omitempty"` // end of the previous token, such as 2030-01-31T12:00:00Z
	Since        string `json:"since,omitempty"`     // creation of the token, for information
	// its toolset, the only one that it can use; default server.toolset
	Toolset string `json:"toolset,omitempty"`

	// how tools are listed to it; default tools.mode
	Mode string `json:"mode,omitempty" jsonschema:"enum=all,enum=search,enum=auto"`

	// all that it may do: metrics: read /metrics with its token, and call no tools; default: all that a client may do
	Scope string `json:"scope,omitempty" jsonschema:"enum=metrics"`

	// the risks of the calls that the person in front of it may approve there, where a policy asks with where: client;
	// default: none, operators answer
	Approves []protocol.Risk `json:"approves,omitempty"`
}

// ScopeMetrics is the [Client.Scope] of a client that reads the metrics alone.
const ScopeMetrics = "metrics"

// Auth states the bearer token in one of three ways, and an issuer of access tokens to accept; all empty: the host
// serves loopback and this user only.
type Auth struct {
	Token     string `json:"token,omitempty" secret:"true"`    // the token itself
	TokenEnv  string `json:"token_env,omitempty"`              // the environment variable that holds it
	TokenFile string `json:"token_file,omitempty" path:"true"` // the file that holds it
	// an authorization server whose tokens are also accepted; default: none
	OAuth OAuth `json:"oauth,omitzero"`

	// Linux: whose processes on this machine are answered without a token: user: this user's and root's; any: all; not
	// in a project's file; default user
	Loopback string `json:"loopback,omitempty" jsonschema:"enum=user,enum=any"`
}

// Stated reports whether a names a token or an issuer.
func (a *Auth) Stated() bool {
	return a.Token != "" || a.TokenEnv != "" || a.TokenFile != "" || a.OAuth.Issuer != ""
}

// The values of [Auth.Loopback].
const (
	LoopbackUser = "user"
	LoopbackAny  = "any"
)

// OAuth makes the server an OAuth 2.0 resource server. A caller is the subject of its access token, a signed JWT.
type OAuth struct {
	Issuer string `json:"issuer,omitempty"` // the authorization server, as its tokens name it
	// the URL that clients know this server by, such as https://host.example/mcp
	Resource string   `json:"resource,omitempty"`
	Audience string   `json:"audience,omitempty"` // the audience that tokens must have; default resource
	JWKSURL  string   `json:"jwks_url,omitempty"` // the URL of the issuer's keys; default: the one in its metadata
	Scopes   []string `json:"scopes,omitempty"`   // a token must have all of them
}

// TLS names a certificate and its key, both PEM files.
type TLS struct {
	Cert string `json:"cert,omitempty" path:"true"` // the chain, leaf first
	Key  string `json:"key,omitempty" path:"true"`  // the leaf's private key
}

// Audit is the log of all exchanges.
type Audit struct {
	// file of JSON lines; default: no audit log
	Path string `json:"path" path:"true"`
	// size in bytes at which the file is rotated; default 64 MiB
	MaxSize manifest.Size `json:"max_size" jsonschema:"minimum=65536"`
	// number of rotated files to keep; default 5
	Keep int `json:"keep" jsonschema:"minimum=0,maximum=1000"`
	// interval at which the hash of the last record is written to the host's log if it changed; default 1 min, 0:
	// only when the host ends
	Anchor manifest.Duration `json:"anchor"`
	// set by [Load] to the project's directory if a project's file states Path, which must be in that directory
	Within string `json:"-"`
}

// Log is the host's log.
type Log struct {
	// default info
	Level string `json:"level" jsonschema:"enum=trace,enum=debug,enum=info,enum=warn,enum=error"`
	// default auto: text on a terminal, else JSON
	Format string `json:"format" jsonschema:"enum=auto,enum=text,enum=json"`
	// file for a copy of the log, always JSON; default: none
	File string `json:"file" path:"true"`
	// size in bytes at which the file is rotated; default 64 MiB
	MaxSize manifest.Size `json:"max_size" jsonschema:"minimum=65536"`
	// number of rotated files to keep; default 5
	Keep int `json:"keep" jsonschema:"minimum=0,maximum=1000"`
	// like Audit.Within; [Load] sets it
	Within string `json:"-"`
}

// Cassette records the messages between the host and its extensions while the host runs.
type Cassette struct {
	// the cassette; an existing one is renamed to FILE.TIME, the time of its last record; default: no recording
	File string `json:"file,omitempty" path:"true"`
	// ids to record; default: all extensions and destinations
	Extensions []string `json:"extensions,omitempty"`
	// size at which the recording ends, at least 512; default 1 GiB
	MaxBytes manifest.Size `json:"max_bytes,omitempty"`
	// number of renamed cassettes to keep, the latest; default 5
	Keep int `json:"keep,omitempty" jsonschema:"minimum=1,maximum=1000"`
	// the directory that the file must be in, links resolved; "": anywhere
	Within string `json:"-"`
}

// Default returns the built-in configuration. Its search path is relative; [Load] makes it absolute.
func Default() *Config {
	return &Config{
		Extensions: Extensions{
			Enabled:       true,
			SearchPaths:   []string{"./extensions"},
			IgnoreDirs:    []string{"node_modules", ".git", "target"},
			MaxDepth:      4,
			Trust:         TrustAsk,
			MinReleaseAge: manifest.Duration(72 * time.Hour),
			Watch:         Watch{Mode: WatchLog, Debounce: manifest.Duration(500 * time.Millisecond)},
			Env:           Env{Mode: EnvFilter},
			Sandbox:       Sandbox{Default: sandbox.Off},
		},
		Tools: toolsearch.DefaultListing(),
		Server: Server{
			Listen:   "127.0.0.1:7800",
			Metrics:  true,
			MaxBody:  16 << 20,
			ListWait: manifest.Duration(25 * time.Second),
			IdleExit: manifest.Duration(10 * time.Minute),
		},
		Secrets: Secrets{Provider: SecretsAge, Timeout: manifest.Duration(30 * time.Second)},
		Audit:   Audit{MaxSize: 64 << 20, Keep: 5, Anchor: manifest.Duration(time.Minute)},
		Cluster: cluster.Default(),
		Log:     Log{Level: "info", Format: "auto", MaxSize: 64 << 20, Keep: 5},
	}
}
