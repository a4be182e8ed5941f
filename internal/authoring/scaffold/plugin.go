package scaffold

import (
	"fmt"
	"slices"
	"strings"

	"github.com/exthost/exthost/manifest/agentplugin"
)

// pluginLanguage is a language of the server in a plugin. The server speaks MCP, as every client expects, and not this
// host's own protocol.
type pluginLanguage struct {
	name, program, main, hint string

	server string // its template
}

var pluginLanguages = []pluginLanguage{
	{"python", "python3", "server.py", "install Python 3.8 or newer", "mcp/server.py"},
	{"node", "node", "server.mjs", "install Node.js 18 or newer", "plugin/node/server.mjs"},
}

// PluginLanguages returns the values of Options.Lang for a plugin.
func PluginLanguages() (names []string) {
	for _, l := range pluginLanguages {
		names = append(names, l.name)
	}
	return names
}

// renderPlugin returns the files of a plugin with one server and one skill.
func renderPlugin(o Options) (files []output, err error) {
	if err := agentplugin.ValidateName(o.ID); err != nil {
		return nil, err
	}
	i := slices.IndexFunc(pluginLanguages, func(l pluginLanguage) bool { return l.name == o.Lang })
	if i < 0 {
		return nil, fmt.Errorf("a plugin has a server that speaks MCP, and there is one in %s, not in %q",
			strings.Join(PluginLanguages(), " and "), o.Lang)
	}
	l := pluginLanguages[i]
	values := strings.NewReplacer("{{ID}}", o.ID, "{{Dir}}", o.slashDir(), "{{Main}}", l.main, "{{Program}}", l.program,
		"{{Hint}}", l.hint, "{{Tool}}", "ext_"+strings.ReplaceAll(agentplugin.ServerID(o.ID, o.ID), ".", "_")+"_hello")
	for _, f := range []struct{ name, template string }{
		{"README.md", "plugin/README.md"},
		{"check.json", "mcp/check.json"},
		{agentplugin.ServersName, "plugin/mcp.json"},
		{agentplugin.FileName, "plugin/plugin.json"},
		{l.main, l.server},
		{"skills/greet/SKILL.md", "plugin/SKILL.md"},
	} {
		text, err := templates.ReadFile("templates/" + f.template)
		if err != nil {
			return nil, err
		}
		files = append(files, output{f.name, []byte(values.Replace(string(text))), 0o644})
	}
	return files, nil
}
