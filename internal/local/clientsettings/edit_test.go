package clientsettings

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "write the golden parts of testdata")

var argv = []string{"/usr/local/bin/exthost", "serve", "--stdio", "--dir", "/home/ada/shop"}

// TestGolden adds a server to the file "before" of each archive, whose comment starts with the client, and
// expects "after". Removing the server again yields "before" or, if present, "removed", which may differ only in
// whitespace.
func TestGolden(t *testing.T) {
	archives, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(archives) < 10 {
		t.Fatalf("%v, %v", archives, err)
	}
	for _, name := range archives {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			id, _, _ := strings.Cut(string(a.Comment), ":")
			c := Find(id)
			if c == nil {
				t.Fatalf("there is no client %q", id)
			}
			before := a.Files[0].Data
			after := put(t, c, before, "exthost", argv)
			removed := remove(t, c, after, "exthost")
			got := txtar.Archive{Comment: a.Comment, Files: []txtar.File{a.Files[0], {Name: "after", Data: after}}}
			if !bytes.Equal(removed, before) {
				got.Files = append(got.Files, txtar.File{Name: "removed", Data: removed})
				if squeezed(removed) != squeezed(before) {
					t.Errorf("more than space differs:\n%s", removed)
				}
			}
			out := txtar.Format(&got)
			if *update {
				if err := os.WriteFile(name, out, 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(txtar.Format(a)), string(out)); diff != "" {
				t.Error(diff)
			}
			crlf(t, c, before, after, removed)
			if again := put(t, c, after, "exthost", argv); !bytes.Equal(again, after) {
				t.Errorf("a second time it becomes\n%s", again)
			}
		})
	}
}

// crlf does the same with a byte order mark and CRLF.
func crlf(t *testing.T, c *Client, before, after, removed []byte) {
	t.Helper()
	windows := func(b []byte) []byte {
		return append([]byte("\xef\xbb\xbf"), bytes.ReplaceAll(b, []byte("\n"), []byte("\r\n"))...)
	}
	if !bytes.Contains(before, []byte("\n")) {
		return
	}
	got := put(t, c, windows(before), "exthost", argv)
	if diff := cmp.Diff(string(windows(after)), string(got)); diff != "" {
		t.Errorf("with CRLF: %s", diff)
	}
	if diff := cmp.Diff(string(windows(removed)), string(remove(t, c, got, "exthost"))); diff != "" {
		t.Errorf("removed, with CRLF: %s", diff)
	}
}

func put(t *testing.T, c *Client, data []byte, name string, argv []string) []byte {
	t.Helper()
	out, err := c.Put(data, name, argv, nil)
	if err != nil {
		t.Fatalf("put: %v in\n%s", err, data)
	}
	return out
}

func remove(t *testing.T, c *Client, data []byte, name string) []byte {
	t.Helper()
	out, err := c.Remove(data, name, true)
	if err != nil {
		t.Fatalf("remove: %v in\n%s", err, data)
	}
	return out
}

func squeezed(b []byte) string {
	text := strings.Join(strings.Fields(string(b)), "")
	for _, empty := range []string{`,"mcpServers":{}`, `"mcpServers":{},`, `"mcpServers":{}`, `"servers":{}`, "{}"} {
		text = strings.ReplaceAll(text, empty, "")
	}
	return text
}

// TestChanged: changes made since in and around the entry are kept, except for the command line.
func TestChanged(t *testing.T) {
	for id, tt := range map[string]struct{ before, after string }{
		"claude": {`{
  "mcpServers": {
    "exthost": { // mine
      "args": ["serve", "--stdio"],
      "autoApprove": ["x"], /* all */
      "command": "exthost"
    },
    "other": {"command": "x"}
  }
}`, `{
  "mcpServers": {
    "exthost": { // mine
      "args": ["serve", "--stdio", "--dir", "/home/ada/shop"],
      "autoApprove": ["x"], /* all */
      "command": "/usr/local/bin/exthost"
    },
    "other": {"command": "x"}
  }
}`},
		"codex": {`[mcp_servers.exthost] # mine
args = [
  "serve", # ]
  "--stdio",
] # end
startup_timeout_sec = 20
command = """exthost""" # the program

[mcp_servers.exthost.tools.x]
approval_mode = "approve"
`, `[mcp_servers.exthost] # mine
args = ["serve", "--stdio", "--dir", "/home/ada/shop"] # end
startup_timeout_sec = 20
command = "/usr/local/bin/exthost" # the program

[mcp_servers.exthost.tools.x]
approval_mode = "approve"
`},
		"opencode": {`{"mcp":{"exthost":{"type":"local","command":["exthost","serve"],"enabled":false}}}`,
			`{"mcp":{"exthost":{"type":"local","command":["/usr/local/bin/exthost", "serve", "--stdio", "--dir", "/home/ada/shop"],"enabled":false}}}`},
	} {
		if diff := cmp.Diff(tt.after, string(put(t, Find(id), []byte(tt.before), "exthost", argv))); diff != "" {
			t.Errorf("%s: %s", id, diff)
		}
	}
}

// TestVariables writes variables with a new server.
func TestVariables(t *testing.T) {
	env := map[string]string{"XDG_STATE_HOME": "/x y"}
	for id, want := range map[string]string{
		"claude":   `"env": { "XDG_STATE_HOME": "/x y" }`,
		"opencode": `"environment": { "XDG_STATE_HOME": "/x y" }`,
		"codex":    `env = { "XDG_STATE_HOME" = "/x y" }`,
	} {
		if got, err := Find(id).Put(nil, "exthost", argv, env); err != nil ||
			!strings.Contains(string(got), want) {
			t.Errorf("%s: %v in\n%s", id, err, got)
		}
	}
}

// TestRemoved removes a server from every position, and nothing else.
func TestRemoved(t *testing.T) {
	for name, tt := range map[string]struct{ id, before, after string }{
		"first": {"claude", `{"mcpServers": {"exthost": {}, "b": {}}}`, `{"mcpServers": { "b": {}}}`},
		"middle": {"claude", `{"mcpServers": {"a": {}, "exthost": {}, "b": {}}}`,
			`{"mcpServers": {"a": {}, "b": {}}}`},
		"with comments": {"zed",
			"{\"context_servers\": {\n  \"a\": {}, // of a\n  // of exthost\n  \"exthost\": {}, // behind\n  \"b\": " +
				"{}\n}}", "{\"context_servers\": {\n  \"a\": {}, // of a\n  // of exthost\n // behind\n  \"b\": " +
				"{}\n}}"},
		"comment at the end": {"zed", "{\"context_servers\": {\n  \"a\": {},\n  \"exthost\": {} // x\n}}",
			"{\"context_servers\": {\n  \"a\": {} // x\n}}"},
		"comment, one line": {"zed", "{\"context_servers\": {\"a\": {}, // a\n\"exthost\": {}, \"b\": {}}}",
			"{\"context_servers\": {\"a\": {}, // a\n \"b\": {}}}"},
		"comment in a table": {"zed", "{\"context_servers\": {\n  \"exthost\": {} // x\n}}",
			"{\"context_servers\": { // x\n}}"},
		"dotted keys": {"codex",
			"mcp_servers.a.command = \"a\"\nmcp_servers.exthost.command = \"x\"\nmcp_servers.exthost.args = [\n]\nb " +
				"= 1\n", "mcp_servers.a.command = \"a\"\nb = 1\n"},
		"an inline table": {"codex", "[mcp_servers]\nexthost = {command = \"x\"}\nb = {command = \"b\"}\n",
			"[mcp_servers]\nb = {command = \"b\"}\n"},
		"tables of its own": {"codex",
			"[mcp_servers.exthost]\ncommand = \"x\"\n# mine\n\n[mcp_servers.exthost.env]\nA = \"b\"\n\n# of " +
				"b\n[mcp_servers.b]\ncommand = \"b\"\n", "# mine\n\n# of b\n[mcp_servers.b]\ncommand = \"b\"\n"},
		"a quoted header": {"codex", "[ mcp_servers . \"exthost\" ] # x\ncommand = \"\"\"\n[a]\n\"\"\"\n[a]\n",
			"[a]\n"},
		"a similar name": {"codex", "[mcp_servers.exthost-2]\ncommand = \"x\"\n",
			"[mcp_servers.exthost-2]\ncommand = \"x\"\n"},
		"a string of a table": {"codex", "a = '''\n[mcp_servers.exthost]\n'''\n",
			"a = '''\n[mcp_servers.exthost]\n'''\n"},
	} {
		if diff := cmp.Diff(tt.after, string(remove(t, Find(tt.id), []byte(tt.before), "exthost"))); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestRefused(t *testing.T) {
	for name, tt := range map[string]struct{ id, data, want string }{
		"broken JSON": {"claude", "{\n  \"a\": 1\n  \"b\": 2\n}", "line 3, column 3"},
		"cut JSON":    {"claude", `{"mcpServers": {`, "line 1, column 17"},
		"broken TOML": {"codex", "a = 1\nb = \n", "line 2, column 5"},
		"two tables": {"claude", "{\"mcpServers\": {},\n\"mcpServers\": {}}",
			`line 2, column 1: "mcpServers" is there a second time`},
		"two servers": {"claude", `{"mcpServers": {"exthost": {}, "exthost": {}}}`,
			`"exthost" is there a second time`},
		"a list":              {"claude", `[]`, "no JSON object"},
		"null":                {"claude", `{"mcpServers": null}`, `line 1, column 16: "mcpServers" is no object`},
		"a server of null":    {"claude", `{"mcpServers": {"exthost": null}}`, `"exthost" is no object`},
		"not UTF-8":           {"claude", "{\"a\": \"\xff\"}", "not UTF-8"},
		"UTF-16":              {"claude", "\xff\xfe{\x00}\x00", "not UTF-8"},
		"deep JSON":           {"claude", strings.Repeat("[", 1<<20), "nested deeper"},
		"many values":         {"claude", "[" + strings.Repeat("[],", 1<<20), "more than 500000 values"},
		"deep TOML":           {"codex", "a = " + strings.Repeat("[", 1<<20), "nested deeper"},
		"a closed table":      {"codex", "mcp_servers = {a = {command = \"a\"}}\n", "by hand"},
		"TOML keys twice":     {"codex", "a = 1\na = 2\n", "line 2"},
		"an entry of a URL":   {"codex", "[mcp_servers.exthost]\nurl = \"x\"\n", "by hand"},
		"no command to set":   {"claude", `{"mcpServers": {"exthost": {"url": "x"}}}`, "no command"},
		"a server in a table": {"codex", "[mcp_servers]\nexthost = {command = \"x\"}\n", "by hand"},
	} {
		_, err := Find(tt.id).Put([]byte(tt.data), "exthost", argv, nil)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
	_, err := Find("claude").List([]byte("{"))
	if _, ok := errors.AsType[*Invalid](err); !ok {
		t.Errorf("%v is no *Invalid", err)
	}
}

func TestList(t *testing.T) {
	want := []Server{{"a", []string{"x", "-v"}, 3}, {"b", nil, 4}}
	for id, data := range map[string]string{
		"claude": "{\"a\": 1,\n\"mcpServers\": {\n\"a\": {\"command\": \"x\", \"args\": [\"-v\"]},\n\"b\": " +
			"{\"url\": \"x\"}}}",
		"opencode": "{\n\"mcp\": { // b\n\"a\": {\"command\": [\"x\", \"-v\"]},\n\"b\": {\"url\": \"x\"}}}",
		"codex": "model = \"x\"\n\nmcp_servers.a = {command = \"x\", args = [\"-v\"]}\n[mcp_servers.b]\nurl = " +
			"\"x\"\n",
	} {
		got, err := Find(id).List([]byte(data))
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v %s", id, err, diff)
		}
	}
}

// FuzzPut: any text is refused, or can be changed and changed back without loss.
func FuzzPut(f *testing.F) {
	f.Add("claude", []byte(`{"mcpServers":{"a":{"command":"x"}}, /* c */}`))
	f.Add("codex", []byte("[mcp_servers.a] # x\ncommand=\"x\"\nenv={K='''v'''}"))
	f.Add("zed", []byte("{\"context_servers\": {\n\"exthost\": {}, // x\n},}"))
	f.Fuzz(func(t *testing.T, id string, data []byte) {
		c := Find(id)
		if c == nil || len(data) > 4<<10 {
			t.Skip()
		}
		servers, err := c.List(data)
		if err != nil {
			return
		}
		for _, s := range servers {
			if _, err := c.Remove(data, s.Name, true); err != nil && !errors.Is(err, errByHand) {
				t.Errorf("remove %q: %v", s.Name, err)
			}
		}
		after, err := c.Put(data, "exthost", argv, nil)
		if err != nil {
			return
		}
		if _, err := c.Remove(after, "exthost", true); err != nil && !errors.Is(err, errByHand) {
			t.Errorf("%v in\n%s", err, after)
		}
	})
}

// TestManyServers lists a large file in one pass; a pass per server would take minutes.
func TestManyServers(t *testing.T) {
	const n = 30_000
	var asJSON, asTOML strings.Builder
	asJSON.WriteString(`{"mcpServers":{`)
	for i := range n {
		fmt.Fprintf(&asJSON, "\n\"s%d\":{},", i)
		fmt.Fprintf(&asTOML, "[mcp_servers.s%d]\n", i)
	}
	asJSON.WriteString("}}")
	for client, data := range map[string]string{"cursor": asJSON.String(), "codex": asTOML.String()} {
		servers, err := Find(client).List([]byte(data))
		if err != nil || len(servers) != n {
			t.Fatalf("%s: %d servers, %v", client, len(servers), err)
		}
		if last := servers[n-1]; last.Name != fmt.Sprint("s", n-1) ||
			last.Line != map[string]int{"cursor": n + 1, "codex": n}[client] {
			t.Errorf("%s: the last is %+v", client, last)
		}
	}
}

// TestLastComment changes files that end in a comment.
func TestLastComment(t *testing.T) {
	c := Find("vscode")
	for before, want := range map[string]string{
		"{} // mine":                        "} // mine",
		"// a\n{\n  \"x\": 1 // b\n}\n// c": "}\n// c",
		"{\"servers\": {}}//":               "//",
		"{} /* mine */":                     "} /* mine */",
	} {
		after := put(t, c, []byte(before), "exthost", []string{"/bin/exthost"})
		if !strings.HasSuffix(string(after), want) {
			t.Errorf("%q became\n%s", before, after)
		}
		if removed := remove(t, c, after, "exthost"); !strings.HasSuffix(string(removed), want) {
			t.Errorf("%q became\n%s", before, removed)
		}
	}
}
