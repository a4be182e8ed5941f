package inspect

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/manifest/agentplugin"
)

// pluginFolder returns the folder of the plugin that path names. ok is false unless path is a plugin.json, or a folder
// with one and without plugin.toml.
func pluginFolder(path string) (dir string, ok bool) {
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return filepath.Dir(path), err == nil && filepath.Base(path) == agentplugin.FileName
	}
	if _, err := os.Lstat(filepath.Join(path, manifest.FileName)); err == nil {
		return path, false
	}
	info, err := os.Lstat(filepath.Join(path, agentplugin.FileName))
	return path, err == nil && !info.IsDir()
}

// validatePlugin prints the report about the plugin in a folder. Its exit code is 3 if the plugin is rejected.
func validatePlugin(c *console.Console, dir string) error {
	p := hosts.ReadPlugin(dir)
	code := console.ExitOK
	if p.Identity.Rejected {
		code = console.ExitInvalid
	}
	return c.Print(console.Document{Value: p, Rows: pluginRows(p), Wrap: true, Code: code})
}

// pluginRows are the findings with their places, and a line for the plugin.
func pluginRows(p *agentplugin.Plugin) (rows [][]string) {
	for _, d := range p.Diagnostics {
		rows = append(rows, []string{string(d.Level) + ": " + console.Nearby(d).String()})
	}
	if p.Identity.Rejected {
		return append(rows, []string{"plugin rejected"})
	}
	skills := 0
	for _, s := range p.Skills {
		if s.Valid {
			skills++
		}
	}
	title := strings.TrimSpace("plugin " + p.Identity.Name + " " + p.Identity.Version)
	return append(rows, []string{title + ": valid, " +
		share(len(p.Manifest.MCPServers), len(p.Servers), "server") + ", " + share(skills, len(p.Skills), "skill")})
}

// share returns how many of what are valid.
func share(valid, all int, what string) string {
	text := console.Plural(all, what)
	if valid < all {
		text = fmt.Sprintf("%d of %s", valid, text)
	}
	return text
}
