package manifest

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/internal/text/strict"
	"github.com/exthost/exthost/protocol"
)

func TestParseValid(t *testing.T) {
	for name, text := range validManifests {
		t.Run(name, func(t *testing.T) { mustParse(t, text) })
	}
	m := mustParse(t, full)
	if diff := cmp.Diff(Command{"./guard.sh", "--strict", "two words"}, m.Hooks[0].Command); diff != "" {
		t.Errorf("hook command (-want +got):\n%s", diff)
	}
	if m.Hooks[0].Event != "before_tool_call" || m.Runtime.Instances.Count() != 4 ||
		m.Transport.Protocol != ProtocolNative {
		t.Errorf("got event %q, instances %q, protocol %q", m.Hooks[0].Event, m.Runtime.Instances, m.Transport.Protocol)
	}
	if s := m.MCPServers["remote"]; s.Type != KindHTTP || s.Transport().Protocol != ProtocolMCP {
		t.Errorf("server remote is %+v", s)
	}
	if got := mustParse(t, validManifests["http"]).Transport; got.Kind != KindHTTP || got.MCPVersion != MCPVersionAuto {
		t.Errorf("transport of a url is %+v", got)
	}
}

// diagnose returns the diagnostics of Parse, one a line. An error must come without a manifest.
func diagnose(t *testing.T, text string) string {
	t.Helper()
	m, diags := Parse("p", []byte(text))
	if strict.Failed(diags) == (m != nil) {
		t.Errorf("manifest %v beside %v", m, diags)
	}
	var b strings.Builder
	for _, d := range diags {
		if d.Level == protocol.LevelError {
			fmt.Fprintln(&b, d)
		}
	}
	return b.String()
}

func TestSyntaxErrorsHavePositions(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"syntax error", "[plugin]\nid = \"a\nversion = 1\n", "p:2:"},
		{"no value", "[plugin]\nid =\n", "p:2:"},
		{"duplicate key", "[plugin]\nid = \"a\"\nid = \"b\"\n", "p:3:"},
		{"Latin-1", "[plugin]\nname = \"caf\xe9\"\n", "p:2:12: byte 0xE9 is not UTF-8; save the file as UTF-8"},
		{"NUL", "[plugin]\nname = \"\x00\"\n", "p:2:9: the file has a NUL byte"},
		{"UTF-16", "\xff\xfe[\x00p\x00", "p:1:1: the file is UTF-16"},
		{"a second mark", "\ufeff\ufeff[plugin]\n", "p:1:"},
		{"lone CR", "[plugin]\rid = \"a\"\n", "p:1:"},
		{"trailing junk", "[plugin] x\n", "p:1:"},
		{"open array", "a = [1, 2\n", "p:"},
		{"open string", "a = \"\"\"x\n", "p:"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := diagnose(t, c.text)
			if !strings.HasPrefix(got, c.want) || strings.Count(got, "\n") != 1 {
				t.Errorf("got %q, want one line that begins with %q", got, c.want)
			}
		})
	}
}

func TestEveryErrorIsReportedAtItsPosition(t *testing.T) {
	got := diagnose(t, `[plugin]
id = "../x"
version = "v1"
nmae = "x"
command = "./x"
[transport]
command = ["./x"]
arg = []
url = "https://x"
[requires]
bins = "ffmpeg"
os = ["macos"]
[runtime]
call_timeout = "-1s"
max_in_flight = 0
health_interval = 5
restart = { max_attempts = -2 }
[[hooks]]
event = "before_tool_cal"
command = "a | b"
"quoted key" = 1
[capabilities]
tools = ["a", "a", "b c"]
[extra]
`)
	want := `p:2:1: plugin.id: "../x" is not an id: it starts with a-z and goes on with a-z, 0-9, _ and -
p:3:1: plugin.version: want a version such as 0.1.0, got "v1"
p:4:1: unknown key "nmae" in [plugin]; did you mean "name"?
p:5:1: unknown key "command" in [plugin]; it belongs in [transport]
p:7:1: transport.command: want a string, got an array; command is the program alone; put the rest into args
p:8:1: unknown key "arg" in [transport]; did you mean "args"?
p:9:1: transport.url is for kind http, sse and nats only, not stdio
p:11:1: requires.bins: want an array of strings, got a string
p:12:7: requires.os: "macos" is none that is known; did you mean "darwin"?
p:14:1: runtime.call_timeout: "-1s" is negative: a duration is 0 or more
p:15:1: runtime.max_in_flight: max_in_flight is at least 1, not 0
p:16:1: runtime.health_interval: health_interval (5ms) is less than 100ms, and a ping that takes longer would kill the child; a number without a unit is milliseconds
p:17:13: runtime.restart.max_attempts: restart.max_attempts is at least -1, not -2
p:19:1: hooks[0].event: "before_tool_cal" is not a hook point; did you mean "before_tool_call"?
p:20:1: hooks[0].command: '|' means something to a shell, and no shell runs "a | b": quote it, or move the line into a script
p:21:1: unknown key "quoted key" in [hooks[0]]
p:23:15: "a" is listed twice
p:23:20: "b c" is not a name for tools: 1 to 128 of A-Z, a-z, 0-9, _ . and -
p:24:2: unknown key "extra" at the top level
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The classes of [risk] are words, about tools that there can be.
func TestRiskIsChecked(t *testing.T) {
	const declared = "[plugin]\nid = \"a\"\nversion = \"1.0.0\"\n[transport]\nkind = \"exec\"\ncommand = " +
		"\"cat\"\n[[tools]]\nname = \"get\"\n[risk]\n"
	const mcp = "[plugin]\nid = \"a\"\nversion = \"1.0.0\"\n[transport]\ncommand = \"npx\"\nprotocol = " +
		"\"mcp\"\n[risk]\n"
	for text, want := range map[string]string{
		declared + "get = \"raed\"\n":  `p:10:1: risk.get: "raed" is no risk; did you mean "read"?`,
		declared + "get = \"high\"\n":  `p:10:1: risk.get: "high" is no risk; one of read, write, destroy`,
		declared + "gte = \"read\"\n":  `p:10:1: risk.gte: there is no tool "gte" in [[tools]]; did you mean "get"?`,
		declared + "get = true\n":      `p:10:1: risk.get: want a string, got true`,
		declared + "get = \"read\"\n":  "",
		mcp + "anything = \"destroy\"": "",
		"[plugin]\nid = \"a\"\nversion = \"1.0.0\"\n[[hooks]]\nevent = \"before_tool_call\"\ncommand = \"a\"\n" +
			"[risk]\nx = \"read\"\n": "p:7:2: [risk] is about the tools of the extension, and it has no [transport]",
	} {
		if got := strings.TrimSpace(diagnose(t, text)); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", text, got, want)
		}
	}
}

// A misspelt key is one error: what follows from it, that the key is missing, is not another.
func TestMisspeltKeysAreOneError(t *testing.T) {
	got := diagnose(t, `[plugin]
id = "a"
verison = "1.0.0"
[transport]
comand = "./x"
`)
	want := `p:3:1: unknown key "verison" in [plugin]; did you mean "version"?
p:5:1: unknown key "comand" in [transport]; did you mean "command"?
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	got = diagnose(t, "[plugin]\nid = \"a\"\nversion = \"1.0.0\"\n[trasport]\ncommand = \"./x\"\n")
	if want := "p:4:2: unknown key \"trasport\" at the top level; did you mean \"transport\"?\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	const valid = "[plugin]\nid = \"a\"\nversion = \"1.0.0\"\n"
	got = diagnose(t, valid+"[transport]\ncomand = \"x\"\ncommand = \"\"\n") // the right key is judged all the same
	if !strings.Contains(got, "comand") || !strings.Contains(got, "it is empty") {
		t.Errorf("got %q", got)
	}
}

func TestWrongCommandOfAToolIsOneError(t *testing.T) {
	got := diagnose(t, "[plugin]\nid = \"a\"\nversion = \"1.0.0\"\n[transport]\nkind = \"exec\"\n[[tools]]\n"+
		"name = \"x\"\ncommand = \"echo hi | wc\"\n")
	if strings.Count(got, "\n") != 1 || !strings.Contains(got, "p:8:1: ") || !strings.Contains(got, "no shell runs") {
		t.Errorf("got %q", got)
	}
}

// A native extension without [capabilities] may offer everything, one with a list what the list names.
func TestCapabilitiesMayBeAbsent(t *testing.T) {
	const head = "[plugin]\nid = \"a\"\nversion = \"1.0.0\"\n[transport]\ncommand = \"x\"\n"
	if got := diagnose(t, head); got != "" {
		t.Error(got)
	}
}

func TestBrokenRulesAreReported(t *testing.T) {
	const head = "[plugin]\nid = \"a\"\nversion = \"1.0.0\"\n"
	const caps = "[capabilities]\ntools = [\"x\"]\n"
	const stdio = head + caps + "[transport]\ncommand = \"x\"\n"
	const nats = head + caps + "[transport]\nkind = \"nats\"\n"
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "p:1:1: plugin.id: an id is needed"},
		{"nothing to start", head, "[transport]"},
		{"empty capabilities", head + "[capabilities]\ntools = []\n[transport]\ncommand = \"x\"\n", "p:4:2: "},
		{"command and script", stdio + "script = \"x.py\"\n", "command and script exclude each other"},
		{"another's file as a token",
			head + "[transport]\nkind = \"http\"\nurl = \"https://example.com\"\ntoken_file = " +
				"\"../../.ssh/id_ed25519\"\n", "transport.token_file is not below the extension's directory"},
		{"an absolute file as a token",
			head + "[transport]\nkind = \"http\"\nurl = \"https://example.com\"\ntoken_file = \"/etc/shadow\"\n",
			"transport.token_file is not below the extension's directory"},
		{"all three", stdio + "cmd = [\"x\"]\nscript = \"x.py\"\n", "command and cmd and script exclude each other"},
		{"none of them", head + caps + "[transport]\nkind = \"stdio\"\n", "needs one of command, cmd and script"},
		{"args beside cmd", head + caps + "[transport]\ncmd = [\"x\"]\nargs = [\"y\"]\n", "args has no place"},
		{"a line as the command", head + "[transport]\ncommand = \"python3 main.py\"\n",
			`"python3 main.py" is a line: no shell runs it; write cmd = ["python3", "main.py"]`},
		{"a path with options as the command", head + "[transport]\ncommand = \"./run.sh --fast\"\nargs = [\"x\"]\n",
			`write cmd = ["./run.sh", "--fast", "x"] in place of command and args`},
		{"a line as the command of a server",
			head + "[mcp_servers.s]\ncommand = \"npx -y pkg\"\n", `write command = "npx" and args = ["-y", "pkg"]`},
		{"empty cmd", head + caps + "[transport]\ncmd = []\n", "transport.cmd: it is empty"},
		{"script elsewhere", head + caps + "[transport]\nscript = \"../x.py\"\n", "outside the extension's directory"},
		{"kind and type", stdio + "kind = \"stdio\"\ntype = \"stdio\"\n",
			`"type" and "kind" mean the same in [transport]`},
		{"nats with a wildcard", nats + "subject_prefix = \"ext.*\"\n",
			"transport.subject_prefix: \"ext.*\" is not words"},
		{"nats with a tail", nats + "subject_prefix = \"ext.>\"\n", "is not words"},
		{"nats with a space", nats + "subject_prefix = \"ext x\"\n", "is not words"},
		{"nats with a line", nats + "subject_prefix = \"ext\\r\\nPUB a 0\"\n", "is not words"},
		{"nats with an empty word", nats + "subject_prefix = \"ext..x\"\n", "is not words"},
		{"nats of the system", nats + "subject_prefix = \"$SYS\"\n", "is not words"},
		{"nats at an inbox", nats + "subject_prefix = \"_INBOX.x\"\n", "are for answers and for clusters"},
		{"nats in a cluster", nats + "subject_prefix = \"exthost.1.main.to.gpu1.k3v9q0zzta\"\n",
			"are for answers and for clusters"},
		{"nats with a long prefix", nats + "subject_prefix = \"" + strings.Repeat("x", 129) + "\"\n", "is not words"},
		{"nats over http", nats + "url = \"https://x\"\n", "is no address of a NATS server"},
		{"nats without a port", nats + "url = \"nats://x\"\n", "is no address of a NATS server"},
		{"nats with a password", nats + "url = \"nats://me:secret@x:4222\"\n",
			"it has a user or a password: state token_env"},
		{"nats with a password and no port", nats + "url = \"nats://me:secret@x\"\n", "it has a user or a password"},
		{"nats with a password that is no url", nats + "url = \"nats://me:secret%zz@x:4222\"\n",
			"it has a user or a password"},
		{"nats that starts", nats + "command = \"x\"\n", "transport.command is for kind stdio and exec only, not nats"},
		{"nats with headers", nats + "headers = {A = \"b\"}\n",
			"transport.headers is for kind http and sse only, not nats"},
		{"nats and MCP", nats + "protocol = \"mcp\"\n", "transport.protocol of kind nats is native"},
		{"unknown kind", head + "[transport]\nkind = \"studio\"\n", `did you mean "stdio"?`},
		{"kind by the name of others", head + "[transport]\nkind = \"streamable-http\"\nurl = \"https://x\"\n",
			`not "streamable-http"; write kind = "http"`},
		{"kind that is a protocol", head + "[transport]\nkind = \"mcp\"\ncommand = \"x\"\n", `write protocol = "mcp"`},
		{"protocol that is a kind", head + "[transport]\nprotocol = \"sse\"\nurl = \"https://x\"\n",
			`write kind = "sse": protocol is what is spoken over it`},
		{"kind under transport", head + "[transport]\ntransport = \"sse\"\nurl = \"https://x\"\n",
			`unknown key "transport" in [transport]; write kind = "sse"`},
		{"http without url", head + "[transport]\nkind = \"http\"\n", "a url is needed"},
		{"http with command", head + "[transport]\nkind = \"http\"\nurl = \"https://x\"\ncommand = \"x\"\n",
			"transport.command is for kind stdio and exec only, not"},
		{"native over http", head + "[transport]\nurl = \"https://x\"\nprotocol = \"native\"\n",
			"transport.protocol of kind http is mcp"},
		{"ftp url", head + "[transport]\nkind = \"sse\"\nurl = \"ftp://x\"\n", "not an http or https url"},
		{"url with a password, which is not quoted", head + "[transport]\nkind = \"sse\"\nurl = \"ftp://me:p@ss@x\"\n",
			`"***@x" is not an http or https url`},
		{"url without host", head + "[transport]\nkind = \"sse\"\nurl = \"https:///x\"\n", "names no host"},
		{"header injection", head + "[transport]\nurl = \"https://x\"\nheaders = { A = \"b\\nc\" }\n", "line break"},
		{"mcp_version of native", stdio + "mcp_version = \"auto\"\n", "mcp_version is for protocol mcp"},
		{"unknown mcp_version", stdio + "protocol = \"mcp\"\nmcp_version = \"2024-01-01\"\n",
			"transport.mcp_version is auto"},
		{"exec with a protocol",
			head + "[transport]\nkind = \"exec\"\ncommand = \"x\"\nprotocol = \"lite\"\n[[tools]]\nname = \"x\"\n",
			"transport.protocol is for kind stdio only"},
		{"exec without tools", head + "[transport]\nkind = \"exec\"\ncommand = \"x\"\n", "[[tools]] is missing"},
		{"exec with half the commands", head + "[transport]\nkind = \"exec\"\n[[tools]]\nname = \"x\"\n",
			"needs one of command"},
		{"native with tools", stdio + "[[tools]]\nname = \"x\"\n", "[[tools]] is for kind exec and protocol lite"},
		{"lite in parallel", head +
			"[transport]\ncommand = \"x\"\nprotocol = \"lite\"\n[[tools]]\nname = \"x\"\n[runtime]\nmax_in_flight " +
			"= 2\n", "one call in flight"},
		{"tool twice", head + "[transport]\ncommand = \"x\"\nprotocol = \"lite\"\n[[tools]]\nname = " +
			"\"x\"\n[[tools]]\nname = \"x\"\n", `p:10:1: the tool "x" is declared twice`},
		{"long description", head + "description = \"" + strings.Repeat("é",
			513) + "\"\n" + caps + "[transport]\ncommand = \"x\"\n", "has 513 characters"},
		{"extension_load", stdio + "[[hooks]]\nevent = \"extension_load\"\ncommand = \"x\"\n",
			"decided by the operator's hooks"},
		{"bad matcher", stdio + "[[hooks]]\nevent = \"Stop\"\ncommand = \"x\"\nmatcher = \"(\"\n",
			"not a regular expression"},
		{"server that requires no variable", stdio +
			"[mcp_servers.x]\ncommand = \"x\"\nrequires_env = [\"A\", \"a b\"]\n",
			`p:10:22: mcp_servers.x.requires_env: "a b" is not a variable's name`},
		{"server without anything", stdio + "[mcp_servers.x]\n",
			"p:8:14: mcp_servers.x: a server needs a command or a url"},
		{"servers alike", stdio + "[mcp_servers.x]\ncommand = \"x\"\n[mcp_servers.X]\ncommand = \"x\"\n", "named like"},
		{"config against its schema",
			stdio + "[config]\na = [1, \"x\"]\n[config_schema]\nproperties.a.items.type = \"integer\"\n",
			"p:9:9: config.a.1: got string, want integer"},
		{"schema that is none", stdio + "[config_schema]\ntype = \"strin\"\n", "config_schema is not a JSON Schema"},
		{"schema elsewhere", stdio + "[config_schema]\n\"$ref\" = \"https://example.com/schema.json\"\n",
			"nothing is fetched"},
		{"schema in a circle", stdio +
			"[config_schema]\n\"$ref\" = \"#/$defs/a\"\n\"$defs\".a.items.\"$ref\" = \"#/$defs/a\"\n",
			"#/$defs/a refers to itself"},
		{"schema that doubles", stdio + "[config_schema]\n\"$ref\" = \"#/$defs/d0\"\n" + doubling(20),
			"more than 10000 parts"},
		{"schema times config",
			stdio + "[config]\nx = [" + strings.Repeat("1,",
				10_000) + "]\n[config_schema]\n" + doubling(9) + "properties.x.items.\"$ref\" = \"#/$defs/d0\"\n",
			"too large to check"},
		{"config that JSON lacks", stdio + "[config]\nx = nan\n", "config: x: JSON has no number NaN"},
		{"bad variable", stdio + "[requires]\nenv = [\"A-B\"]\n", "not a variable's name"},
		{"bin with a path", stdio + "[requires]\nbins = [\"/bin/sh\"]\n", "not the name of a program on PATH"},
		{"size", stdio + "[runtime]\nmax_line_bytes = \"1 lot\"\n", "is not a size"},
		{"instances", stdio + "[runtime]\ninstances = 0\n", "shared"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := diagnose(t, c.text); !strings.Contains(got, c.want) {
				t.Errorf("got %q, want it to say %q", got, c.want)
			}
		})
	}
}

// doubling defines n schemas, each of which holds the next one twice.
func doubling(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "\"$defs\".d%d.allOf = [{ \"$ref\" = \"#/$defs/d%d\" }, { \"$ref\" = \"#/$defs/d%d\" }]\n", i,
			i+1, i+1)
	}
	fmt.Fprintf(&b, "\"$defs\".d%d.type = \"integer\"\n", n)
	return b.String()
}

func TestNotesKeepTheManifest(t *testing.T) {
	for _, line := range []string{`replay = "idempotent"`, `isolate = "none"`} {
		m, diags := Parse("p", []byte(minimal+"[runtime]\n"+line+"\n"))
		if m == nil || m.Runtime.Replay != "" || m.Runtime.Isolate != "" || len(diags) != 1 ||
			diags[0].Code != CodeUnsupported || diags[0].Level != protocol.LevelWarn {
			t.Errorf("an author's %s: %+v, %v", line, m, diags)
		}
	}
	m, diags := Parse("p", []byte(minimal+"[runtime]\nreplay = \"never\"\nisolate = \"pid\"\n"))
	if m == nil || m.Runtime.Isolate != IsolatePID || len(diags) != 0 {
		t.Errorf("what authors may state: %+v, %v", m, diags)
	}
	m, diags = Parse("p", []byte(strings.Replace(minimal, "tools", "channels = [\"sms\"]\ntools", 1)))
	if m == nil || len(diags) != 1 || diags[0].Code != CodeUnsupported || diags[0].Extension != "weather" {
		t.Errorf("channels: %+v, %v", m, diags)
	}
	if _, diags := Parse("p", []byte(minimal+"[config]\n[config_schema]\nrequired = [\"key\"]\n")); diags != nil {
		t.Errorf("what the operator may still supply: %v", diags)
	}
}

func TestIDsAreValidated(t *testing.T) {
	for _, id := range []string{"a", "weather", "a-b_c9", "memory", strings.Repeat("a", 64)} {
		if err := ValidateID(id); err != nil {
			t.Errorf("%q: %v", id, err)
		}
	}
	bad := []string{"", "../x", "Weather", "9a", "-a", "a.b", "a b", "wеather" /* Cyrillic */, "ａ", "a\n",
		strings.Repeat("a", 65)}
	for _, id := range append(bad, ReservedIDs()...) {
		if ValidateID(id) == nil {
			t.Errorf("%q is accepted", id)
		}
	}
}

func TestCommandsNamePrograms(t *testing.T) {
	for _, command := range []string{"", " ", "-rf", "a\\u0000b", "${SHELL}", "${EXTHOST_PACKAGE}/weather"} {
		text := strings.Replace(minimal, "./weather", command, 1)
		if got := diagnose(t, text); !strings.HasPrefix(got, "p:7:1: transport.command") {
			t.Errorf("%q: got %q", command, got)
		}
	}
	for command, ok := range map[string]bool{
		"${EXTHOST_PACKAGE}/bin/weather": true,
		"${EXTHOST_PACKAGE}/../weather":  false,
		"${EXTHOST_PACKAGE}/":            false,
		"${EXTHOST_PACKAGE}":             false,
		"${EXTHOST_PACKAGE}/${X}":        false,
		"${EXTHOST_PACKAGE}//bin/sh":     false,
		"/bin/${EXTHOST_PACKAGE}/sh":     false,
	} {
		text := "[plugin]\nid = \"weather\"\nversion = \"0.1.0\"\n[transport]\nprotocol = \"mcp\"\ncommand = \"" +
			command + "\"\n"
		if got := diagnose(t, text); ok != (got == "") || !ok && !strings.HasPrefix(got, "p:6:1: transport.command") {
			t.Errorf("%q: got %q", command, got)
		}
	}
}

func TestVersionsAreStrictSemver(t *testing.T) {
	for version, ok := range map[string]bool{
		"1.2.3":       true,
		"1.2.3-a.1+b": true,
		"1.2":         false,
		"v1.2.3":      false,
		"01.2.3":      false,
		"1.2.3-01":    false,
		">=1.0.0":     false,
	} {
		text := strings.Replace(minimal, "version = \"0.1.0\"",
			"version = \"0.1.0\"\nmin_agent_version = \""+version+"\"", 1)
		if got := diagnose(t, text); ok != (got == "") {
			t.Errorf("%s: got %q", version, got)
		}
	}
}

// lines repeats a line with a running number for %d, up to the maximum size of a file.
func lines(format string) string {
	var b strings.Builder
	for i := 0; b.Len() < MaxBytes-len(format)-8; i++ {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

func TestBombsAreRefusedBeforeParsing(t *testing.T) {
	deep := strings.Repeat("a.", 5<<10) + "a = 1\n"
	for name, text := range map[string]string{
		"dotted key":           deep,
		"spaced dotted key":    strings.ReplaceAll(deep, ".", " . "),
		"dotted header":        "[" + strings.Repeat("a.", 5<<10) + "a]\n",
		"dotted inline key":    "x = {" + deep + "}\n",
		"1M arrays":            "x = " + strings.Repeat("[", 1<<20),
		"arrays":               "x = " + strings.Repeat("[", 60<<10),
		"inline tables":        "x = " + strings.Repeat("{a = ", 10<<10),
		"300 MB":               strings.Repeat("# comment\n", 30<<20),
		"behind strings":       "a = \"\\\"\" \nb = '''x'''''\n" + deep,
		"behind a syntax slip": "a = ! " + deep + deep,
		"wide and deep":        lines(strings.Repeat("k.", rules.Depth-1) + "k%d = 1\n"),
		"deep tables":          lines("[[x%d." + strings.Repeat("a.", rules.Depth-2) + "a]]\n"),
		"long deep keys": "[" + strings.Repeat(strings.Repeat("k", 40)+".",
			rules.Depth-2) + "k]\n" + lines("k%d=1\n")[:60<<10] + "\n",
		"long config keys": "[config." + strings.Repeat(strings.Repeat("k", 40)+".",
			20) + "k]\n" + lines("k%d=1\n")[:60<<10] + "\n",
		"many inline tables": "x = [" + strings.Repeat("{a=1},", 10<<10) + "]\n",
		"many unknown keys":  lines("plugins%d=1\n"),
	} {
		t.Run(name, func(t *testing.T) {
			allocated, took := measure(func() {
				if m, _ := Parse("p", []byte(text)); m != nil {
					t.Error("accepted")
				}
			})
			t.Logf("%d bytes: %d KiB allocated, %v", len(text), allocated>>10, took)
			if allocated > 64<<20 {
				t.Errorf("parsing %d bytes allocated %d MiB", len(text), allocated>>20)
			}
		})
	}
}

// measure returns all that f allocates, as a bound of its memory.
func measure(f func()) (allocated uint64, took time.Duration) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	f()
	took = time.Since(start)
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc, took
}

func BenchmarkParse(b *testing.B) {
	for name, text := range map[string]string{"minimal": minimal, "full": full} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if m, _ := Parse("p", []byte(text)); m == nil {
					b.Fatal("not accepted")
				}
			}
		})
	}
}

func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, FileName)
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if _, diags := ReadFile(path, ReadOptions{}); len(diags) != 1 || diags[0].Code != CodeUnreadable {
		t.Errorf("no file: %v", diags)
	}
	write(FileName, "[plugin]\nid = \"bundle\"\nversion = \"1.0.0\"\n")
	if m, _ := ReadFile(path, ReadOptions{}); m != nil {
		t.Error("a manifest that starts nothing is accepted")
	}
	write(SidecarName, `{"mcpServers": {"files": {"command": "npx"}, "broken": {"url": "ftp://x"}}}`)
	m, diags := ReadFile(path, ReadOptions{})
	if m == nil || len(m.MCPServers) != 1 || len(diags) != 1 || diags[0].Code != CodeSidecar {
		t.Errorf("a sidecar with one good server: %+v, %v", m, diags)
	}
	write(FileName, "[plugin]\nid = \"bundle\"\nversion = \"1.0.0\"\n[mcp_servers.own]\ncommand = \"x\"\n")
	if m, _ := ReadFile(path, ReadOptions{}); m == nil || len(m.MCPServers) != 1 || m.MCPServers["own"].Command != "x" {
		t.Errorf("[mcp_servers] beside a sidecar: %+v", m)
	}
	write(FileName, "[plugin]\nid = \"bundle\"\nversion = \"1.0.0\"\n[mcp_servers]\n")
	write(SidecarName, "a format of another program")
	if m, diags := ReadFile(path, ReadOptions{}); m == nil || len(m.MCPServers) != 0 || len(diags) != 1 ||
		diags[0].Level != protocol.LevelInfo {
		t.Errorf("[mcp_servers] without servers beside a sidecar: %+v, %v", m, diags)
	}
	write(FileName, strings.Repeat("#", MaxBytes+1))
	if _, diags := ReadFile(path, ReadOptions{}); diags[0].Code != CodeTooLarge {
		t.Errorf("a large file: %v", diags)
	}
}

func TestPlaceholdersNeedProperties(t *testing.T) {
	const manifest = `[plugin]
id = "x"
version = "1.0.0"
[transport]
kind = "exec"
[[tools]]
name = "date"
command = ["date", "%s", "{print $1}"]
[tools.input_schema.properties.format]
type = "string"
`
	for word, want := range map[string]string{
		"{format}":  "",
		"{frmat}":   `8:1: tools[0].command: {frmat} is no property of input_schema; did you mean {format}?`,
		"+{format}": `8:1: tools[0].command: {format} inside "+{format}" is not replaced; make it a word of its own`,
		"+{other}":  "",
	} {
		_, diags := Parse("p", []byte(fmt.Sprintf(manifest, word)))
		got := ""
		for _, d := range diags {
			got += strings.TrimPrefix(d.String(), "p:")
		}
		if got != want {
			t.Errorf("%s: %q, want %q", word, got, want)
		}
	}
}
