// Package clientsettings knows where MCP clients keep their settings and how these describe a server. It finds, adds,
// changes and removes one server in such a text, and keeps every other byte: comments, order, indentation and line
// breaks.
//
// Each change is verified: after decoding, the texts before and after may differ only in the server. Otherwise the
// change fails, and the user has to make it by hand.
package clientsettings

import (
	"path/filepath"
	"slices"
	"strings"
)

// Client is an MCP client. Its settings are TOML, or JSON that may have comments and trailing commas.
type Client struct {
	ID    string // as users write it
	Title string // display name

	Key     string // table of servers in the settings
	Kind    string // value of a stdio server's member type; "" if it has none
	Joined  bool   // command and arguments are one list
	Expands string // start of text that the client expands, such as a variable; "" for none
	Locks   bool   // the client holds the directory FILE.lock while it writes user settings
	Next    string // what the user does to make the client read its settings

	Skills string // folder of skills below a project's directory, with slashes; "" for none

	project []string                // settings file below a project's directory; nil for none
	user    func(p Places) []string // the user's settings files, the usual one first
	// userSkills returns the user's folder of skills; nil: it is Skills below the home directory
	userSkills func(p Places) string
}

// Places describes the machine and user whose files are looked up.
type Places struct {
	System string                   // a [runtime.GOOS]
	Home   string                   // home directory
	Env    func(name string) string // returns a variable, "" if not set
	Glob   func(pattern string) []string
}

// all lists the clients in display order.
var all = []Client{
	{ID: "claude", Title: "Claude Code", Key: "mcpServers", Kind: "stdio", Expands: "${", Locks: true,
		Next: "start Claude Code again; /mcp shows the server", project: []string{".mcp.json"},
		user:   func(p Places) []string { return []string{filepath.Join(p.or("CLAUDE_CONFIG_DIR"), ".claude.json")} },
		Skills: ".claude/skills",
		userSkills: func(p Places) string {
			return filepath.Join(p.or("CLAUDE_CONFIG_DIR", ".claude"), "skills")
		}},
	{ID: "claude-desktop", Title: "Claude Desktop", Key: "mcpServers",
		Next: "quit Claude Desktop and start it again", user: desktop},
	{ID: "cursor", Title: "Cursor", Key: "mcpServers", Kind: "stdio", Expands: "${",
		Next: "switch the server on in Cursor's settings, under MCP", project: []string{".cursor", "mcp.json"},
		user:   func(p Places) []string { return []string{filepath.Join(p.Home, ".cursor", "mcp.json")} },
		Skills: ".cursor/skills"},
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
		user:   func(p Places) []string { return []string{filepath.Join(p.or("CODEX_HOME", ".codex"), "config.toml")} },
		Skills: ".agents/skills"}, // which further clients read too
	{ID: "gemini", Title: "Gemini CLI", Key: "mcpServers", Expands: "$",
		Next: "start Gemini CLI again; /mcp shows the server", project: []string{".gemini", "settings.json"},
		user: func(p Places) []string {
			return []string{filepath.Join(p.or("GEMINI_CLI_HOME"), ".gemini", "settings.json")}
		},
		Skills: ".gemini/skills",
		userSkills: func(p Places) string {
			return filepath.Join(p.or("GEMINI_CLI_HOME"), ".gemini", "skills")
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

// Find returns the client with this id, or nil.
func Find(id string) *Client {
	i := slices.IndexFunc(all, func(c Client) bool { return c.ID == id })
	if i < 0 {
		return nil
	}
	return &all[i]
}

func (c *Client) TOML() bool { return c.Key == "mcp_servers" }

// Env returns the name of a server's table of variables.
func (c *Client) Env() string {
	if c.Joined {
		return "environment"
	}
	return "env"
}

// Project returns the client's settings file in a project, or "".
func (c *Client) Project(dir string) string {
	if c.project == nil {
		return ""
	}
	return filepath.Join(append([]string{dir}, c.project...)...)
}

// User returns the user's settings files that the client may read, the usual one first.
func (c *Client) User(p Places) []string { return c.user(p) }

// UserSkills returns the folder in which the client looks for the user's skills, or "".
func (c *Client) UserSkills(p Places) string {
	switch {
	case c.Skills == "":
		return ""
	case c.userSkills == nil:
		return filepath.Join(p.Home, filepath.FromSlash(c.Skills))
	}
	return c.userSkills(p)
}

// or returns the directory in a variable, or else one below the home directory.
func (p Places) or(variable string, below ...string) string {
	if dir := p.Env(variable); dir != "" {
		return dir
	}
	return filepath.Join(append([]string{p.Home}, below...)...)
}

// settings returns the directory for settings of desktop applications.
func (p Places) settings() string {
	switch p.System {
	case "windows":
		return p.or("APPDATA", "AppData", "Roaming")
	case "darwin":
		return filepath.Join(p.Home, "Library", "Application Support")
	}
	return p.dotConfig()
}

// dotConfig returns the XDG configuration directory, which some programs use on every system.
func (p Places) dotConfig() string { return p.or("XDG_CONFIG_HOME", ".config") }

// desktop returns the settings files of Claude Desktop. If installed as a Windows package, it sees files of its
// own in place of those in APPDATA.
func desktop(p Places) (files []string) {
	const name = "claude_desktop_config.json"
	if p.System == "windows" && p.Glob != nil {
		packages := filepath.Join(p.or("LOCALAPPDATA", "AppData", "Local"), "Packages")
		for _, dir := range p.Glob(filepath.Join(packages, "Claude_*", "LocalCache", "Roaming", "Claude")) {
			files = append(files, filepath.Join(dir, name))
		}
	}
	return append(files, filepath.Join(p.settings(), "Claude", name))
}

// Serves parses a command line written by exthost connect, and returns its directory, or "" if it names none.
// ours is false for other command lines.
func Serves(argv []string) (dir string, ours bool) {
	if len(argv) < 3 || !strings.HasPrefix(base(argv[0]), "exthost") || argv[1] != "serve" ||
		!slices.Contains(argv[2:], "--stdio") {
		return "", false
	}
	return Flag(argv, "--dir"), true
}

// Flag returns the value of a flag in a command line, or "".
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

// base returns the last element of a path on any system.
func base(path string) string { return path[strings.LastIndexAny(path, `/\`)+1:] }
