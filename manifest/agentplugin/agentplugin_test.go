package agentplugin

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// read reads a package with these files.
func read(t testing.TB, files map[string]string) *Plugin {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		write(t, dir, name, text)
	}
	return Read(dir, Options{})
}

func write(t testing.TB, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func pluginJSON(more string) string {
	return `{"$schema": "` + PluginSchema + `", "name": "reports"` + more + "}"
}

func mcpJSON(servers string) string {
	return `{"$schema": "` + ServersSchema + `", "mcpServers": {` + servers + "}}"
}

// The packages of testdata/agent-plugins cover the specification. These tests cover what is the host's own.

func TestServerID(t *testing.T) {
	for _, tt := range []struct{ plugin, server, want string }{
		{"reports", "db", "reports.db"},
		{"reports", "reports", "reports"},
		{"reports", "Reports", "reports.reports"},
		{"acme.tools", "acme.tools", "acme.tools.acme_tools"},
		{"mcp", "mcp", "mcp.mcp"},
		{"3d", "3d", "3d.3d"},
		{"reports", "DB Server/ü", "reports.db_server__"},
		{"reports", "", "reports._"},
		{"reports", strings.Repeat("a", 64), "reports." + strings.Repeat("a", 64)},
		{"reports", strings.Repeat("a", 65), "reports." + strings.Repeat("a", 55) + "_635361c4"},
	} {
		if got := ServerID(tt.plugin, tt.server); got != tt.want {
			t.Errorf("%s, %q: %s, want %s", tt.plugin, tt.server, got, tt.want)
		}
	}
}

func TestTwinsAreNoted(t *testing.T) {
	const server = `{"type": "stdio", "command": "x"}`
	p := read(t, map[string]string{"plugin.json": pluginJSON(""), "mcp.json": mcpJSON(`"A": ` + server + `, "a": ` + server)})
	if len(p.Notes) != 1 || p.Notes[0].Section != "" || !strings.Contains(p.Notes[0].Text, "extensions.disabled") {
		t.Errorf("%+v", p.Notes)
	}
}

func TestBounds(t *testing.T) {
	var many strings.Builder
	for i := range maxServers + 1 {
		fmt.Fprintf(&many, `"s%d": {"type": "stdio", "command": "x"},`, i)
	}
	var unknown strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&unknown, `, "f%d": 1`, i)
	}
	for name, tt := range map[string]struct {
		files    map[string]string
		rejected bool
		want     string // in the notes
	}{
		"a large manifest": {map[string]string{
			"plugin.json": pluginJSON(`, "description": "` + strings.Repeat("x", maxBytes) + `"`),
		}, true, "plugin.json has more than 256 KiB"},
		"deep": {map[string]string{"plugin.json": pluginJSON(`, "extensions": {"a.b": {"x": ` + strings.Repeat("[", 300) +
			strings.Repeat("]", 300) + "}}")}, true, "more than 200 levels"},
		"many unknown fields": {map[string]string{"plugin.json": pluginJSON(unknown.String())}, false, `"f1" is not a field`},
		"large servers": {map[string]string{
			"plugin.json": pluginJSON(""),
			"mcp.json":    strings.Repeat(" ", maxBytes) + mcpJSON(""),
		}, false, "mcp.json has more than 256 KiB"},
		"many servers": {map[string]string{
			"plugin.json": pluginJSON(""),
			"mcp.json":    mcpJSON(strings.TrimSuffix(many.String(), ",")),
		}, false, "over 256 of them"},
		"large tables": {map[string]string{"plugin.json": pluginJSON(""),
			Namespace + "/" + TablesName: strings.Repeat("#", maxBytes+1)}, true, "has more than 256 KiB"},
	} {
		p := read(t, tt.files)
		text := fmt.Sprint(p.Notes)
		if p.Identity.Rejected != tt.rejected || !strings.Contains(text, tt.want) || len(p.Servers) > 0 {
			t.Errorf("%s: %+v, %.200s", name, p.Identity, text)
		}
		if len(p.Notes) > maxNotes || len(p.Diagnostics) > maxNotes+1 {
			t.Errorf("%s: %d notes, %d diagnostics", name, len(p.Notes), len(p.Diagnostics))
		}
	}
}

// An error in our namespace rejects the plugin: without its sandbox nothing of it may run.
func TestNamespace(t *testing.T) {
	p := read(t, map[string]string{
		"plugin.json": pluginJSON(`, "extensions": {"io.github.exthost": {"sandbox": {"net": "none"}}}`),
		"mcp.json":    mcpJSON(`"a": {"type": "stdio", "command": "x"}`),
	})
	if p.Manifest == nil || p.Manifest.Sandbox == nil || len(p.Manifest.MCPServers) != 1 {
		t.Errorf("%+v, %v", p.Manifest, p.Diagnostics)
	}
	p = read(t, map[string]string{
		"plugin.json": pluginJSON(",\n" + `"extensions": {"io.github.exthost": {"sandbx": {}}}`),
		"mcp.json":    mcpJSON(`"a": {"type": "stdio", "command": "x"}`),
	})
	if p.Manifest != nil || !p.Identity.Rejected || len(p.Servers) > 0 {
		t.Errorf("%+v", p)
	}
	want := protocol.Diagnostic{
		Level:     protocol.LevelError,
		Code:      manifest.CodeInvalid,
		Extension: "reports",
		Path:      p.Diagnostics[0].Path,
		Line:      2,
		Column:    38,
		Message:   `io.github.exthost: unknown key "sandbx" at the top level`,
		Hint:      `did you mean "sandbox"?`,
	}
	if p.Diagnostics[0] != want {
		t.Errorf("%+v", p.Diagnostics[0])
	}
}

// The host's own headers are refused in one order, whatever that of the map is.
func TestOwnHeadersAreRefusedInOrder(t *testing.T) {
	const headers = `"te": "secret://A", "Host": "secret://A", "Accept": "secret://A", "Upgrade": "secret://A"`
	files := map[string]string{
		"plugin.json": pluginJSON(`, "extensions": {"` + Namespace + `": {"secrets": {"a": {"headers": {` + headers + `}}}}}`),
		"mcp.json":    mcpJSON(`"a": {"type": "streamable-http", "url": "https://a.example/mcp"}`),
	}
	for range 5 {
		var got []string
		for _, note := range read(t, files).Notes {
			if _, rest, ok := strings.Cut(note.Text, "the header "); ok {
				got = append(got, strings.Fields(rest)[0])
			}
		}
		if want := "Accept Host Upgrade te"; strings.Join(got, " ") != want {
			t.Fatalf("%q, want %s", got, want)
		}
	}
}

func TestForeign(t *testing.T) {
	for text, want := range map[string]bool{
		`{"name": "x"}`:               true,
		`{"$schema": "x", "name": 1}`: true,
		"x":                           true,
		pluginJSON(",}"):              false,
		pluginJSON(`, "version": 1`):  false,
	} {
		if p := read(t, map[string]string{"plugin.json": text}); p.Foreign != want || !p.Identity.Rejected {
			t.Errorf("%s: foreign %v, %+v", text, p.Foreign, p.Identity)
		}
	}
}

// A working directory below PLUGIN_DATA is made, but never through a link out of it.
func TestLaunchInData(t *testing.T) {
	root, data, outside := realDir(t), realDir(t), realDir(t)
	server := manifest.Transport{Kind: manifest.KindStdio, Command: "x", Cwd: "${PLUGIN_DATA}/a/b", Literal: true}
	if got, err := Launch(server, root, data); err != nil || got.Cwd != filepath.Join(data, "a", "b") {
		t.Errorf("%s, %v", got.Cwd, err)
	}
	if err := os.Symlink(outside, filepath.Join(data, "away")); err != nil {
		t.Skip(err)
	}
	for _, cwd := range []string{"${PLUGIN_DATA}/away", "${PLUGIN_DATA}/away/x"} {
		server.Cwd = cwd
		if _, err := Launch(server, root, data); err == nil {
			t.Errorf("%s: no error", cwd)
		}
	}
	if err := os.Symlink(filepath.Join(outside, "x"), filepath.Join(root, "x")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(outside, "x"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	server.Command, server.Cwd = "./x", ""
	if _, err := Launch(server, root, data); err == nil || err.Error() != "command ./x leads out of the package" {
		t.Errorf("%v", err)
	}
}

func realDir(t *testing.T) string {
	t.Helper()
	dir, err := Root(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(pluginJSON("")), []byte(mcpJSON(`"a": {"type": "stdio", "command": "x"}`)))
	f.Add([]byte(pluginJSON(`, "x": 1, "author": {"name": "a"}, "keywords": [""], "extensions": {"io.github.exthost": {}}`)),
		[]byte(mcpJSON(`"a": {"type": "sse", "url": "https://x", "headers": {"a": "b"}}, "b": {"type": "stdio"}`)))
	f.Fuzz(func(t *testing.T, manifest, servers []byte) {
		p := read(t, map[string]string{"plugin.json": string(manifest), "mcp.json": string(servers)})
		if p.Identity.Rejected != (p.Manifest == nil) || p.Identity.Rejected && len(p.Notes) == 0 {
			t.Errorf("%+v", p)
		}
		for _, s := range p.Servers {
			if _, runs := p.Manifest.MCPServers[s.Name]; s.Valid != (s.Reason == "") || s.Valid && !runs {
				t.Errorf("%+v", s)
			}
		}
	})
}
