package config

import (
	"time"

	"github.com/exthost/exthost/manifest"
)

// The values of Destination.Type.
const (
	DestinationSSE   = "sse"
	DestinationStdio = "stdio"
	DestinationHTTP  = "http"
)

// CredentialsPerCaller has each caller sign in with a login of its own.
const CredentialsPerCaller = "per_caller"

// DefaultStartTimeout bounds the start of a destination, handshake included. It is long because package runners
// download the program first.
const DefaultStartTimeout = manifest.Duration(120 * time.Second)

// Destinations are MCP servers bridged to HTTP, by name. A file states them as a map, or as a list of elements
// with a name.
type Destinations map[string]Destination

// Destination is one MCP server that clients reach through the host.
type Destination struct {
	// default sse, with a command stdio
	Type string `json:"type" project:"tighten" jsonschema:"enum=sse,enum=stdio,enum=http"`
	// sse and http only
	URL string `json:"url,omitempty" project:"tighten"`
	// sse and http only: sent to the server
	Headers map[string]string `json:"headers,omitempty" project:"yes" secret:"true"`
	// sse and http only: as [transport.oauth] of a manifest
	OAuth *manifest.OAuthClient `json:"oauth,omitempty" project:"yes"`
	// sse and http only: shared: one login for all callers; per_caller: each caller's own (exthost secret login NAME
	// --caller CALLER); default shared
	Credentials string `json:"credentials,omitempty" project:"yes" jsonschema:"enum=shared,enum=per_caller"`
	// stdio only: argv, or one string; a path with a slash is relative to cwd, ~/ is the home directory
	Command manifest.Command `json:"command,omitempty" project:"tighten"`
	// stdio only: added to the filtered environment
	Env map[string]string `json:"env,omitempty" project:"tighten"`
	// stdio only: maps a client's header to a variable of the child
	EnvFromHeaders map[string]string `json:"env_from_headers,omitempty" project:"tighten" secret:"false"`
	// stdio only: a file of NAME=value lines, or YAML, added to the environment
	SecretsFile string `json:"secrets_file,omitempty" project:"tighten" path:"true"`
	// stdio only; default: the directory of the file that states the destination
	Cwd string `json:"cwd,omitempty" project:"tighten" path:"true"`
	// directories in the answer to roots/list requests of the server; default: ask the client
	Roots []string `json:"roots,omitempty" project:"yes" path:"true"`
	// stdio only: default per_session
	Instances manifest.Instances `json:"instances,omitempty" project:"yes"`
	// stdio only: a port of its own on 127.0.0.1; 0 is any free port
	Port int `json:"port,omitempty" project:"yes" jsonschema:"minimum=0,maximum=65535"`
	// limit of a start, handshake included; default 120 s
	StartTimeout manifest.Duration `json:"start_timeout,omitempty" project:"yes"`
	// stdio only, Linux: its processes may gain privileges through setuid programs (sudo, newuidmap) and file
	// capabilities, and keep the host's capabilities; not in a project's file; default false
	NewPrivileges bool `json:"new_privileges,omitempty" project:"tighten"`

	// Unset lists the unset variables that these values refer to, with their places; the secrets_file may still
	// define them. [Load] sets it.
	Unset []string `json:"-"`

	// ProjectSecrets and Project are true if a project's file states the secrets_file or the url. [Load] sets
	// them.
	ProjectSecrets, Project bool `json:"-"`
}

// SetDefaults makes d an empty destination. Type stays empty, since its default depends on other fields.
func (d *Destination) SetDefaults() {
	*d = Destination{Instances: manifest.InstancesPerSession, StartTimeout: DefaultStartTimeout}
}
