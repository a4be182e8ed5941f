package vendorplugin

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/internal/supply/marketplace"
	"github.com/exthost/exthost/manifest"
)

// folder writes the files of a plugin.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const skill = "---\nname: s\ndescription: d\n---\n"

// TestFormats translates one plugin of each format. The manifest that comes out is valid, and what means nothing here
// is named.
func TestFormats(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		toml  string // without the comment
		notes []string
	}{
		"claude": {map[string]string{
			".claude-plugin/plugin.json": `{"name": "Deploy Kit", "version": "1.2.0",
				"description": "Deploys\n  things.", "author": {"name": "A"}, "license": "MIT",
				"homepage": "https://example.com", "commands": "./more",
				"userConfig": {"region": {"default": "eu"}, "api-key": {"sensitive": true, "title": "Key"}},
				"mcpServers": {"inline": {"command": "${CLAUDE_PLUGIN_ROOT}/bin/server", "args": ["--dir",
				"${CLAUDE_PLUGIN_DATA}/x", "--region=${user_config.region}"]}}}`,
			".mcp.json": `{"remote": {"type": "http", "url": "https://mcp.example.com/mcp", "headers": {"Authorization":
				"Bearer ${API_TOKEN}", "X-Key": "${user_config.api-key}", "X-Team": "${TEAM:-all}"}}}`,
			"hooks/hooks.json": `{"description": "d", "hooks": {"PreToolUse": [{"matcher": "mcp__x__.*", "hooks": [
				{"type": "command", "command": "\"${CLAUDE_PLUGIN_ROOT}/hooks/check.sh\"", "timeout": 10}]}],
				"PreCompact": [{"hooks": [{"type": "command", "command": "true"}]}]}}`,
			"agents/a.md":       "a",
			"skills/s/SKILL.md": skill + "run ${CLAUDE_PLUGIN_ROOT}/x",
		}, `[plugin]
id = "deploy-kit"
version = "1.2.0"
description = "Deploys things."

[requires]
hint = { "CLAUDE_PLUGIN_OPTION_API_KEY" = "Key" }

[mcp_servers."inline"]
type = "stdio"
command = "./bin/server"
args = ["--dir", "${EXTHOST_STATE_DIR}/../deploy-kit/x", "--region=${CLAUDE_PLUGIN_OPTION_REGION:-eu}"]
env = { "CLAUDE_PLUGIN_DATA" = "${EXTHOST_STATE_DIR}/../deploy-kit", ` +
			`"CLAUDE_PLUGIN_ROOT" = "${EXTHOST_EXTENSION_DIR}" }

[mcp_servers."remote"]
type = "http"
url = "https://mcp.example.com/mcp"
headers = { "Authorization" = "Bearer ${API_TOKEN}", "X-Key" = "${CLAUDE_PLUGIN_OPTION_API_KEY}", ` +
			`"X-Team" = "${TEAM:-all}" }
requires_env = ["API_TOKEN", "CLAUDE_PLUGIN_OPTION_API_KEY"]

[[hooks]]
event = "before_tool_call"
matcher = "mcp__x__.*"
command = ["sh", "-c", "\"${CLAUDE_PLUGIN_ROOT}/hooks/check.sh\""]
timeout = "10s"
on_error = "allow"

[meta]
author = "A"
homepage = "https://example.com"
license = "MIT"
`, []string{
			"skills/s: their text has a placeholder such as ${CLAUDE_PLUGIN_ROOT}, which Claude Code alone replaces",
			"hooks/hooks.json: PreCompact (left out): has no counterpart: the loop that compacts is not the host's",
			"commands (left out): commands have no counterpart here",
			"agents (left out): agents have no counterpart here",
		}},
		"claude, the source of its package": {map[string]string{
			".claude-plugin/plugin.json": `{"name": "browse", "mcpServers": {
				"own": {"command": "npx", "args": ["-y", "@acme/browse@latest"]},
				"other": {"command": "npx", "args": ["-y", "@acme/browser@1.0.0"]}}}`,
			"package.json": `{"name": "@acme/browse", "bin": "build/index.js"}`,
		}, `[plugin]
id = "browse"
version = "0.0.0"

[mcp_servers."other"]
type = "stdio"
command = "npx"
args = ["-y", "@acme/browser@1.0.0"]
env = { "CLAUDE_PLUGIN_DATA" = "${EXTHOST_STATE_DIR}/../browse", ` +
			`"CLAUDE_PLUGIN_ROOT" = "${EXTHOST_EXTENSION_DIR}" }

[mcp_servers."own"]
type = "stdio"
command = "npx"
args = ["-y", "@acme/browse@latest"]
env = { "CLAUDE_PLUGIN_DATA" = "${EXTHOST_STATE_DIR}/../browse", ` +
			`"CLAUDE_PLUGIN_ROOT" = "${EXTHOST_EXTENSION_DIR}" }
cwd = "${EXTHOST_STATE_DIR}"
`, []string{
			"mcpServers.own: it starts in its state directory: in the plugin, which is the source of its package, " +
				"npx would run what is there and install nothing",
		}},
		"claude, one server of its name": {map[string]string{
			".claude-plugin/plugin.json": `{"name": "context"}`,
			".mcp.json": `{"mcpServers": {"context": {"type": "http", "url": "https://mcp.example.com/mcp",
				"headers": {"Authorization": "${KEY:-}"}}}}`,
			"skills/s/SKILL.md": skill,
		}, `[plugin]
id = "context"
version = "0.0.0"

[transport]
kind = "http"
protocol = "mcp"
url = "https://mcp.example.com/mcp"
headers = { "Authorization" = "${KEY:-}" }

[mcp_servers]
`, nil},
		"codex": {map[string]string{
			".codex-plugin/plugin.json": `{"name": "sec", "hooks": "./hooks.json", "apps": "./.app.json",
				"interface": {"displayName": "Sec"}}`,
			".app.json": `{}`,
			".mcp.json": `{"mcpServers": {"scan": {"command": "node", "args": ["./server.mjs", "${X}"], "cwd": ".",
				"tool_timeout_sec": 900}, "api": {"url": "https://a.example.com/mcp", "bearer_token_env_var": "PAT"}}}`,
			"hooks.json": `{"hooks": {"PostToolUse": [{"hooks": [{"type": "command", "command": "${PLUGIN_ROOT}/x.sh",
				"timeout": 5}]}]}}`,
			"hooks/hooks.json": `{"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": "no"}]}]}}`,
		}, `[plugin]
id = "sec"
version = "0.0.0"

[runtime]
call_timeout = "15m0s"

[mcp_servers."api"]
type = "http"
url = "https://a.example.com/mcp"
headers = { "Authorization" = "Bearer ${PAT}" }
requires_env = ["PAT"]

[mcp_servers."scan"]
type = "stdio"
command = "node"
args = ["./server.mjs", "$${X}"]

[[hooks]]
event = "after_tool_call"
command = ["env", "PLUGIN_ROOT=${CLAUDE_PLUGIN_ROOT}", "PLUGIN_DATA=${CLAUDE_PLUGIN_DATA}", "sh", "-c", ` +
			`"${CLAUDE_PLUGIN_ROOT}/x.sh"]
timeout = "5s"
on_error = "allow"
`, []string{
			"apps, .app.json (left out): apps of ChatGPT have no counterpart here",
		}},
		"gemini": {map[string]string{
			"gemini-extension.json": `{"name": "work", "version": "0.1.0", "contextFileName": "CONTEXT.md",
				"excludeTools": ["run_shell_command"], "settings": [{"name": "Key",
				"description": "The key of the service.", "envVar": "WORK_KEY", "sensitive": true}],
				"mcpServers": {"work": {"command": "node", "args":
				["${extensionPath}${/}dist${/}index.js", "$WORK_HOME"], "cwd": "${extensionPath}"}}}`,
			"hooks/hooks.json": `{"hooks": {"BeforeTool": [{"matcher": "mcp_work_.*", "sequential": true, "hooks": [
				{"type": "command", "name": "n", "command": "node ${extensionPath}/h.js", "timeout": 5000}]}],
				"AfterTool": [{"hooks": [{"type": "command", "command": "true"}]}],
				"BeforeModel": [{"hooks": [{"type": "command", "command": "x"}]}]}}`,
			"commands/deploy.toml": "prompt = 'x'",
		}, `[plugin]
id = "work"
version = "0.1.0"

[requires]
hint = { "WORK_KEY" = "The key of the service." }

[mcp_servers."work"]
type = "stdio"
command = "node"
args = ["${EXTHOST_EXTENSION_DIR}/dist/index.js", "${WORK_HOME}"]
requires_env = ["WORK_HOME", "WORK_KEY"]

[[hooks]]
event = "after_tool_call"
command = ["sh", "-c", "true"]
timeout = "1m0s"
on_error = "allow"

[[hooks]]
event = "before_tool_call"
matcher = "mcp_work_.*"
command = ["sh", "-c", "node ${CLAUDE_PLUGIN_ROOT}/h.js"]
timeout = "5s"
on_error = "allow"
`, []string{
			"hooks/hooks.json: BeforeModel (left out): has no counterpart",
			"hooks: hooks are told the events under Claude Code's names, and tool_input as an object; they answer as " +
				"Gemini CLI has them answer",
			"contextFileName (left out): context files have no counterpart here",
			"commands (left out): commands have no counterpart here",
			"excludeTools (left out): tools of Gemini CLI that it takes away have no counterpart here",
		}},
		"cursor": {map[string]string{
			".cursor-plugin/plugin.json": `{"name": "acme.tools", "mcpServers": "./mcp.json", "logo": "x.svg"}`,
			"mcp.json": `{"mcpServers": {"web": {"command": "npx", "args": ["-y", "@acme/web@1.0.0", "--root",
				"${CURSOR_PLUGIN_ROOT}"]}}}`,
			"rules/r.mdc": "r",
			"hooks/hooks.json": `{"version": 1, "hooks": {"stop": [{"command": "./x.sh"}],
				"beforeShellExecution": [{"command": "./x.sh"}],
				"beforeMCPExecution": [{"command": "${CURSOR_PLUGIN_ROOT}/guard.sh", "failClosed": true}],
				"postToolUse": [{"command": "./x.sh", "timeout": 5, "matcher": "Write|MCP:deploy|MCP:undo"}],
				"preToolUse": [{"command": "./x.sh", "matcher": "Shell|Read"}, {"type": "prompt", "prompt": "ok?"}]}}`,
			"skills/s/SKILL.md": skill,
		}, `[plugin]
id = "acme-tools"
version = "0.0.0"

[mcp_servers."web"]
type = "stdio"
command = "npx"
args = ["-y", "@acme/web@1.0.0", "--root", "${EXTHOST_EXTENSION_DIR}"]

[[hooks]]
event = "after_tool_call"
matcher = "MCP:deploy|MCP:undo"
command = ["env", "CURSOR_PLUGIN_ROOT=${CLAUDE_PLUGIN_ROOT}", "CURSOR_PROJECT_DIR=${CLAUDE_PROJECT_DIR}", ` +
			`"sh", "-c", "./x.sh"]
timeout = "5s"
on_error = "allow"

[[hooks]]
event = "before_tool_call"
command = ["env", "CURSOR_PLUGIN_ROOT=${CLAUDE_PLUGIN_ROOT}", "CURSOR_PROJECT_DIR=${CLAUDE_PROJECT_DIR}", ` +
			`"sh", "-c", "${CLAUDE_PLUGIN_ROOT}/guard.sh"]
timeout = "1m0s"
on_error = "deny"
`, []string{
			"hooks/hooks.json: beforeShellExecution (left out): has no counterpart: it is about what Cursor does " +
				"without a tool of MCP",
			`hooks/hooks.json: preToolUse (left out): matcher "Shell|Read" chooses tools of Cursor's own`,
			"hooks/hooks.json: stop (left out): has no counterpart",
			`hooks/hooks.json: PreToolUse[1].hooks[0]: "prompt" means nothing here`,
			"hooks/hooks.json: PreToolUse[1].hooks[0] (left out): is of type prompt: only commands run here",
			"hooks: hooks are told the events under Claude Code's names, and tool_input as an object; they answer as " +
				"Cursor has them answer",
			"rules (left out): rules have no counterpart here",
		}},
		"skills alone": {map[string]string{
			".claude-plugin/plugin.json": `{"name": "texts", "skills": ["./skills/", "./skills/s", "./other"]}`,
			"skills/s/SKILL.md":          skill,
			"skills/notes.md":            "no skill",
			"other/t/SKILL.md":           skill,
		}, `[plugin]
id = "texts"
version = "0.0.0"

[mcp_servers]
`, []string{"skills (left out): ./other: skills are served from skills/ alone"}},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := Read(folder(t, c.files), nil)
			if err != nil {
				t.Fatal(err)
			}
			text := p.TOML()
			_, body, _ := strings.Cut(string(text), "\n")
			if diff := cmp.Diff(c.toml, body); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(c.notes, said(p)); diff != "" {
				t.Error(diff)
			}
			if m, diags := manifest.Parse("plugin.toml", text); m == nil {
				t.Errorf("%v", diags)
			}
		})
	}
}

// said returns the notes of a plugin as lines.
func said(p *Plugin) (lines []string) {
	for _, n := range p.Notes {
		part := n.Part
		if n.Dropped {
			part += " (left out)"
		}
		lines = append(lines, part+": "+n.Message)
	}
	return lines
}

// TestChoice reads the format that comes first of a folder with several, and what a marketplace says beside a manifest
// or in its place.
func TestChoice(t *testing.T) {
	dir := folder(t, map[string]string{
		"gemini-extension.json":      `{"name": "g", "version": "1.0.0"}`,
		".cursor-plugin/plugin.json": `{"name": "c"}`,
		".claude-plugin/plugin.json": `{"name": "own", "version": "1.0.0"}`,
		"skills/s/SKILL.md":          skill,
	})
	entry := json.RawMessage(`{"name": "listed", "version": "2.0.0", "description": "From the list.", "source": "./",
		"mcpServers": {"a": {"command": "a"}}}`)
	for _, c := range []struct {
		listed *marketplace.Plugin
		want   string
	}{
		{nil, "Claude Code own own 1.0.0 '' 0"},
		{&marketplace.Plugin{Entry: entry}, "Claude Code own own 1.0.0 'From the list.' 1"},
		{&marketplace.Plugin{Entry: entry, Alone: true}, "Claude Code listed listed 2.0.0 'From the list.' 1"},
	} {
		p, err := Read(dir, c.listed)
		if err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprintf("%s %s %s %s '%s' %d", p.Format, p.Name, p.ID, p.Version, p.Description, len(p.Servers))
		if got != c.want {
			t.Errorf("%+v: %s, want %s", c.listed, got, c.want)
		}
	}
	bare := folder(t, map[string]string{"skills/s/SKILL.md": skill})
	if p, err := Read(bare, &marketplace.Plugin{Entry: entry}); err != nil || p.ID != "listed" {
		t.Errorf("without a manifest: %+v, %v", p, err)
	}
	if _, err := Read(bare, nil); err == nil || !strings.Contains(err.Error(), "no manifest of") {
		t.Errorf("without a manifest and an entry: %v", err)
	}
}

// TestHostile reads plugins that want out of their folder, or are not what they should be. Nothing of them is used
// beyond what they may have, and each finding is named.
func TestHostile(t *testing.T) {
	const manifest = ".claude-plugin/plugin.json"
	plugin := func(rest string) string { return `{"name": "p"` + rest + `}` }
	const none = "no server, no hook and no skill"
	many := plugin(`, "mcpServers": {` + strings.TrimSuffix(strings.Repeat(`"s": {"command": "x"},`, 2000), ",") + "}")
	paths := strings.TrimSuffix(strings.Repeat(`"./a",`, 5000), ",")
	servers := func(one string) string { return plugin(`, "mcpServers": {"s": ` + one + "}") }
	for name, c := range map[string]struct {
		manifest string
		err      string // "" if the plugin is read
		note     string // one of its notes
	}{
		"no JSON":   {`{"name": `, "is not JSON", ""},
		"a list":    {`[]`, "no JSON object", ""},
		"no name":   {`{}`, "states no name", ""},
		"too large": {plugin(`, "x": "` + strings.Repeat("x", maxFile) + `"`), "more than 256 KiB", ""},
		"deep":      {plugin(`, "x": ` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000)), "JSON", ""},
		"nothing":   {plugin(""), none, ""},

		"path out":      {plugin(`, "mcpServers": "../x.json"`), none, "leads out of the plugin"},
		"absolute path": {plugin(`, "hooks": "/etc/passwd"`), none, "leads out of the plugin"},
		"backslash":     {plugin(`, "hooks": "..\\x"`), none, "leads out of the plugin"},
		"missing file":  {plugin(`, "mcpServers": "./x.json"`), none, "cannot be read"},
		"a number":      {plugin(`, "mcpServers": 7`), none, "neither a path nor an object"},
		"bundle":        {plugin(`, "mcpServers": "./x.mcpb"`), none, "is an MCP bundle"},
		"many files":    {plugin(`, "hooks": [` + paths + `]`), none, "more than 16 members"},

		"command out":   {servers(`{"command": "${CLAUDE_PLUGIN_ROOT}/../x"}`), none, "leads out of the plugin"},
		"variable runs": {servers(`{"command": "${SHELL}"}`), none, "a variable decides"},
		"folder out":    {servers(`{"command": "x", "cwd": "${CLAUDE_PLUGIN_ROOT}/../.."}`), none, "y leads out"},
		"websocket":     {servers(`{"type": "ws", "url": "wss://x"}`), none, "type ws is not known"},
		"header":        {servers(`{"url": "https://x", "headers": {"A": "b\r\nc: d"}}`), none, "line break"},
		"NUL":           {plugin(`, "hooks": {"Stop": [{"hooks": [{"command": "a\u0000b"}]}]}`), none, "NUL character"},
		"hooks as text": {plugin(`, "hooks": {"Stop": "x"}`), none, "not a list"},
		"twins":         {many, "", "another server of the plugin has that name"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := Read(folder(t, map[string]string{manifest: c.manifest}), nil)
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Fatalf("%v, want %q", err, c.err)
			}
			if c.note == "" {
				return
			}
			if p == nil || !strings.Contains(strings.Join(said(p), "\n"), c.note) || len(p.Notes) > maxNotes {
				t.Errorf("no note says %q: %+v", c.note, p)
			}
		})
	}
}

// TestManySkills stops reading skills at the limit of those that are served.
func TestManySkills(t *testing.T) {
	files := map[string]string{".claude-plugin/plugin.json": `{"name": "p"}`}
	for i := range maxSkills + 1 {
		files[fmt.Sprintf("skills/%d", i)] = ""
	}
	p, err := Read(folder(t, files), nil)
	if err == nil || p == nil || !slices.Equal(said(p), []string{
		"skills (left out): it has over 1000 entries, and none of them is served",
	}) {
		t.Errorf("%+v, %v", p, err)
	}
}

// TestLinksOut reads no file through a link out of the plugin.
func TestLinksOut(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "x.json")
	if err := os.WriteFile(outside, []byte(`{"mcpServers": {"s": {"command": "x"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := folder(t, map[string]string{".claude-plugin/plugin.json": `{"name": "p"}`})
	if err := os.Symlink(outside, filepath.Join(dir, ".mcp.json")); err != nil {
		t.Skip("NOT TESTED: links cannot be made: ", err)
	}
	p, err := Read(dir, nil)
	if err == nil || p == nil || len(p.Servers) > 0 {
		t.Errorf("%+v, %v", p, err)
	}
}

// TestTranslate writes the manifest into the folder, and puts skills where they are served: those that a manifest names
// beside others, and of an entry that states all of a plugin those that it chooses and no others.
func TestTranslate(t *testing.T) {
	entry := func(text string, alone bool) *marketplace.Plugin {
		return &marketplace.Plugin{Entry: json.RawMessage(text), Alone: alone}
	}
	for name, c := range map[string]struct {
		files  map[string]string
		listed *marketplace.Plugin
		want   string // its skills; "none" if it is no plugin, else an error
	}{
		"elsewhere": {map[string]string{
			".codex-plugin/plugin.json": `{"name": "p", "skills": "./more"}`,
			"skills/a/SKILL.md":         skill,
			"more/a/SKILL.md":           skill + "another",
			"more/b/SKILL.md":           skill,
			"more/b/x.sh":               "x",
		}, nil, "a b"},
		"chosen": {map[string]string{
			"skills/a/SKILL.md": skill,
			"skills/b/SKILL.md": skill,
			"c/SKILL.md":        skill,
		}, entry(`{"name": "p", "skills": ["./skills/a", "./c", "./missing", "../d"]}`, true), "a c"},
		"chosen, and no others": {map[string]string{
			".claude-plugin/plugin.json": `{"name": "own", "commands": "./x"}`,
			"skills/a/SKILL.md":          skill,
		}, entry(`{"name": "p", "skills": "./skills/a"}`, true), "a"},
		"without a manifest":  {map[string]string{"skills/a/SKILL.md": skill}, entry(`{"name": "p"}`, false), "a"},
		"nothing of a plugin": {map[string]string{"readme.md": "x"}, entry(`{"name": "p"}`, false), "none"},
		"no plugin":           {map[string]string{"skills/a/SKILL.md": skill}, nil, "none"},
		"an extension": {map[string]string{
			".claude-plugin/plugin.json": `{"name": "p"}`,
			"plugin.toml":                "",
		}, nil, "plugin.toml of its own"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := folder(t, c.files)
			p, ok, err := Translate(dir, c.listed)
			switch {
			case err != nil:
				if !strings.Contains(err.Error(), c.want) {
					t.Error(err)
				}
				return
			case !ok:
				if c.want != "none" {
					t.Errorf("no plugin, want %q", c.want)
				}
				return
			}
			if got := strings.Join(p.Skills, " "); got != c.want {
				t.Errorf("skills %s, want %s", got, c.want)
			}
			for name, text := range c.files {
				got, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
				if (err != nil || string(got) != text) && (c.listed == nil || !c.listed.Alone) {
					t.Errorf("%s was changed: %v", name, err)
				}
			}
			if m, diags := manifest.ReadFile(filepath.Join(dir, manifest.FileName), manifest.ReadOptions{}); m == nil {
				t.Errorf("%v", diags)
			}
		})
	}
}

// TestNamedSkills: skills that a manifest names in ways that would cost disk, time or the sense of a skill are refused
// or left where they are, and named.
func TestNamedSkills(t *testing.T) {
	const manifest = ".claude-plugin/plugin.json"
	named := func(paths ...string) string {
		list, err := json.Marshal(paths)
		if err != nil {
			t.Fatal(err)
		}
		return `{"name": "p", "skills": ` + string(list) + `}`
	}
	large := map[string]string{}
	var nested []string
	for i, at := 0, "a"; i < 5; i, at = i+1, fmt.Sprintf("%s/a%d", at, i) { // the deepest file is in all five
		nested, large[at+"/SKILL.md"] = append(nested, at), skill
	}
	large[nested[4]+"/big"] = strings.Repeat("x", 14<<20)
	large[manifest] = named(nested...)
	listings := map[string]string{}
	for i := range 200 {
		listings[fmt.Sprintf("d/%d", i)] = ""
	}
	listings[manifest] = named(slices.Repeat([]string{"./d"}, 100)...)
	for name, c := range map[string]struct {
		files map[string]string
		want  string // part of the error
		note  string // without an error
	}{
		"in themselves": {map[string]string{
			manifest:                   named("./.exthost-skills"),
			".exthost-skills/SKILL.md": skill,
		}, "it has a .exthost-skills", ""},
		"large together":    {large, "have over 64 MiB", ""},
		"listed very often": {listings, "over 16384 files and directories", ""},
		"twins": {map[string]string{
			manifest:       named("./a/s", "./b/s"),
			"a/s/SKILL.md": skill,
			"b/s/SKILL.md": skill,
			"b/s/x":        "x",
		}, "", "skills (left out): b/s: another skill of the plugin has that name, and comes first"},
		"no skill": {map[string]string{
			manifest:            named("./docs"),
			"docs/readme.md":    "x",
			"skills/s/SKILL.md": skill,
		}, "", "skills (left out): ./docs: neither it nor a folder in it has a SKILL.md"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := folder(t, c.files)
			p, _, err := Translate(dir, nil)
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("%v, want %q", err, c.want)
				}
				return
			}
			if err != nil || !slices.Equal(said(p), []string{c.note}) {
				t.Errorf("%+v, %v; want the note %q alone", p, err, c.note)
			}
			entries, _ := os.ReadDir(filepath.Join(dir, "skills", "s"))
			if len(entries) != 1 {
				t.Errorf("the skill has %v", entries)
			}
		})
	}
}
