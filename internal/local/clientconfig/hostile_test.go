package clientconfig

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/exthost/exthost/manifest"
)

// TestMistakes has files that their programs could not read either: the file is refused, or the server is dropped
// with the reason. Nothing is imported partially.
func TestMistakes(t *testing.T) {
	server := func(text string) string { return `{"mcpServers":{"a":{"command":"x",` + text + `}}}` }
	for name, tt := range map[string]struct{ path, data, want string }{
		"deep JSON": {".mcp.json", strings.Repeat("[", 1<<20), "nested deeper"},
		"deep TOML": {"config.toml", "a = " + strings.Repeat("[", 1<<20), "nested deeper"},
		"deep after a text": {".mcp.json", `{"a": "\\", /* " */ "b": // "` + "\n" + strings.Repeat("{", 1<<20),
			"nested deeper"},
		"not UTF-8":           {".mcp.json", "{\"mcpServers\":{\"a\xff\":{}}}", "not UTF-8"},
		"two documents":       {"a.yaml", "a: http://a\n---\nb: http://b\n", "second YAML document"},
		"servers of no table": {".mcp.json", `{"mcpServers": [1]}`, "no table"},
		"plugins of no list":  {"config.yaml", "plugins: {a: b}", "no list"},
		"args of a text":      {".mcp.json", server(`"args":"-v"`), "args is no list"},
		"args of a table":     {".mcp.json", server(`"args":["-v",{}]`), "args[1] is no text"},
		"env of a list":       {".mcp.json", server(`"env":[1]`), "env is no table"},
		"env with a table":    {".mcp.json", server(`"env":{"A":{}}`), "env.A is no text"},
		"disabled of a text":  {".mcp.json", server(`"disabled":"yes"`), "disabled is neither"},
		"enabled of a number": {".mcp.json", server(`"enabled":0`), "enabled is neither"},
		"an endless time":     {".mcp.json", server(`"timeout":1e300`), "timeout is no time"},
		"a command of a list": {".mcp.json", `{"mcpServers":{"a":{"command":["x"]}}}`, "command is no text"},
	} {
		r, err := Read(tt.path, []byte(tt.data), Options{})
		if err == nil && len(r.Servers) == 0 && len(r.Notes) == 1 && r.Notes[0].Dropped {
			if !strings.Contains(r.Notes[0].Message, tt.want) {
				t.Errorf("%s: %+v, want %q", name, r.Notes, tt.want)
			}
		} else if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

// TestNumbers: numbers and booleans become the text that the client would pass on.
func TestNumbers(t *testing.T) {
	for path, data := range map[string]string{
		".mcp.json": `{"mcpServers":{"1":{"command":"x","args":["--port",8080,true],"env":{"CHAT_ID":12345678901234567890,"MAX":5000000,"ON":true,"NO":null}}}}`,
		"a.yaml": "mcpServers: {1: {command: x, args: [--port, 8080, true], env: {CHAT_ID: 12345678901234567890, " +
			"MAX: 5000000, ON: true, NO: ~}}}",
	} {
		r, err := Read(path, []byte(data), Options{})
		if err != nil || len(r.Servers) != 1 {
			t.Fatalf("%s: %+v, %v", path, r, err)
		}
		if diff := cmp.Diff([]string{"--port", "8080", "true"}, r.Servers[0].Args); diff != "" {
			t.Errorf("%s: args (-want +got):\n%s", path, diff)
		}
		if diff := cmp.Diff(map[string]string{"CHAT_ID": "12345678901234567890", "MAX": "5000000", "ON": "true"},
			r.Servers[0].Env); diff != "" {
			t.Errorf("%s: env (-want +got):\n%s", path, diff)
		}
	}
}

// TestOddCharacters: every text is written unchanged.
func TestOddCharacters(t *testing.T) {
	const odd = "\x7f\u0085\u009b\ufeff\ufffe\uffff\u2028\U0001f600\x1b[31m"
	r := &Result{
		Client:  ClaudeCode,
		Servers: []Server{{ID: "a", Name: odd, Kind: manifest.KindStdio, Command: "x", Args: []string{odd}}},
	}
	if m, diags := manifest.Parse("a/plugin.toml", r.Extensions()[0].Data); m == nil ||
		!cmp.Equal(m.Transport.Args, []string{odd}) {
		t.Errorf("plugin.toml: %+v, %v", m, diags)
	}
	var read struct {
		Destinations map[string]struct{ Command []string }
	}
	if err := yaml.Unmarshal(r.Destinations(), &read); err != nil ||
		!cmp.Equal(read.Destinations["a"].Command, []string{"x", odd}) {
		t.Errorf("destinations: %+v, %v", read, err)
	}
}

// TestNoDestinationLeft: if all destinations are disabled, the section is empty and can be merged.
func TestNoDestinationLeft(t *testing.T) {
	r := &Result{Servers: []Server{{ID: "a", Kind: manifest.KindStdio, Command: "x", Disabled: true}}}
	const existing = "destinations:\n  b:\n    url: http://b\n"
	merged, kept, err := Merge([]byte(existing), r.Destinations())
	if diff := cmp.Diff(existing, string(merged)); diff != "" || len(kept) > 0 || err != nil {
		t.Errorf("%v, %v, (-want +got):\n%s", kept, err, diff)
	}
}

// TestMergeOfTwoDocuments: a file with two documents is not merged, since the second would be lost.
func TestMergeOfTwoDocuments(t *testing.T) {
	if merged, _, err := Merge([]byte("server: {}\n---\nlog: {}\n"), []byte("destinations: {}\n")); err == nil {
		t.Errorf("merged to %s", merged)
	}
}

// TestSecretsAnywhere: no secret is written to a file, wherever it was.
func TestSecretsAnywhere(t *testing.T) {
	const token = "ghp_abcdefghijklmnopqrstuvwxyz0123456789" // form of a known token
	for name, tt := range map[string]struct{ path, data, want string }{
		"name of a URL": {".mcp.json", `{"mcpServers":{"a":{"url":"https://s3cret-1@h/mcp"}}}`,
			`"https://${A_TOKEN}@h/mcp"`},
		"path of a URL": {".mcp.json", `{"mcpServers":{"a":{"url":"https://h/s/` + token + `/mcp"}}}`,
			`"https://h/s/${A_SECRET}/mcp"`},
		"fragment of a URL": {".mcp.json", `{"mcpServers":{"a":{"url":"https://h/mcp#token=s3cret-1"}}}`,
			`#token=${A_TOKEN}"`},
		"a user stays": {".mcp.json", `{"mcpServers":{"a":{"command":"x","args":["postgres://ada@h/db"]}}}`,
			`"postgres://ada@h/db"`},
		"URL as an argument": {".mcp.json",
			`{"mcpServers":{"a":{"command":"x","args":["https://h/sse?api_key=s3cret-1"]}}}`,
			`"https://h/sse?api_key=${A_API_KEY}"`},
		"URL of an option": {".mcp.json",
			`{"mcpServers":{"a":{"command":"x","args":["--url=https://h/sse?api_key=s3cret-1"]}}}`,
			`"--url=https://h/sse?api_key=${A_API_KEY}"`},
		"default": {".mcp.json",
			`{"mcpServers":{"a":{"command":"x","env":{"API_KEY":"${API_KEY:-s3cret-1}","B":"${B:-b}"}}}}`,
			`env = { "B" = "${B:-b}" }`},
		"beside a reference": {".mcp.json", `{"mcpServers":{"a":{"command":"x","env":{"LINE":"${X}` + token + `"}}}}`,
			`env = ["LINE"]`},
		"reference as a part": {".mcp.json", `{"mcpServers":{"a":{"command":"x","env":{"API_KEY":"prefix-${X}"}}}}`,
			`"prefix-${X}"`},
		"cookie": {".mcp.json",
			`{"mcpServers":{"a":{"url":"https://h/","headers":{"Cookie":"id=s3cret-1"}}}}`, `"${A_COOKIE}"`},
		"proxy": {".mcp.json",
			`{"mcpServers":{"a":{"url":"https://h/","headers":{"Proxy-Authorization":"Basic s3cret-1"}}}}`,
			`"Basic ${A_TOKEN}"`},
		"number": {".mcp.json", `{"mcpServers":{"a":{"command":"x","env":{"API_KEY":1234567890123}}}}`,
			`env = ["API_KEY"]`},
		"plugin config": {"c.yaml",
			"plugins: [{name: p, kind: external, config: {key: user, nested: [{password: s3cret-12}], session: 5}}]",
			"password: ${P_PASSWORD}"},
		"plugin URL": {"c.yaml",
			"plugins: [{name: p, kind: external, mcp: {url: 'https://h/?api_key=s3cret-1'}}]",
			"url: https://h/?api_key=${P_API_KEY}"},
		"plugin command": {"c.yaml", "plugins: [{name: p, kind: external, mcp: {cmd: [x, --token, s3cret-1]}}]",
			"- ${P_TOKEN}"},
		"plugin header": {"c.yaml",
			"plugins: [{name: p, kind: external, mcp: {headers: {Authorization: Bearer s3cret-1}}}]",
			"Bearer ${P_TOKEN}"},
		"plugin number": {"c.yaml",
			"plugins: [{name: p, kind: external, mcp: {env: {API_KEY: 1234567890123, PORT: 80}}}]",
			"API_KEY: ${API_KEY}\n        PORT: 80\n"},
		"entry of nexo": {"c.yaml",
			"extensions: {entries: {x: {env: {API_KEY: s3cret-1}, config: {token: s3cret-12}}}}", "token: ${X_TOKEN}"},
	} {
		r, err := Read(tt.path, []byte(tt.data), Options{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var all string
		for _, f := range append(r.Extensions(), r.Config...) {
			all += string(f.Data)
		}
		for _, secret := range []string{"s3cret", token, "1234567890123"} {
			if strings.Contains(all, secret) {
				t.Errorf("%s: a secret is in\n%s", name, all)
			}
		}
		if !strings.Contains(all, tt.want) {
			t.Errorf("%s: want %s in\n%s", name, tt.want, all)
		}
	}
}
