package test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/proc/sandbox"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	asked "github.com/exthost/exthost/manifest/sandbox"
	"github.com/exthost/exthost/protocol"
)

func init() {
	verbs["intrude"] = func(file string) { _ = os.WriteFile(file, []byte("x"), 0o600) }
}

// skipWithoutSandbox skips the test if the kernel enforces no sandbox.
func skipWithoutSandbox(t *testing.T) {
	t.Helper()
	if _, err := new(sandbox.Policy).Check(); err != nil {
		t.Skipf("NOT TESTED: %s: %v", t.Name(), err)
	}
}

// The processes of a sandboxed extension, its hooks and its MCP servers read only what it asks for; others read
// everything. The operator's setting takes precedence over the author's.
func TestSandbox(t *testing.T) {
	skipWithoutSandbox(t)
	processtest.Leaks(t)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("abracadabra"), 0o600); err != nil {
		t.Fatal(err)
	}
	run := fmt.Sprintf(`[transport]
kind = "exec"
[[tools]]
name = "read"
command = ["cat", %q]
[[tools]]
name = "write"
command = ["sh", "-c", "echo $TMPDIR > $EXTHOST_STATE_DIR/x && cat $EXTHOST_STATE_DIR/x"]
[[hooks]]
event = "PreToolUse"
command = ["sh", "-c", "cat %s > $EXTHOST_STATE_DIR/hook"]
`, secret, secret)
	boxed := run + "[sandbox]\nwrite = [\"{state}\"]\n"
	f := hosttest.NewFolder(t).Add("free", run).Add("boxed", boxed).Add("off", boxed).Add("strict", run).Add("limited",
		boxed+"[runtime.limits]\nopen_files = 100\n").
		Add("asks", run+fmt.Sprintf("[sandbox]\nread = [%q]\nwrite = [\"{state}\"]\n", secret)).Add("denied",
		run+fmt.Sprintf("[sandbox]\nread = [%q]\n", secret)).
		Add("server", hosttest.Child("intrude "+filepath.Join(filepath.Dir(secret), "left")+"; sdk",
			"[sandbox]\nprofile = \"go\"\n"))
	cfg := f.Config()
	cfg.Extensions.Entries = map[string]config.Entry{
		"off":    {Hooks: config.HooksOwn, Sandbox: asked.Override{Mode: asked.Off}},
		"strict": {Hooks: config.HooksOwn, Sandbox: asked.Override{Mode: asked.Strict}},
		"denied": {Hooks: config.HooksOwn, Sandbox: asked.Override{Read: []string{}}},
	}
	h := f.OpenWith(cfg, exthost.Options{Mode: exthost.Mode{StartLazy: true}})
	for id, want := range map[string]struct{ read, write bool }{
		"free":    {true, true},
		"off":     {true, true},
		"boxed":   {false, true},
		"strict":  {false, true},
		"limited": {false, true},
		"asks":    {true, true},
		"denied":  {false, false},
	} {
		for tool, may := range map[string]bool{"read": want.read, "write": want.write} {
			result, err := h.Call(hosttest.Deadline(t), "ext_"+id+"_"+tool, nil)
			if (err == nil) != may ||
				!may && id != "denied" && !strings.Contains(err.Error(), "exthost check --sandbox "+f.Dir) {
				t.Errorf("%s %s: %v", id, tool, err)
			} else if may && tool == "write" && want.read == false &&
				strings.TrimSpace(result.Text()) != filepath.Join(hosttest.StatusOf(t, h, id).StateDir, "tmp") {
				t.Errorf("%s: TMPDIR %q", id, result.Text())
			}
		}
		hook, err := os.ReadFile(filepath.Join(hosttest.StatusOf(t, h, id).StateDir, "hook"))
		if want.write && (string(hook) == "abracadabra") != want.read {
			t.Errorf("hook of %s: %q, %v", id, hook, err)
		}
		s := hosttest.StatusOf(t, h, id).Sandbox
		if confined := id != "free" && id != "off"; (s != nil) != confined {
			t.Errorf("status of %s: %v", id, s)
		} else if confined && strings.Contains(s.MayRefuse, "Permission denied") == want.read {
			t.Errorf("status of %s says that it may have refused %q", id, s.MayRefuse)
		} else if confined && (len(s.Holds) < 4 || len(s.Lacks) > 0 || s.Net != "none") {
			t.Errorf("status of %s: %+v", id, s)
		}
	}
	hosttest.Eventually(t, "the server has started",
		func() bool { return hosttest.StatusOf(t, h, "server").State == "ready" })
	if left, err := os.ReadFile(filepath.Join(filepath.Dir(secret), "left")); err == nil {
		t.Errorf("the server wrote %q", left)
	}
}

// An extension whose sandbox cannot be enforced does not start, unless it is best effort.
func TestSandboxThatCannotBeEnforced(t *testing.T) {
	skipWithoutSandbox(t)
	processtest.Leaks(t)
	f := hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", "[sandbox]\nwrite = [\"/\"]\n"))
	h := f.Open(exthost.Options{})
	s := hosttest.StatusOf(t, h, "x")
	if s.State == "ready" || !strings.Contains(s.Reason, "sandbox.write[0]") {
		t.Errorf("%s: %s", s.State, s.Reason)
	}
}

// An extension whose program reports a refusal before it ends names the sandbox, and how to find out what it refused.
func TestSandboxThatRefusesAtTheStart(t *testing.T) {
	skipWithoutSandbox(t)
	processtest.Leaks(t)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	start := fmt.Sprintf("[transport]\nprotocol = \"mcp\"\ncommand = \"sh\"\nargs = [\"-c\", \"cat %s; "+
		"echo key=missing >&2; exit 1\"]\n", secret)
	f := hosttest.NewFolder(t).Add("boxed", start+"[sandbox]\n").Add("free", start)
	h := f.Open(exthost.Options{})
	for id, names := range map[string]bool{"boxed": true, "free": false} {
		s := hosttest.StatusOf(t, h, id)
		if strings.Contains(s.Reason, "exthost check --sandbox ") != names || s.State == "ready" {
			t.Errorf("%s is %s: %s", id, s.State, s.Reason)
		}
	}
}

// The profile of an interpreter follows the command line to packages elsewhere: a program in node_modules/.bin, a
// script in the folder of its package, and what they load.
func TestProfileOfPackagesElsewhere(t *testing.T) {
	skipWithoutSandbox(t)
	processtest.Leaks(t)
	processtest.Needs(t, "node")
	apps := t.TempDir()
	const server = `import {tools} from 'answers'
import {createInterface} from 'node:readline'
createInterface({input: process.stdin}).on('line', (line) => {
  const {id, method, params} = JSON.parse(line)
  const results = {
    initialize: () => ({protocolVersion: params.protocolVersion, capabilities: {tools: {}},
      serverInfo: {name: 'x', version: '1'}}),
    'tools/list': () => ({tools}),
    'tools/call': () => ({content: [{type: 'text', text: 'sun'}]}),
  }
  if (id !== undefined) console.log(JSON.stringify({jsonrpc: '2.0', id, result: (results[method] || (() => ({})))()}))
})
`
	for name, text := range map[string]string{
		"npm/node_modules/srv/index.mjs":       "#!/usr/bin/env node\n" + server,
		"npm/node_modules/answers/index.js":    "exports.tools = [{name: 'now', inputSchema: {type: 'object'}}]",
		"source/package.json":                  "{}",
		"source/dist/index.mjs":                server,
		"source/node_modules/answers/index.js": "exports.tools = [{name: 'now', inputSchema: {type: 'object'}}]",
	} {
		path := filepath.Join(apps, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	bin := filepath.Join(apps, "npm", "node_modules", ".bin", "srv")
	if err := os.Mkdir(filepath.Dir(bin), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../srv/index.mjs", bin); err != nil {
		t.Fatal(err)
	}
	transport := func(line ...string) string {
		return fmt.Sprintf("[transport]\nprotocol = \"mcp\"\ncommand = %q\nargs = [%s]\n[sandbox]\nprofile = "+
			"\"node\"\n", line[0], strings.Join(line[1:], ""))
	}
	f := hosttest.NewFolder(t).Add("program", transport(bin)).
		Add("script", transport("node", fmt.Sprintf("%q", filepath.Join(apps, "source/dist/index.mjs"))))
	h := f.Open(exthost.Options{})
	for _, id := range []string{"program", "script"} {
		result, err := h.Call(hosttest.Deadline(t), "ext_"+id+"_now", nil)
		s := hosttest.StatusOf(t, h, id)
		if err != nil || result.Text() != "sun" || s.Sandbox.MayRefuse != "" {
			t.Errorf("%s: %s, %v; %s, %s", id, result, err, protocol.LastWords(err), s.Sandbox.MayRefuse)
		}
	}
}
