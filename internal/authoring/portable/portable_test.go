package portable

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/exthost/exthost/manifest/agentplugin"
)

// folder writes files below a new directory and returns it.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "weather")
	for name, text := range files {
		path := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if err = errors.Join(err, os.WriteFile(path, []byte(text), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const about = `[plugin]
id = "weather"
version = "1.2.3"
name = "The weather"
description = "Tells the weather."
[meta]
author = "A. Author"
license = "MIT"
`

// TestWrite carries over everything that the format has a place for, and names the rest.
func TestWrite(t *testing.T) {
	from := folder(t, map[string]string{
		"plugin.toml": about + `[transport]
script = "server.py"
args = ["--data", "${EXTHOST_STATE_DIR}/db"]
cwd = "data"
protocol = "mcp"
[transport.env]
MODE = "fast"
WEATHER_KEY = "secret://weather"
[requires]
bins = ["python3"]
[runtime]
call_timeout = "20s"
[runtime.limits]
memory = "1GiB"
[sandbox]
net = ["api.example.com:443"]
[[hooks]]
event = "before_tool_call"
command = ["./guard"]
[dev]
watch = ["*.py"]
`,
		".mcp.json": `{"mcpServers": {
			"maps": {"type": "http", "url": "https://maps.example.com/mcp", "headers": {"X-A": "a", "X-B": "${KEY}"}},
			"plain": {"type": "http", "url": "http://maps.example.com/mcp"},
			"local": {"command": "/usr/local/bin/maps"},
			"asks": {"command": "maps", "args": ["${HOME}"]}}}`,
		"server.py":             "print()\n",
		"guard":                 "#!/bin/sh\n",
		".env":                  "KEY=hunter2\n",
		"keys/a.pem":            "hunter2\n",
		".git/config":           "x",
		"plugin.schema.json":    "{}",
		"skills/sky/SKILL.md":   "---\nname: sky\ndescription: d\n---\n",
		"skills/sky/notes.md":   "notes",
		"__pycache__/x.pyc":     "x",
		"data/stations/one.csv": "1,2\n",
	})
	to := filepath.Join(from, "dist", "weather") // within the extension itself
	p, err := Write(t.Context(), from, to, "weather")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"data/stations/one.csv", "guard", "mcp.json", "plugin.json", "server.py", "skills/sky/SKILL.md",
		"skills/sky/notes.md"}
	if !slices.Equal(p.Files, want) {
		t.Errorf("files %q", p.Files)
	}
	if !slices.Equal(p.Servers, []string{"maps", "weather"}) ||
		!slices.Equal(p.Own, []string{"hooks", "requires", "runtime", "sandbox"}) {
		t.Errorf("%+v", p)
	}
	lost := strings.Join(p.Lost, "\n")
	for _, text := range []string{
		"server weather: the variable WEATHER_KEY has a value of the user's machine",
		"server maps: the header X-B has a value of the user's machine",
		"server plain: url is http",
		"server local: its program /usr/local/bin/maps is a path of this machine",
		"server asks: its argument ${HOME} has a variable",
		"plugin.name: the format has no place for it",
		"dev: the format has no place for it",
		"the file .env: it may hold secrets",
		"the file keys/a.pem: it may hold secrets",
	} {
		if !strings.Contains(lost, text) {
			t.Errorf("%q is not named in:\n%s", text, lost)
		}
	}
	read := agentplugin.Read(to, agentplugin.Options{})
	if read.Identity.Rejected || len(read.Diagnostics) > 0 || read.Identity.Version != "1.2.3" {
		t.Fatalf("%+v", read)
	}
	m := read.Manifest
	s := m.MCPServers["weather"]
	args := []string{"${PLUGIN_ROOT}/server.py", "--data", "${PLUGIN_DATA}/db"}
	if s.Command != "python3" || !slices.Equal(s.Args, args) ||
		s.Cwd != "./data" || len(s.Env) != 1 || s.Env["MODE"] != "fast" {
		t.Errorf("%+v", s)
	}
	if m.Runtime.CallTimeout == nil || m.Sandbox == nil || len(m.Hooks) != 1 || m.Meta.Author != "A. Author" {
		t.Errorf("%+v", m)
	}
	if info, err := os.Stat(filepath.Join(to, "guard")); err != nil || info.Mode()&0o100 == 0 {
		t.Errorf("guard: %v, %v", info, err)
	}
	text, err := os.ReadFile(filepath.Join(to, agentplugin.FileName))
	if err != nil || !json.Valid(text) {
		t.Errorf("%s, %v", text, err)
	}
	if _, err := Write(t.Context(), from, to, "weather"); !errors.Is(err, ErrExists) {
		t.Errorf("over existing files: %v", err)
	}
}

// TestWriteLeavesNothing: what cannot be carried over at all leaves no folder.
func TestWriteLeavesNothing(t *testing.T) {
	for name, tt := range map[string]struct {
		files      map[string]string
		name, want string
	}{
		"another protocol": {map[string]string{"plugin.toml": about + "[transport]\nscript = \"main.sh\"\n" +
			"protocol = \"lite\"\n[[tools]]\nname = \"x\"\n", "main.sh": "#!/bin/sh\n"}, "weather", "speaks the protocol lite of exthost"},
		"a command for each call": {map[string]string{"plugin.toml": about + "[transport]\nkind = \"exec\"\n" +
			"[[tools]]\nname = \"x\"\ncommand = [\"date\"]\n"}, "weather", "the format has no transport exec"},
		"its only server": {map[string]string{"plugin.toml": about +
			"[transport]\nurl = \"http://x.example.com/mcp\"\n"}, "weather", "server weather: url is http"},
		"its name":    {map[string]string{"plugin.toml": about}, "my_weather", "character that is not one of"},
		"no manifest": {map[string]string{"x": ""}, "weather", "plugin.toml"},
		"a broken one": {map[string]string{"plugin.toml": "[plugin]\nid = 5\n"}, "weather",
			"plugin.toml:"},
	} {
		t.Run(name, func(t *testing.T) {
			to := filepath.Join(t.TempDir(), "out")
			p, err := Write(t.Context(), folder(t, tt.files), to, tt.name)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%+v, %v; want %q", p, err, tt.want)
			}
			if _, err := os.Lstat(to); err == nil {
				t.Error("the folder is there")
			}
		})
	}
}

// TestWriteOfALink takes the files of a folder that a link names.
func TestWriteOfALink(t *testing.T) {
	from := folder(t, map[string]string{
		"plugin.toml": about + "[transport]\ncommand = \"./run\"\nprotocol = \"mcp\"\n",
		"run":         "#!/bin/sh\n",
	})
	link := from + "-link"
	if err := os.Symlink(from, link); err != nil {
		t.Skip("NOT TESTED: links cannot be made: ", err)
	}
	p, err := Write(t.Context(), link, filepath.Join(t.TempDir(), "out"), "weather")
	if err != nil || !slices.Equal(p.Files, []string{"mcp.json", "plugin.json", "run"}) {
		t.Errorf("%+v, %v", p, err)
	}
}
