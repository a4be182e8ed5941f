package manifest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/protocol"
)

func TestParseSidecar(t *testing.T) {
	servers, diags := ParseSidecar("s", []byte("\ufeff"+`{
  // as VS Code writes it
  "inputs": [],
  "servers": {
    "Files": {"command": "npx", "args": ["-y", "files", "${env:HOME}"], "env": {"A": "${B:-c}"}, "envFile": ".env",},
    "files": {"command": "other"},
    "web": {"url": "https://example.com/mcp", "headers": {"X-Key": "${KEY}"}},
    "old": {"url": "https://example.com/sse"},
    "gemini": {"httpUrl": "https://example.com/g"},
    "stream": {"type": "streamable-http", "url": "https://example.com/s"},
    "socket": {"type": "ws", "url": "https://example.com/s"},
    "asks": {"command": "x", "env": {"K": "${input:key}"}},
    "numbers": {"command": "x", "args": ["--port", 80]},
    "off": {"command": "x", "disabled": true},
    "nothing": {},
    "list": [],
    "": {"command": "x"},
  },
}`))
	want := map[string]Server{
		"Files": {
			Type:    "stdio",
			Command: "npx",
			Args:    []string{"-y", "files", "${HOME}"},
			Env:     map[string]string{"A": "${B:-c}"},
		},
		"web":    {Type: "http", URL: "https://example.com/mcp", Headers: map[string]string{"X-Key": "${KEY}"}},
		"old":    {Type: "sse", URL: "https://example.com/sse"},
		"gemini": {Type: "http", URL: "https://example.com/g"},
		"stream": {Type: "http", URL: "https://example.com/s"},

		"numbers": {Type: "stdio", Command: "x", Args: []string{"--port", "80"}},
	}
	if diff := cmp.Diff(want, servers); diff != "" {
		t.Errorf("servers (-want +got):\n%s", diff)
	}
	var got strings.Builder
	for _, d := range diags {
		fmt.Fprintf(&got, "%s %s\n", d.Level, d)
	}
	wantDiags := `info s:3:3: "inputs" is not used
info s:5:98: unknown key "envFile" in [servers.Files]
error s:6:5: there is a server named like "files" already; the first one is kept; rename one of them
info s:7:13: servers.web: no type is stated, so the url is taken for type http; state the type
info s:8:13: servers.old: the url ends in /sse, so it is taken for type sse; state the type
error s:11:16: servers.socket: type is stdio, http or sse, not "ws"
error s:12:5: servers.asks: it asks the user for a value with ${input:…}, which only an editor can; name a variable of the environment instead: ${NAME}
info s:14:5: servers.off is disabled in the file
error s:15:5: servers.nothing: a server needs a command or a url
error s:16:5: servers.list: want an object
error s:17:5: "" is not a server's name: 1 to 64 characters
`
	if diff := cmp.Diff(wantDiags, got.String()); diff != "" {
		t.Errorf("diagnostics (-want +got):\n%s", diff)
	}
}

func TestInvalidSidecarsHaveNoServers(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"syntax", "{\n  \"mcpServers\": {]\n}", "s:2:18: "},
		{"an array", "[]", "s:1:1: the file is not a JSON object"},
		{"something else", "{}", "s:1:1: there is neither mcpServers nor servers"},
		{"servers are a list", `{"servers": []}`, "s:1:2: servers: want an object"},
		{"Latin-1", "{\"a\": \"\xe9\"}", "s:1:8: byte 0xE9 is not UTF-8"},
		{"M3 arrays", strings.Repeat("[", 60<<10), "s:1:25: more than 24 levels"},
		{"M3 behind a comment", `{"a": /*/ " */ ` + strings.Repeat("[", 60<<10), "more than 24 levels"},
		{"M3 behind a string", `{"a": "\"", "b": ` + strings.Repeat("[", 60<<10), "more than 24 levels"},
		{"M3 too large", strings.Repeat(" ", MaxBytes+1), "s: the file has more than 64 KiB"},
	} {
		t.Run(c.name, func(t *testing.T) {
			servers, diags := ParseSidecar("s", []byte(c.text))
			if len(servers) > 0 || len(diags) != 1 || diags[0].Level != protocol.LevelError ||
				!strings.Contains(diags[0].String(), c.want) {
				t.Errorf("got %v, %v, want %q", servers, diags, c.want)
			}
		})
	}
	servers, diags := ParseSidecar("s",
		[]byte(`{"mcpServers": {"a": {"command": "[[[[{{{{//_/*"} /* [[[[ */ } // [[[[
}`))
	if len(servers) != 1 || diags != nil {
		t.Errorf("brackets in strings and comments: %v, %v", servers, diags)
	}
}

// A .mcp.json is read as leniently as its clients read it: numbers and booleans for text, and a command that is a
// whole line.
func TestSidecarIsReadLeniently(t *testing.T) {
	servers, diags := ParseSidecar("s", []byte(`{"mcpServers": {
  "numbers": {"command": "x", "env": {"PORT": 3000, "DEBUG": true, "RATE": 1.50}},
  "line": {"command": "python3 'my server.py' --fast"},
  "path": {"command": "/opt/my tools/server"}
}}`))
	want := map[string]Server{
		"numbers": {
			Type:    "stdio",
			Command: "x",
			Env:     map[string]string{"PORT": "3000", "DEBUG": "true", "RATE": "1.50"},
		},
		"line": {Type: "stdio", Command: "python3", Args: []string{"my server.py", "--fast"}},
		"path": {Type: "stdio", Command: "/opt/my tools/server"},
	}
	if diff := cmp.Diff(want, servers); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(diags) != 1 || diags[0].Level != protocol.LevelInfo || !strings.Contains(diags[0].Message, "whole line") {
		t.Errorf("%v", diags)
	}
}

func TestServerID(t *testing.T) {
	for name, want := range map[string]string{
		"Files":                 "o.files",
		"a.b c/é":               "o.a_b_c__",
		"x-1":                   "o.x-1",
		"":                      "",
		strings.Repeat("x", 65): "",
	} {
		if got := ServerID("o", name); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}

// Keys for another host are accepted but reported, so that none is ignored silently.
func TestKeysOfOtherHostsAreReported(t *testing.T) {
	m, diags := Parse("p", []byte(`[plugin]
id = "hub"
version = "0.1.0"
[capabilities]
tools = ["x"]
pollers = ["inbox", "feed"]
[transport]
command = "./hub"
[mcp_servers.calendar]
transport = "auto"
url = "https://example.com/calendar/sse"
log_level = "info"
context_passthrough = true
[outbound_bindings]
whatsapp = ["a"]
`))
	var got strings.Builder
	for _, d := range diags {
		fmt.Fprintf(&got, "%s %s\n", d.Level, d)
	}
	want := `warn p:6:1: capabilities.pollers has no effect: this host has tools and hooks, and no pollers, so inbox, feed stay unused
info p:12:1: mcp_servers.calendar.log_level has no effect here
info p:14:2: outbound_bindings has no effect here
`
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("diagnostics (-want +got):\n%s", diff)
	}
	if m == nil {
		t.Fatal("the manifest is refused")
	}
	if s := m.MCPServers["calendar"]; s.Type != KindSSE || !s.ContextPassthrough {
		t.Errorf("server %+v", s)
	}
	n, diags := Parse("p", []byte("[plugin]\nid = \"n\"\nversion = \"0.1.0\"\n[capabilities]\ntools = "+
		"[\"x\"]\n[transport]\nkind = \"nats\"\nsubject_prefix = \"ext.n\"\n"))
	if len(diags) != 0 || n == nil || n.Transport.SubjectPrefix != "ext.n" || n.Transport.Protocol != ProtocolNative {
		t.Errorf("nats: %v", diags)
	}
}
