package hookimport

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/manifest"
)

const settings = `{
  "permissions": {"allow": ["Bash(npm *)"]},
  "hooks": {
    "PreToolUse": [
      {"matcher": "mcp__notes__.*", "hooks": [
        {"type": "command", "command": "\"$CLAUDE_PROJECT_DIR\"/.claude/hooks/guard.sh ${X:-\"a b\"} 'q'", "timeout": 1.5, "onFailure": "block"},
        {"type": "command", "command": "./check", "args": ["--strict", "${HOME}", "a\nb"], "timeout": 30}
      ]},
      {"matcher": "Bash|Edit", "hooks": [{"type": "command", "command": "jq .", "timeout": 5, "statusMessage": "…"}]},
      {"matcher": "(?!x)y", "hooks": [{"type": "command", "command": "true", "timeout": 5}]}
    ],
    "PostToolUse": [{"hooks": [
      {"type": "prompt", "prompt": "is it fine?"},
      {"type": "http", "url": "https://example.com"},
      {"type": "command", "command": "true", "if": "Bash(rm *)"},
      {"type": "command", "command": "true", "async": true},
      {"type": "command", "command": "Get-Date", "shell": "powershell"},
      {"type": "command", "command": "${CLAUDE_PLUGIN_ROOT}/x.sh"},
      {"type": "command", "command": " "},
      {"type": "command", "command": ["no"]},
      {"type": "command", "command": "<b>&amp;", "shell": "bash", "once": true, "colour": "red"}
    ]}],
    "UserPromptSubmit": [{"matcher": "ignored(", "hooks": [{"type": "command", "command": "date", "timeout": 5}]}],
    "SessionStart": [{"matcher": "startup|resume", "hooks": [{"type": "command", "command": "date", "timeout": 5}]}],
    "Notification": [{"hooks": [{"type": "command", "command": "say hello"}]}],
    "SubagentStop": [],
    "PreTolUse": []
  }
}`

func TestRead(t *testing.T) {
	r, err := Read([]byte("\xef\xbb\xbf"+settings), Options{})
	if err != nil {
		t.Fatal(err)
	}
	seconds := func(s float64) *manifest.Duration { return new(manifest.Duration(s * float64(time.Second))) }
	want := []manifest.HookSpec{
		{Event: "before_tool_call", Matcher: "mcp__notes__.*", Timeout: seconds(1.5), OnError: "deny",
			Command: manifest.Command{"sh", "-c", `"$CLAUDE_PROJECT_DIR"/.claude/hooks/guard.sh ${X:-"a b"} 'q'`}},
		{
			Event:   "before_tool_call",
			Matcher: "mcp__notes__.*",
			Timeout: seconds(30),
			OnError: "allow",
			Command: manifest.Command{"./check", "--strict", "${HOME}", "a\nb"},
		},
		{
			Event:   "before_tool_call",
			Matcher: "Bash|Edit",
			Timeout: seconds(5),
			OnError: "allow",
			Command: manifest.Command{"sh", "-c", "jq ."},
		},
		{Event: "after_tool_call", OnError: "allow", Command: manifest.Command{"bash", "-c", "<b>&amp;"}},
		{Event: "before_message", Timeout: seconds(5), OnError: "allow", Command: manifest.Command{"sh", "-c", "date"}},
		{
			Event:   "session_start",
			Matcher: "startup|resume",
			Timeout: seconds(5),
			OnError: "allow",
			Command: manifest.Command{"sh", "-c", "date"},
		},
	}
	if diff := cmp.Diff(want, r.Hooks); diff != "" {
		t.Error(diff)
	}
	var said []string
	for _, n := range r.Notes {
		dropped := ""
		if n.Dropped {
			dropped = "! "
		}
		said = append(said, dropped+n.Where+" "+n.Message)
	}
	for i, want := range []string{
		`PreToolUse[1] matcher "Bash|Edit" chooses tools of Claude Code's own`,
		`! PreToolUse[2] matcher "(?!x)y" is no regular expression of RE2`,
		`! PostToolUse[0].hooks[0] is of type prompt`,
		`! PostToolUse[0].hooks[1] is of type http`,
		`! PostToolUse[0].hooks[2] runs only if Bash(rm *)`,
		`! PostToolUse[0].hooks[3] runs in the background`,
		`! PostToolUse[0].hooks[4] is a line for powershell`,
		`! PostToolUse[0].hooks[5] needs CLAUDE_PLUGIN_ROOT`,
		`! PostToolUse[0].hooks[6] has no command`,
		`! PostToolUse[0].hooks[7] cannot be read`,
		`PostToolUse[0].hooks[8] "colour" means nothing here`,
		`PostToolUse[0].hooks[8] once has no effect`,
		`PostToolUse[0].hooks[8] states no timeout`,
		`! Notification has no counterpart: it tells of prompts`,
		`! SubagentStop has no counterpart: the host knows of no subagents`,
		`! PreTolUse has no counterpart; did it mean PreToolUse?`,
	} {
		found := false
		for _, s := range said {
			found = found || strings.HasPrefix(s, want)
		}
		if !found {
			t.Errorf("note %d is missing: %s", i, want)
		}
	}
	// Notes include unknown keys of a dropped hook: url and prompt.
	if len(said) != 18 {
		t.Errorf("%d notes:\n%s", len(said), strings.Join(said, "\n"))
	}
}

// TestYAMLLoads loads the output as configuration; its texts are unchanged, including ${}.
func TestYAMLLoads(t *testing.T) {
	r, err := Read([]byte(settings), Options{})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range []string{"exthost.yaml", "config/hooks.yaml"} {
		base := filepath.Join(dir, strings.ReplaceAll(name, "/", "_"))
		path := filepath.Join(base, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, r.YAML(), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, err := config.Load(config.LoadOptions{
			Dir:       base,
			Environ:   []string{"HOME=/root", "X=$(oops)"},
			UserDir:   "none",
			SystemDir: "none",
		})
		if err != nil {
			t.Fatalf("%v\n%s", err, r.YAML())
		}
		want := r.Hooks
		want[1].Command[0] = filepath.Join(base, "check")
		if diff := cmp.Diff(want, cfg.Hooks); diff != "" || len(cfg.Warnings) > 0 {
			t.Errorf("%s: %s %v", name, diff, cfg.Warnings)
		}
		want[1].Command[0] = "./check"
	}
}

func TestNoSettings(t *testing.T) {
	for text, want := range map[string]string{
		"":                                    "unexpected end",
		"{\n\"hooks\": {,}\n}":                "line 2",
		`{"hooks": []}`:                       "hooks is not an object",
		`{"hooks": {"PreToolUse":{}}}`:        "hooks.PreToolUse is not a list",
		`[]`:                                  "cannot unmarshal array",
		`{"hooks": {"Stop":[{"hooks":"x"}]}}`: "hooks.Stop",
	} {
		if _, err := Read([]byte(text), Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	r, err := Read([]byte(`{"disableAllHooks":true}`), Options{})
	if err != nil || string(r.YAML()) != "hooks: []\n" || len(r.Notes) != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}

// FuzzRead checks that Read does not panic, and that its YAML loads as configuration.
func FuzzRead(f *testing.F) {
	f.Add([]byte(settings))
	f.Add([]byte(`{"hooks":{"Stop":[{"hooks":[{"command":"\u0000\u2028${A}\\","timeout":1e300}]}]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Read(data, Options{})
		if err != nil {
			return
		}
		if _, err := json.Marshal(r); err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "exthost.yaml"), r.YAML(), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err = config.Load(config.LoadOptions{
			Dir:       dir,
			Environ:   []string{},
			UserDir:   "none",
			SystemDir: "none",
		})
		if err != nil {
			t.Fatalf("%v\n%s", err, r.YAML())
		}
	})
}
