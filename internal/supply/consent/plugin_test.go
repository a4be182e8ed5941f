package consent_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/exthost/exthost/internal/supply/consent"
	"github.com/exthost/exthost/manifest/agentplugin"
)

// TestPlugin changes one file at a time of a trusted plugin: every byte counts, data and texts too, because what its
// servers write belongs into PLUGIN_DATA.
func TestPlugin(t *testing.T) {
	for change, want := range map[string]string{
		"notes.txt":                     "notes.txt",
		"skills/s/SKILL.md":             "skills/s/SKILL.md",
		"skills/s/references/new.txt":   "skills/s/references/new.txt (new)",
		"mcp.json":                      "mcp.json",
		"com.example.client/x.json":     "com.example.client/x.json (new)",
		"../data/state.db":              "",
		"__pycache__/x.cpython-312.pyc": "",
	} {
		k := newKit(t)
		k.remove("plugin.toml")
		k.write("plugin.json", `{"$schema": "`+agentplugin.PluginSchema+`", "name": "kit"}`)
		k.write("mcp.json", `{"$schema": "`+agentplugin.ServersSchema+`", "mcpServers": {"kit": {"type": "stdio",
			"command": "./main.py", "args": ["${PLUGIN_DATA}/state.db"]}}}`)
		k.write("skills/s/SKILL.md", "---\nname: s\ndescription: d\n---\n")
		k.accept()
		k.says("")
		k.write(change, " ")
		if change == "mcp.json" {
			k.write(change, `{"$schema": "`+agentplugin.ServersSchema+`", "mcpServers": {"kit": {"type": "stdio",
				"command": "./other.py"}}}`)
		}
		k.says(want)
	}
}

// TestPluginRunsAProjectsFile has a server name a file of the project by PLUGIN_ROOT, which counts as if it were named
// by a relative path.
func TestPluginRunsAProjectsFile(t *testing.T) {
	k := newKit(t)
	k.Project = filepath.Dir(filepath.Dir(k.dir))
	k.remove("plugin.toml")
	k.write("plugin.json", `{"$schema": "`+agentplugin.PluginSchema+`", "name": "kit"}`)
	k.write("mcp.json", `{"$schema": "`+agentplugin.ServersSchema+`", "mcpServers": {"kit": {"type": "stdio",
		"command": "node", "args": ["${PLUGIN_ROOT}/../../shared.js"]}}}`)
	k.write("../../shared.js", "1")
	v, err := k.Extension(k.candidate())
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := v.Files["../../shared.js"]; !ok {
		t.Errorf("files %v", v.Files)
	}
	if err := k.Store.Trust(consent.Trusted{ID: "kit", Verdict: v}); err != nil {
		t.Fatal(err)
	}
	k.says("")
	if err := os.WriteFile(filepath.Join(k.Project, "shared.js"), []byte("2"), 0o644); err != nil {
		t.Fatal(err)
	}
	k.says("shared.js")
}
