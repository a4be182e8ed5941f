package discovery

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/exthost/exthost/internal/testing/stormtest"
	"github.com/exthost/exthost/manifest/agentplugin"
	"github.com/exthost/exthost/protocol"
)

// pluginJSON returns a plugin.json.
func pluginJSON(name, more string) string {
	return `{"$schema": "` + agentplugin.PluginSchema + `", "name": "` + name + `"` + more + "}"
}

// servers returns an mcp.json with a server for each name.
func servers(names ...string) string {
	for i, name := range names {
		names[i] = `"` + name + `": {"type": "stdio", "command": "./x"}`
	}
	return `{"$schema": "` + agentplugin.ServersSchema + `", "mcpServers": {` + strings.Join(names, ", ") + "}}"
}

const skill = "---\nname: s\ndescription: d\n---\n"

func TestPlugins(t *testing.T) {
	tree(t, map[string]string{
		"ext/acme/plugin.json":                pluginJSON("acme.tools", ""),
		"ext/acme/mcp.json":                   servers("DB Server", "acme.tools"),
		"ext/acme/inner/plugin.toml":          valid("hidden"),
		"ext/acme/copy/plugin.json":           pluginJSON("acme.tools", ""),
		"ext/acme/other/plugin.json":          pluginJSON("hidden.too", ""),
		"ext/acme/vendor/plugin.json":         `{"name": "panel"}`,
		"ext/one/plugin.json":                 pluginJSON("one", ""),
		"ext/one/mcp.json":                    servers("one", "two"),
		"ext/one/skills/s/SKILL.md":           skill,
		"ext/skilled/plugin.json":             pluginJSON("skilled", ""),
		"ext/skilled/mcp.json":                servers("x"),
		"ext/skilled/skills/s/SKILL.md":       skill,
		"ext/empty/plugin.json":               pluginJSON("empty", ""),
		"ext/mcp/plugin.json":                 pluginJSON("mcp", ""),
		"ext/mcp/mcp.json":                    servers("mcp"),
		"ext/both/plugin.toml":                valid("both"),
		"ext/both/plugin.json":                pluginJSON("other", ""),
		"ext/broken/plugin.json":              pluginJSON("Broken", ""),
		"ext/broken/inner/plugin.toml":        valid("below-broken"),
		"ext/half/plugin.json":                pluginJSON("half", ""),
		"ext/half/mcp.json":                   `{"mcpServers": {}}`,
		"ext/node_modules/x/plugin.json":      pluginJSON("ignored", ""),
		"ext/vendor/plugin.json":              `{"name": "vendor", "type": "panel"}`,
		"ext/vendor/inner/plugin.toml":        valid("inner"),
		"ext/newer/plugin.json":               strings.Replace(pluginJSON("newer", ""), "1.0.0", "9.0.0", 1),
		"ext/text/plugin.json":                "not JSON",
		"ext/meant/plugin.json":               pluginJSON("meant", ",}"),
		"ext/a/b/c/d/e/plugin.json":           pluginJSON("too-deep", ""),
		"ext/.claude-plugin/plugin.json":      `{"name": "x"}`,
		"ext/directory/plugin.json/index.txt": "",
	})
	r := discover(t, Options{})
	expect(t, r, []string{
		"acme.tools.acme_tools ext/acme/plugin.json",
		"acme.tools.db_server ext/acme/plugin.json",
		"both ext/both/plugin.toml",
		"empty ext/empty/plugin.json",
		"half ext/half/plugin.json",
		"inner ext/vendor/inner/plugin.toml",
		"mcp.mcp ext/mcp/plugin.json",
		"one ext/one/plugin.json",
		"one.two ext/one/plugin.json",
		"skilled ext/skilled/plugin.json",
		"skilled.x ext/skilled/plugin.json",
	}, []string{
		"info plugin_json_foreign ext/.claude-plugin/plugin.json",
		"info max_depth_reached ext/a/b/c/d",
		"error manifest_invalid ext/broken/plugin.json",
		"error sidecar_invalid ext/half/mcp.json",
		"error manifest_invalid ext/meant/plugin.json",
		"info plugin_json_foreign ext/newer/plugin.json",
		"info plugin_json_foreign ext/text/plugin.json",
		"info plugin_json_foreign ext/vendor/plugin.json",
		"info nested_extension ext/acme/inner/plugin.toml",
		"info nested_extension ext/acme/other/plugin.json",
		"warn nested_extension ext/broken/inner/plugin.toml",
	})
	for _, c := range r.Candidates {
		if c.Portable() != (c.Manifest.Plugin.ID != "both" && c.Manifest.Plugin.ID != "inner") {
			t.Errorf("%s is portable: %v", c.ID, c.Portable())
		}
	}
	if r.Stats.Manifests != 11 {
		t.Errorf("%d manifests", r.Stats.Manifests)
	}
}

// TestPluginsAreSelected disables and allows a plugin as a whole, and each of its servers.
func TestPluginsAreSelected(t *testing.T) {
	tree(t, map[string]string{
		"ext/acme/plugin.json": pluginJSON("acme.tools", ""),
		"ext/acme/mcp.json":    servers("db", "web"),
	})
	disabled := []string{"info disabled ext/acme/plugin.json"}
	expect(t, discover(t, Options{Disabled: []string{"acme.tools"}}), nil, disabled)
	expect(t, discover(t, Options{Disabled: []string{"acme.tools.db"}}),
		[]string{"acme.tools.web ext/acme/plugin.json"}, disabled)
	expect(t, discover(t, Options{Allowlist: []string{"acme.tools"}}),
		[]string{"acme.tools.db ext/acme/plugin.json", "acme.tools.web ext/acme/plugin.json"}, nil)
	expect(t, discover(t, Options{Allowlist: []string{"acme.tools.web"}}),
		[]string{"acme.tools.web ext/acme/plugin.json"}, []string{"info not_allowlisted ext/acme/plugin.json"})
}

// TestPluginsThatMeet runs none of what has one id until the operator says which.
func TestPluginsThatMeet(t *testing.T) {
	tree(t, map[string]string{
		"ext/twins/plugin.json": pluginJSON("twins", ""),
		"ext/twins/mcp.json":    servers("A", "a", "b"),
	})
	r := discover(t, Options{})
	expect(t, r, []string{"twins.b ext/twins/plugin.json"},
		[]string{"error duplicate_id ext/twins/plugin.json", "error duplicate_id ext/twins/plugin.json"})
	if len(r.Conflicting) != 2 || !strings.Contains(r.Diagnostics[len(r.Diagnostics)-1].Hint, "extensions.disabled") {
		t.Errorf("%+v", r.Diagnostics)
	}
	for _, disabled := range []string{"twins.A", "twins.a"} {
		r := discover(t, Options{Disabled: []string{disabled}})
		expect(t, r, []string{"twins.a ext/twins/plugin.json", "twins.b ext/twins/plugin.json"},
			[]string{"info disabled ext/twins/plugin.json"})
		if got := r.Candidates[0].Manifest.Plugin.Name; "twins."+got == disabled {
			t.Errorf("%s is disabled, and %s runs", disabled, got)
		}
	}

	tree(t, map[string]string{
		"ext/native/plugin.toml":  "[plugin]\nid = \"acme\"\nversion = \"1.0.0\"\n[mcp_servers.tools]\ncommand = \"x\"\n",
		"ext/plugin/plugin.json":  pluginJSON("acme.tools", ""),
		"ext/plugin/mcp.json":     servers("db"),
		"more/second/plugin.json": pluginJSON("acme.tools", ""),
		"more/second/mcp.json":    servers("db"),
	})
	expect(t, discover(t, Options{}), nil,
		[]string{"error duplicate_id ext/native/plugin.toml", "error duplicate_id ext/plugin/plugin.json"})
	expect(t, discover(t, Options{SearchPaths: []string{"ext/plugin", "ext"}}),
		[]string{"acme.tools.db ext/plugin/plugin.json"},
		[]string{"info same_directory ext/plugin/plugin.json", "warn duplicate_id ext/native/plugin.toml"})
	expect(t, discover(t, Options{SearchPaths: []string{"ext/plugin", "more"}}),
		[]string{"acme.tools.db ext/plugin/plugin.json"}, []string{"warn duplicate_id more/second/plugin.json"})
}

// TestPluginHooks gives the hooks of a plugin a candidate of their own, or the server with its name.
func TestPluginHooks(t *testing.T) {
	hooks := `, "extensions": {"io.github.exthost": {"hooks": [{"event": "before_tool_call", "command": ["./guard"]}]}}`
	tree(t, map[string]string{
		"ext/one/plugin.json": pluginJSON("one", hooks),
		"ext/one/mcp.json":    servers("one", "two"),
		"ext/two/plugin.json": pluginJSON("two.x", hooks),
		"ext/two/mcp.json":    servers("a"),
	})
	r := discover(t, Options{})
	expect(t, r, []string{"one ext/one/plugin.json", "one.two ext/one/plugin.json", "two.x.a ext/two/plugin.json",
		"two.x.plugin ext/two/plugin.json"}, nil)
	for _, c := range r.Candidates {
		if want := c.ID == "one" || c.ID == "two.x.plugin"; (len(c.Manifest.Hooks) == 1) != want {
			t.Errorf("%s has %d hooks", c.ID, len(c.Manifest.Hooks))
		}
	}
}

// TestManyBelowAPlugin stops reading what is in the directory of a plugin at a limit, and says so.
func TestManyBelowAPlugin(t *testing.T) {
	files := map[string]string{
		"ext/many/plugin.json": pluginJSON("many", ""),
		"ext/full/plugin.json": pluginJSON("full", ""),
	}
	for i := range maxBelowRead + 2 {
		files[fmt.Sprintf("ext/many/%03d/plugin.json", i)] = pluginJSON(fmt.Sprintf("m%d", i), "")
	}
	for i := range maxBelow {
		files[fmt.Sprintf("ext/full/%d", i)] = ""
	}
	tree(t, files)
	var said []string
	below := 0
	for _, d := range discover(t, Options{}).Diagnostics {
		if d.Code == CodeNested {
			below++
		} else {
			said = append(said, d.Path+": "+d.Message)
		}
	}
	want := []string{
		"ext/full/plugin.json: its directory has over 1000 entries, which are not searched for extensions",
		"ext/many/plugin.json: in its directory there are over 32 extensions, and the others are not read",
	}
	for _, line := range want {
		if !slices.Contains(said, line) {
			t.Errorf("%q is missing in %q", line, said)
		}
	}
	if below != maxBelowRead {
		t.Errorf("%d are reported", below)
	}
}

// A plugin behind a link is searched as an extension is.
func TestPluginBehindALink(t *testing.T) {
	tree(t, map[string]string{
		"elsewhere/x/plugin.json": pluginJSON("x", ""),
		"ext/readme":              "",
	})
	link(t, "../elsewhere/x", "ext/x")
	r := discover(t, Options{})
	expect(t, r, nil, []string{"warn link_not_followed ext/x"})
	if slices.ContainsFunc(r.Diagnostics, func(d protocol.Diagnostic) bool { return d.Level == protocol.LevelError }) {
		t.Error(r.Diagnostics)
	}
}

// BenchmarkDiscoverPlugins compares the search of 1,000 plugins with a server each with that of 1,000 extensions, whose
// servers are in .mcp.json.
func BenchmarkDiscoverPlugins(b *testing.B) {
	folders := func(files func(id string) map[string]string) (search func() time.Duration) {
		dir := b.TempDir()
		for i := range 1000 {
			id := fmt.Sprintf("x%04d", i)
			for name, text := range files(id) {
				path := filepath.Join(dir, id, name)
				if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700),
					os.WriteFile(path, []byte(text), 0o600)); err != nil {
					b.Fatal(err)
				}
			}
		}
		return func() time.Duration {
			began := time.Now()
			found, err := Discover(b.Context(), Options{SearchPaths: []string{dir}})
			if err != nil || len(found.Candidates) != 1000 {
				b.Fatal(len(found.Candidates), err)
			}
			return time.Since(began)
		}
	}
	native := folders(func(id string) map[string]string {
		return map[string]string{
			"plugin.toml": "[plugin]\nid = \"" + id + "\"\nversion = \"1.0.0\"\n",
			".mcp.json":   `{"mcpServers": {"a": {"command": "x"}}}`,
		}
	})
	plugin := folders(func(id string) map[string]string {
		return map[string]string{"plugin.json": pluginJSON(id, `, "version": "1.0.0"`), "mcp.json": servers("a")}
	})
	for b.Loop() {
		var natives, plugins stormtest.Durations
		for range 9 {
			natives, plugins = append(natives, native()), append(plugins, plugin())
		}
		b.ReportMetric(float64(natives.Quantile(0.5))/1e6, "ms/extensions")
		b.ReportMetric(float64(plugins.Quantile(0.5))/1e6, "ms/plugins")
		b.ReportMetric(float64(plugins.Quantile(0.5))/float64(natives.Quantile(0.5)), "plugins/extensions")
	}
	b.ReportMetric(0, "ns/op")
}
