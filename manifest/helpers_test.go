package manifest

import (
	"testing"

	"github.com/exthost/exthost/protocol"
)

const minimal = `[plugin]
id = "weather"
version = "0.1.0"
[capabilities]
tools = ["forecast"]
[transport]
command = "./weather"
`

const full = `[plugin]
id = "weather"
version = "0.1.0-rc.1+build.5"
name = "Weather ☂"
description = "Forecasts"
min_agent_version = "0.1.0"
priority = -5

[capabilities]
tools = ["forecast", "now.v2"]
hooks = ["before_tool_call"]

[transport]
kind = "stdio"
command = "./weather"
args = ["--units", "metric"]
env = { LOG = "debug", "NAME" = "${NAME:-x}" }
cwd = "."
protocol = "native"

[requires]
bins = ["ffmpeg"]
env = ["WEATHER_TOKEN"]
os = ["linux", "darwin"]
arch = ["amd64"]
hint = { ffmpeg = "apt install ffmpeg" }

[context]
passthrough = true

[runtime]
activation = "lazy"
instances = 4
max_instances = 8
start_timeout = "5s"
call_timeout = 1500
max_line_bytes = "1MiB"
recycle_on_hang = true
reload = "stop_first"
[runtime.restart]
max_attempts = -1
window = "1m"
[runtime.limits]
memory = "512MiB"
cpu_time = "10m"
open_files = 64

[config]
city = "Oslo"
big = 9007199254740993
since = 2026-11-20
[config_schema]
type = "object"
required = ["key"]
properties.city.type = "string"
properties.big = { type = "integer" }

[[hooks]]
event = "PreToolUse"
matcher = "ext_shell_.*"
command = "./guard.sh --strict 'two words'"
timeout = "5s"
on_error = "deny"

[mcp_servers.files]
command = "npx"
args = ["-y", "server-filesystem", "${HOME}"]
[mcp_servers.remote]
transport = "streamable_http"
url = "https://example.com/mcp"
headers = { Authorization = "Bearer ${WEATHER_TOKEN}" }

[dev]
watch = ["*.py"]
[meta]
author = "A"
license = "Apache-2.0"
homepage = "https://example.com"
`

// validManifests are accepted by Parse and by the schema.
var validManifests = map[string]string{
	"minimal": minimal,
	"full":    full,
	"risks":   minimal + "[risk]\n\"read.file\" = \"read\"\nrm = \"destroy\"\n",
	"a byte order mark and CRLF": "[plugin]\r\nid = \"weather\"\r\nversion = \"1.0.0\"\r\n" +
		"[capabilities]\r\nhooks = [\"SessionStart\"]\r\n[transport]\r\nscript = \"main.py\"\r\n",
	"cmd": "plugin = { id = \"a\", version = \"1.0.0\" }\ncapabilities.tools = [\"x\"]\ntransport.cmd = " +
		"[\"./a\", \"-v\"]\n",
	"mcp child": "[plugin]\nid = \"a\"\nversion = \"1.0.0\"\n[transport]\ntype = \"stdio\"\ncommand = " +
		"\"npx\"\nprotocol = \"mcp\"\nmcp_version = \"2025-11-25\"\n",
	"http": "[plugin]\nid = \"a\"\nversion = \"1.0.0\"\n[transport]\nurl = \"https://example.com/mcp\"\n",
	"sse": "[plugin]\nid = \"a\"\nversion = \"1.0.0\"\n[transport]\nkind = \"sse\"\nurl = " +
		"\"http://[::1]:8080/sse\"\n",
	"lite": "[plugin]\nid = \"a\"\nversion = \"1.0.0\"\n[transport]\nscript = \"lib/echo.py\"\nargs = " +
		"[\"-q\"]\nprotocol = \"lite\"\n" +
		"[[tools]]\nname = \"echo\"\nmethod = \"do_echo\"\ninput_schema = { type = \"object\" }\n",
	"exec": "[plugin]\nid = \"a\"\nversion = \"1.0.0\"\n[transport]\nkind = \"exec\"\n" +
		"[[tools]]\nname = \"convert\"\ncommand = [\"./convert\", \"{path}\"]\n[[tools]]\nname = \"show\"\ncommand = " +
		"\"cat -- {path}\"\n",
	"servers only": "[plugin]\nid = \"a\"\nversion = \"1.0.0\"\n[mcp_servers.x]\ncommand = \"x\"\n",
}

// mustParse fails for a diagnostic above Info.
func mustParse(t *testing.T, text string) *Manifest {
	t.Helper()
	m, diags := Parse("plugin.toml", []byte(text))
	for _, d := range diags {
		if d.Level != protocol.LevelInfo {
			t.Error(d)
		}
	}
	if m == nil {
		t.FailNow()
	}
	return m
}
