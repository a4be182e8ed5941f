// Package clientconfig reads the configurations of other programs: the MCP servers of Claude Code, Cursor, VS
// Code, Codex, Gemini, Cline, Roo Code, Goose, Continue and opencode, mcpv catalogs, ContextForge plugins, nexo
// extensions, and destination files. It writes servers as extensions or destinations, and policies and settings as
// configuration files.
package clientconfig

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/BurntSushi/toml"
	"go.yaml.in/yaml/v3"

	"github.com/exthost/exthost/internal/local/clientsettings"
	"github.com/exthost/exthost/manifest"
)

// Client is a program whose configuration can be read.
type Client string

const (
	ClaudeCode Client = "claude"
	Cursor     Client = "cursor"
	VSCode     Client = "vscode"
	Codex      Client = "codex"
	Gemini     Client = "gemini"
	Cline      Client = "cline" // and Roo Code and Kilo Code

	Goose    Client = "goose"    // config.yaml
	Continue Client = "continue" // config.yaml
	OpenCode Client = "opencode" // opencode.json

	MCPV         Client = "mcpv"         // a catalog: servers and plugins
	ContextForge Client = "contextforge" // catalog of servers and plugins
	Nexo         Client = "nexo"         // extensions.yaml
	Destinations Client = "destinations" // destinations.yml
)

// Clients returns all clients.
func Clients() []string {
	return []string{string(ClaudeCode), string(Cline), string(Codex), string(Continue), string(ContextForge),
		string(Cursor), string(Destinations), string(Gemini), string(Goose), string(MCPV), string(Nexo),
		string(OpenCode), string(VSCode)}
}

// Options configure Read.
type Options struct {
	From      Client // client of the file; "" infers it from path and content
	Home      string // the user's home directory, for references to it
	Workspace string // project of the file; "" infers it from the path
	Secrets   bool   // keep secrets in plain text
	Bridge    bool   // write destinations instead of extensions
	Lock      bool   // the caller locks packages, so unpinned versions need no note
	Plugin    string // id of the extension that the servers belong to, because they are those of a plugin; "": none

	// Store reports whether a secret can be stored under a name: the name is free, or has the same value. nil:
	// secrets become variables instead.
	Store func(name, value string) bool
}

// Server is one MCP server.
type Server struct {
	ID   string // extension or destination id
	Name string // in the client's file

	Kind    string // stdio, http or sse
	Command string
	Args    []string
	Env     map[string]string // values may contain ${NAME} or ${NAME:-default}
	EnvFile string
	Cwd     string
	URL     string
	Headers map[string]string

	Pass         []string // environment variables to pass through
	Tools        []string // offered tools; nil: all
	StartTimeout time.Duration
	CallTimeout  time.Duration
	Runtime      map[string]string // further keys of [runtime], with values as TOML or YAML literals
	Disabled     bool              // disabled in the client's file

	OAuth *manifest.OAuthClient // OAuth client for logins; nil: none configured

	Variables []string          // variables to set in the environment, in place of secrets
	Secrets   map[string]string // values to store by name; "": to be asked for
}

// Note describes a problem with one server, or with the file if Server is "".
type Note struct {
	Server  string
	Dropped bool // the server was left out
	Message string
}

// Result is the result of reading a file.
type Result struct {
	Client  Client
	Servers []Server // sorted by ID
	Notes   []Note
	Config  []File // configuration files for what is not a server: policies, settings
}

// Disabled returns the sorted ids of servers that are disabled in the client's file.
func (r *Result) Disabled() (ids []string) {
	for _, s := range r.Servers {
		if s.Disabled {
			ids = append(ids, s.ID)
		}
	}
	return ids
}

// maxFile limits a file, in bytes.
const maxFile = 8 << 20

// Read parses the content of the file at path. It fails if the file is not a client's configuration.
func Read(path string, data []byte, o Options) (*Result, error) {
	if len(data) > maxFile {
		return nil, fmt.Errorf("over %d MiB", maxFile>>20)
	}
	root, err := parse(path, data)
	if err != nil {
		return nil, err
	}
	r := &reader{Options: o, path: path, result: &Result{Client: o.From}, used: map[string]bool{}}
	r.masker = masker{
		plain:     r.Secrets,
		note:      r.note,
		store:     r.Store,
		variables: map[string]string{},
		stored:    map[string]string{},
	}
	r.inputs = inputsOf(root)
	r.result.Client = cmp.Or(r.result.Client, clientOf(path, root))
	if r.Plugin == "" { // a plugin knows nothing of projects
		r.Workspace = cmp.Or(r.Workspace, workspaceOf(path, o.Home))
	}
	servers, err := r.servers(root)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		r.server(name, servers[name])
	}
	r.allowed(root)
	slices.SortFunc(r.result.Servers, func(a, b Server) int { return strings.Compare(a.ID, b.ID) })
	return r.result, nil
}

// parse decodes TOML, YAML, or JSON with comments and trailing commas.
func parse(path string, data []byte) (root map[string]any, err error) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")) // a byte order mark, written by Windows programs
	if !utf8.Valid(data) {
		return nil, errors.New("it is not UTF-8")
	}
	if isYAML(path) {
		if err := decodeYAML(data, &root); err != nil {
			return nil, err
		}
		for key, v := range root {
			root[key] = textKeys(v)
		}
		return root, nil
	}
	isTOML := strings.EqualFold(filepath.Ext(path), ".toml")
	if err := clientsettings.Bounds(data, isTOML); err != nil {
		return nil, err
	}
	if isTOML {
		return root, toml.Unmarshal(data, &root)
	}
	plain, err := clientsettings.Standardize(data)
	if err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "hujson: "))
	}
	d := json.NewDecoder(bytes.NewReader(plain))
	d.UseNumber() // keeps numbers with 20 digits exact
	return root, d.Decode(&root)
}

// decodeYAML decodes a file with exactly one document.
func decodeYAML(data []byte, into any) error {
	d := yaml.NewDecoder(bytes.NewReader(data))
	if err := d.Decode(into); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	var second yaml.Node
	if err := d.Decode(&second); !errors.Is(err, io.EOF) {
		return errors.New("there is a second YAML document; put everything into the first")
	}
	return nil
}

// textKeys converts YAML map keys that are numbers or booleans to strings, like programs that read YAML as JSON.
func textKeys(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = textKeys(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = textKeys(v[key])
		}
	case map[any]any:
		t := make(map[string]any, len(v))
		for key, member := range v {
			t[fmt.Sprint(key)] = textKeys(member)
		}
		return t
	}
	return v
}

// folders are the clients that keep their file in a folder of their own.
var folders = map[string]Client{
	".cursor":   Cursor,
	".gemini":   Gemini,
	".vscode":   VSCode,
	".roo":      Cline,
	".kilocode": Cline,
}

func clientOf(path string, root map[string]any) Client {
	dir, base := filepath.Base(filepath.Dir(path)), filepath.Base(path)
	switch {
	case strings.EqualFold(filepath.Ext(path), ".toml"):
		return Codex
	case isYAML(path):
		return programOf(root)
	case isOpenCode(table(root["mcp"])):
		return OpenCode
	case folders[dir] != "":
		return folders[dir]
	case root["servers"] != nil && root["mcpServers"] == nil || root["mcp"] != nil:
		return VSCode
	case base == "cline_mcp_settings.json" || base == "mcp_settings.json":
		return Cline
	case base == "settings.json" && root["mcpServers"] != nil:
		return Gemini
	}
	return ClaudeCode
}

// workspaceOf returns the project directory of a file, or "" for a user's file.
func workspaceOf(path, home string) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		return ""
	}
	dir := filepath.Dir(abs)
	switch folder := filepath.Base(dir); {
	case folders[folder] != "", folder == ".codex":
		dir = filepath.Dir(dir)
	case filepath.Base(abs) != ".mcp.json":
		return ""
	}
	if dir == filepath.Clean(home) {
		return ""
	}
	return dir
}

func table(v any) map[string]any {
	t, _ := v.(map[string]any)
	return t
}

// inOrder yields the members of a table sorted by name.
func inOrder(t map[string]any) iter.Seq2[string, any] {
	return func(yield func(string, any) bool) {
		for _, name := range slices.Sorted(maps.Keys(t)) {
			if !yield(name, t[name]) {
				return
			}
		}
	}
}

func (r *reader) list(root map[string]any) (map[string]map[string]any, error) {
	var lists []any
	switch r.result.Client {
	case Codex:
		lists = []any{root["mcp_servers"]}
	case VSCode:
		lists = []any{root["servers"], table(root["mcp"])["servers"]} // the second is in a settings.json
	default:
		lists = []any{root["mcpServers"], root["servers"], root["context_servers"]}
	}
	all := make(map[string]map[string]any)
	found := false
	for _, list := range lists {
		if list == nil {
			continue
		}
		found = true
		if table(list) == nil {
			return nil, errors.New("its servers are no table")
		}
		for name, v := range inOrder(table(list)) {
			if server := table(v); server == nil {
				r.drop(name, "it is no table")
			} else {
				all[name] = server
			}
		}
	}
	for project, v := range inOrder(table(root["projects"])) { // in a ~/.claude.json
		for name, v := range inOrder(table(table(v)["mcpServers"])) {
			found = true
			if all[name] != nil {
				r.note(name, "there is another server of this name in %s, which is left out", project)
			} else if all[name] = table(v); all[name] != nil {
				all[name]["cwd"] = project
			}
		}
	}
	if !found {
		return nil, fmt.Errorf("there is no %s in the file, as %s has it",
			map[Client]string{Codex: "[mcp_servers.NAME]", VSCode: `"servers"`, Cursor: `"mcpServers"`,
				Gemini: `"mcpServers"`, Cline: `"mcpServers"`, ClaudeCode: `"mcpServers"`}[r.result.Client], r.result.Client)
	}
	return all, nil
}
