package main

import (
	"context"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/exthost/exthost/internal/testing/processtest"
)

// hostileTool and hostileServer are extensions whose programs all create a file called ran.
const (
	hostileTool = `
[plugin]
id = "tool"
version = "0.1.0"
[transport]
kind = "exec"
command = "sh"
args = ["tool.sh"]
[[tools]]
name = "go"
description = "Runs."
[[hooks]]
event = "before_tool_call"
command = ["sh", "-c", "echo hook >>ran"]
`
	hostileServer = `
[plugin]
id = "server"
version = "0.1.0"
[dev]
build = ["sh", "-c", "echo build >>ran"]
[transport]
script = "server.sh"
protocol = "lite"
[[tools]]
name = "go"
description = "Runs."
`
)

// hostileConfig is the configuration of a directory; its programs create the file too.
const hostileConfig = `
plugins:
  - {name: spy, category: content, kind: native, cmd: [sh, -c, "echo policy >>ran"], required: false}
hooks:
  - {event: before_tool_call, command: [sh, -c, "echo hook >>ran"]}
destinations:
  out: {command: [sh, -c, "echo destination >>ran"]}
extensions: {max_depth: 3}
`

// TestNothingRunsUnderAnyCommand runs every command in cloned directories, without arguments and with one.
func TestNothingRunsUnderAnyCommand(t *testing.T) {
	processtest.Leaks(t)
	files := map[string]string{}
	for _, clone := range []string{"extensions-only/", "with-configuration/"} {
		maps.Copy(files, map[string]string{
			clone + "extensions/tool/plugin.toml":   hostileTool,
			clone + "extensions/tool/tool.sh":       "echo script >>ran\n",
			clone + "extensions/server/plugin.toml": hostileServer,
			clone + "extensions/server/server.sh":   "echo script >>ran\nexec cat\n",
			clone + "extensions/side/plugin.toml":   "[plugin]\nid = \"side\"\nversion = \"0.1.0\"\n",
			clone + "extensions/side/.mcp.json":     `{"mcpServers": {"x": {"command": "sh", "args": ["-c", "echo server >>ran; exec cat"]}}}`,
			clone + ".mcp.json":                     `{"mcpServers": {"y": {"command": "sh", "args": ["-c", "echo server >>ran; exec cat"]}}}`,
			clone + ".claude/settings.json":         `{"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "echo hook >>ran"}]}]}}`,
		})
	}
	files["with-configuration/exthost.yaml"] = hostileConfig
	base := project(t, files)
	all := commands(t)
	for _, clone := range []string{"extensions-only", "with-configuration"} {
		t.Run(clone, func(t *testing.T) {
			dir := filepath.Join(base, clone)
			for _, command := range all {
				for _, args := range [][]string{nil, {argument(command)}} {
					inClone(t, base, dir, append(strings.Fields(command), args...))
				}
			}
			// no command has given consent
			inClone(t, base, dir, []string{"call", "ext_tool_go", "--no-project-config"})
			inClone(t, base, dir, []string{"check", "--start", "--no-project-config"})
			err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
				if err == nil && d.Name() == "ran" {
					text, _ := os.ReadFile(path)
					t.Errorf("something ran: %s says %q", path, text)
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
			// The same programs run once they are trusted.
			inClone(t, base, dir, []string{"call", "ext_tool_go", "--trust", "off"})
			inClone(t, base, dir, []string{"check", "--start", "--trust", "off"})
			left := []string{"extensions/tool/ran", "extensions/server/ran", "extensions/side/ran"}
			if clone == "with-configuration" {
				left = append(left, "ran")
			}
			for _, name := range left {
				if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
					t.Errorf("%s is not there without consent: the test could not fail: %v", name, err)
				}
			}
		})
	}
}

// argument returns an argument with which a command proceeds. It is never a directory: naming one is consent to run
// what it holds.
func argument(command string) string {
	switch command {
	case "call", "tools schema":
		return "ext_tool_go"
	case "policy hooks test":
		return "PreToolUse"
	case "check", "dev":
		return "--trust=ask"
	}
	return "tool"
}

// inClone runs one command without a terminal.
func inClone(t *testing.T, base, dir string, args []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "exthost", args...)
	cmd.Dir = dir
	cmd.Env = append(program(base).Env, "EXTHOST_TRUST=", "BROWSER=false")
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		t.Errorf("%v has not ended; it printed:\n%s", args, out)
	}
	t.Logf("%v: %v", args, err)
}

// commands returns the commands that do something by themselves, according to the manual pages.
func commands(t *testing.T) (names []string) {
	t.Helper()
	pages := t.TempDir()
	if out, err := program(pages, "help", "--man", pages).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	files, err := filepath.Glob(filepath.Join(pages, "*.1"))
	if err != nil {
		t.Fatal(err)
	}
	use := regexp.MustCompile(`(?m)^\\fBexthost ([a-z]+(?:[ -][a-z]+)*)(.*)`)
	argument := regexp.MustCompile(`^ \[?[A-Z]`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(file, ".1")
		parent := slices.ContainsFunc(files, func(o string) bool { return strings.HasPrefix(o, name+"-") })
		synopsis := use.FindSubmatch(text)
		switch {
		case filepath.Base(name) == "exthost":
		case synopsis == nil:
			t.Fatalf("%s: no synopsis", file)
		case !parent || argument.Match(synopsis[2]): // a group without an argument shows its help
			names = append(names, string(synopsis[1]))
		}
	}
	if len(names) < 50 {
		t.Fatalf("only %d commands: %v", len(names), names)
	}
	return names
}
