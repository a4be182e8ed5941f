// Package known is the table of the MCP clients whose settings this program reads and changes: where
// each keeps them, and how it states a server.
package known

import (
	"path/filepath"
	"slices"
	"strings"
)

// Client is one client. Its settings are JSON, of which comments and trailing commas are kept, or TOML.
type Client struct {
	ID    string // as users write it
	Title string // as the client calls itself

	Key     string // the table of servers in a file
	Kind    string // the member type of a server that is a process; "": it is not stated
	Joined  bool   // the arguments follow the program in one list
	Expands string // how a part of a text begins that the client replaces, such as a variable; "": none is
	Locks   bool   // it holds the directory FILE.lock while it writes settings of the user
	Next    string // what a person does for the client to read its settings again

	project []string                // of the file below a project's directory; nil: there is none
	user    func(p Places) []string // the files of a user, the usual one first
}

// Places are the facts of a machine and its user that tell where files are.
type Places struct {
	System string                   // as [runtime.GOOS]
	Home   string                   // the user's home directory
	Env    func(name string) string // the value of a variable, "" when it is not set
	Glob   func(pattern string) []string
}

// all are the clients in the order in which they are listed.
var all = []Client{
	{ID: "claude", Title: "Claude Code", Key: "mcpServers", Kind: "stdio", Expands: "${", Locks: true,
		Next: "start Claude Code again; /mcp shows the server", project: []string{".mcp.json"},
		user: func(p Places) []string { return []string{filepath.Join(p.or("CLAUDE_CONFIG_DIR"), ".claude.json")} }},
	{ID: "claude-desktop", Title: "Claude Desktop", Key: "mcpServers",
		Next: "quit Claude Desktop and start it again", user: desktop},
	{ID: "cursor", Title: "Cursor", Key: "mcpServers", Kind: "stdio", Expands: "${",
		Next: "switch the server on in Cursor's settings, under MCP", project: []string{".cursor", "mcp.json"},
		user: func(p Places) []string { return []string{filepath.Join(p.Home, ".cursor", "mcp.json")} }},
	{ID: "vscode", Title: "VS Code", Key: "servers", Kind: "stdio", Expands: "${",
		Next: "run MCP: List Servers in VS Code, and start the server", project: []string{".vscode", "mcp.json"},
		user: func(p Places) []string { return []string{filepath.Join(p.settings(), "Code", "User", "mcp.json")} }},
	{ID: "vscode-insiders", Title: "VS Code Insiders", Key: "servers", Kind: "stdio", Expands: "${",
		Next: "run MCP: List Servers in VS Code, and start the server", project: []string{".vscode", "mcp.json"},
		user: func(p Places) []string {
			return []string{filepath.Join(p.settings(), "Code - Insiders", "User", "mcp.json")}
		}},
	{ID: "codex", Title: "Codex", Key: "mcp_servers",
		Next: "start Codex again; /mcp shows the server", project: []string{".codex", "config.toml"},
		user: func(p Places) []string { return []string{filepath.Join(p.or("CODEX_HOME", ".codex"), "config.toml")} }},
	{ID: "gemini", Title: "Gemini CLI", Key: "mcpServers", Expands: "$",
		Next: "start Gemini CLI again; /mcp shows the server", project: []string{".gemini", "settings.json"},
		user: func(p Places) []string {
			return []string{filepath.Join(p.or("GEMINI_CLI_HOME"), ".gemini", "settings.json")}
		}},
	{ID: "windsurf", Title: "Windsurf", Key: "mcpServers", Expands: "${",
		Next: "refresh the servers in Windsurf's settings",
		user: func(p Places) []string {
			return []string{filepath.Join(p.Home, ".codeium", "windsurf", "mcp_config.json")}
		}},
	{ID: "zed", Title: "Zed", Key: "context_servers",
		Next: "Zed reads its settings at once", project: []string{".zed", "settings.json"},
		user: func(p Places) []string {
			if p.System == "windows" {
				return []string{filepath.Join(p.settings(), "Zed", "settings.json")}
			}
			return []string{filepath.Join(p.dotConfig(), "zed", "settings.json")}
		}},
	{ID: "opencode", Title: "opencode", Key: "mcp", Kind: "local", Joined: true, Expands: "{",
		Next: "start opencode again", project: []string{"opencode.json"},
		user: func(p Places) []string {
			dir := filepath.Join(p.dotConfig(), "opencode")
			return []string{filepath.Join(dir, "opencode.json"), filepath.Join(dir, "opencode.jsonc")}
		}},
}

// All returns all clients.
func All() []Client { return slices.Clone(all) }

// IDs returns the ids of all clients.
func IDs() (ids []string) {
	for _, c := range all {
		ids = append(ids, c.ID)
	}
	return ids
}

// Find returns the client of that id, nil when there is none.
func Find(id string) *Client {
	i := slices.IndexFunc(all, func(c Client) bool { return c.ID == id })
	if i < 0 {
		return nil
	}
	return &all[i]
}

// TOML reports whether the settings are TOML.
func (c *Client) TOML() bool { return c.Key == "mcp_servers" }

// Env is the name of the table of variables in a server.
func (c *Client) Env() string {
	if c.Joined {
		return "environment"
	}
	return "env"
}

// Project returns the file of a project, "" when the client has none.
func (c *Client) Project(dir string) string {
	if c.project == nil {
		return ""
	}
	return filepath.Join(append([]string{dir}, c.project...)...)
}

// User returns the files that the client may read of a user, the usual one first.
func (c *Client) User(p Places) []string { return c.user(p) }

// or is the directory that a variable names, else the one below the home directory.
func (p Places) or(variable string, below ...string) string {
	if dir := p.Env(variable); dir != "" {
		return dir
	}
	return filepath.Join(append([]string{p.Home}, below...)...)
}

// settings is the directory for the settings of programs with windows.
func (p Places) settings() string {
	switch p.System {
	case "windows":
		return p.or("APPDATA", "AppData", "Roaming")
	case "darwin":
		return filepath.Join(p.Home, "Library", "Application Support")
	}
	return p.dotConfig()
}

// dotConfig is the directory for settings of the XDG specification, which some programs use on
// every system.
func (p Places) dotConfig() string { return p.or("XDG_CONFIG_HOME", ".config") }

// desktop are the files of Claude Desktop. As a package of Windows it sees files of its own in the
// place of those in APPDATA.
func desktop(p Places) (files []string) {
	const name = "claude_desktop_config.json"
	if p.System == "windows" && p.Glob != nil {
		for _, dir := range p.Glob(filepath.Join(p.or("LOCALAPPDATA", "AppData", "Local"), "Packages", "Claude_*",
			"LocalCache", "Roaming", "Claude")) {
			files = append(files, filepath.Join(dir, name))
		}
	}
	return append(files, filepath.Join(p.settings(), "Claude", name))
}

// Serves returns the directory whose host a command line connects to, as exthost connect writes it.
// ours reports whether it is the command line of a client of this program at all; dir is "" for one
// that names no directory.
func Serves(argv []string) (dir string, ours bool) {
	if len(argv) < 3 || !strings.HasPrefix(base(argv[0]), "exthost") || argv[1] != "serve" ||
		!slices.Contains(argv[2:], "--stdio") {
		return "", false
	}
	return Flag(argv, "--dir"), true
}

// Flag returns the value of a flag in a command line, "" when it is not there.
func Flag(argv []string, name string) (value string) {
	for i, arg := range argv {
		if v, ok := strings.CutPrefix(arg, name+"="); ok {
			value = v
		} else if arg == name && i+1 < len(argv) {
			value = argv[i+1]
		}
	}
	return value
}

// base is the last element of a path of any system.
func base(path string) string { return path[strings.LastIndexAny(path, `/\`)+1:] }
