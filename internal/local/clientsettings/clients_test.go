package clientsettings

import (
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestUser checks the user's files on each system, as documented by the clients.
func TestUser(t *testing.T) {
	env := map[string]string{}
	for system, want := range map[string]map[string]string{
		"linux": {
			"claude": "~/.claude.json", "claude-desktop": "~/.config/Claude/claude_desktop_config.json",
			"cursor": "~/.cursor/mcp.json",
			"vscode": "~/.config/Code/User/mcp.json", "vscode-insiders": "~/.config/Code - Insiders/User/mcp.json",
			"codex":  "~/.codex/config.toml",
			"gemini": "~/.gemini/settings.json", "windsurf": "~/.codeium/windsurf/mcp_config.json",
			"zed":      "~/.config/zed/settings.json",
			"opencode": "~/.config/opencode/opencode.json ~/.config/opencode/opencode.jsonc",
		},
		"darwin": {
			"claude":          "~/.claude.json",
			"claude-desktop":  "~/Library/Application Support/Claude/claude_desktop_config.json",
			"cursor":          "~/.cursor/mcp.json",
			"vscode":          "~/Library/Application Support/Code/User/mcp.json",
			"vscode-insiders": "~/Library/Application Support/Code - Insiders/User/mcp.json",
			"codex":           "~/.codex/config.toml",
			"gemini":          "~/.gemini/settings.json", "windsurf": "~/.codeium/windsurf/mcp_config.json",
			"zed":      "~/.config/zed/settings.json",
			"opencode": "~/.config/opencode/opencode.json ~/.config/opencode/opencode.jsonc",
		},
		"windows": {
			"claude": "~/.claude.json", "claude-desktop": "~/AppData/Roaming/Claude/claude_desktop_config.json",
			"cursor":          "~/.cursor/mcp.json",
			"vscode":          "~/AppData/Roaming/Code/User/mcp.json",
			"vscode-insiders": "~/AppData/Roaming/Code - Insiders/User/mcp.json", "codex": "~/.codex/config.toml",
			"gemini": "~/.gemini/settings.json", "windsurf": "~/.codeium/windsurf/mcp_config.json",
			"zed":      "~/AppData/Roaming/Zed/settings.json",
			"opencode": "~/.config/opencode/opencode.json ~/.config/opencode/opencode.jsonc",
		},
	} {
		got := map[string]string{}
		for _, c := range All() {
			got[c.ID] = slashed(c.User(Places{
				System: system,
				Home:   "/h",
				Env:    func(name string) string { return env[name] },
			}))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", system, diff)
		}
	}
}

func slashed(files []string) string {
	var short []string
	for _, f := range files {
		short = append(short, strings.Replace(filepath.ToSlash(f), "/h/", "~/", 1))
	}
	return strings.Join(short, " ")
}

// TestSkills checks the folders of skills, as documented by the clients, and the variables that move them.
func TestSkills(t *testing.T) {
	for variables, want := range map[string]string{
		"": "claude ~/.claude/skills; cursor ~/.cursor/skills; codex ~/.agents/skills; gemini ~/.gemini/skills",
		"CLAUDE_CONFIG_DIR CODEX_HOME GEMINI_CLI_HOME": "claude /x/skills; cursor ~/.cursor/skills; " +
			"codex ~/.agents/skills; gemini /x/.gemini/skills",
	} {
		var got []string
		for _, c := range All() {
			if dir := c.UserSkills(Places{System: "linux", Home: "/h", Env: func(name string) string {
				if strings.Contains(variables, name) {
					return "/x"
				}
				return ""
			}}); dir != "" {
				got = append(got, c.ID+" "+slashed([]string{dir}))
			}
		}
		if got := strings.Join(got, "; "); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

// TestMoved checks the variables that move a client's files.
func TestMoved(t *testing.T) {
	for id, tt := range map[string]struct{ variable, want string }{
		"claude": {"CLAUDE_CONFIG_DIR", "/x/.claude.json"},
		"codex":  {"CODEX_HOME", "/x/config.toml"},
		"gemini": {"GEMINI_CLI_HOME", "/x/.gemini/settings.json"},
		"vscode": {"XDG_CONFIG_HOME", "/x/Code/User/mcp.json"},
		"zed":    {"XDG_CONFIG_HOME", "/x/zed/settings.json"},
	} {
		got := Find(id).User(Places{
			System: "linux",
			Home:   "/h",
			Env:    func(name string) string { return map[string]string{tt.variable: "/x"}[name] },
		})
		if slashed(got) != tt.want {
			t.Errorf("%s: %v, want %s", id, got, tt.want)
		}
	}
}

// TestPackagedDesktop checks Claude Desktop installed as a Windows package.
func TestPackagedDesktop(t *testing.T) {
	p := Places{
		System: "windows",
		Home:   "/h",
		Env:    func(string) string { return "" },
		Glob: func(pattern string) []string {
			if ok, err := path.Match(filepath.ToSlash(pattern),
				"/h/AppData/Local/Packages/Claude_x1/LocalCache/Roaming/Claude"); !ok || err != nil {
				t.Errorf("%s does not match: %v", pattern, err)
			}
			return []string{"/h/p/Claude"}
		},
	}
	if got := slashed(Find("claude-desktop").User(p)); got !=
		"~/p/Claude/claude_desktop_config.json ~/AppData/Roaming/Claude/claude_desktop_config.json" {
		t.Error(got)
	}
}

func TestServes(t *testing.T) {
	for line, want := range map[string]string{
		"/usr/local/bin/exthost serve --stdio --dir /a --as x": "/a",
		`C:\bin\exthost.exe serve --watch --stdio --dir=/a`:    "/a",
		"exthost-1.2 serve --dir /a --stdio --dir /b":          "/b",
		"exthost serve --stdio --extensions /a":                "",
		"exthost serve --listen :0":                            "no",
		"npx exthost serve --stdio":                            "no",
		"/opt/exthost/other serve --stdio":                     "no",
		"exthost call x":                                       "no",
		"exthost":                                              "no",
	} {
		dir, ours := Serves(strings.Fields(line))
		if !ours {
			dir = "no"
		}
		if dir != want {
			t.Errorf("%s: %q, want %q", line, dir, want)
		}
	}
}
