package packages

import (
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/internal/supply/lock"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/manifest/agentplugin"
)

// bundleFile is the manifest of an MCP bundle.
const bundleFile = "manifest.json"

// form is what a package is, by the files in its root.
type form string

const (
	formPlugin form = "plugin" // plugin.json of Agent Plugins
	// plugin.toml that [Installer.Translate] made of a plugin in the format of another program
	formTranslated form = "translated plugin"
	formBundle     form = "bundle" // manifest.json of an MCP bundle
	formNode       form = "node"   // package.json
)

// formOf returns the form of the package whose root is dir, "" if no file says one. Where several do, the format for
// every client comes first.
func formOf(dir string) form {
	has := func(name string) bool {
		_, err := os.Lstat(filepath.Join(dir, name))
		return err == nil
	}
	switch {
	case has(agentplugin.FileName) && !agentplugin.Read(dir, agentplugin.Options{}).Foreign:
		return formPlugin
	case translated(dir):
		return formTranslated
	case has(bundleFile):
		return formBundle
	case has("package.json"):
		return formNode
	}
	return ""
}

// translated reports whether the plugin.toml in dir is a translation.
func translated(dir string) bool {
	data, _, err := file.ReadRegular(filepath.Join(dir, manifest.FileName), int64(len(manifest.TranslatedMark)), false)
	return err == nil && string(data) == manifest.TranslatedMark
}

// IsPlugin reports whether the package whose root is dir is one of Agent Plugins, valid or not, or a translated one.
func IsPlugin(dir string) bool {
	form := formOf(dir)
	return form == formPlugin || form == formTranslated
}

// PluginFile returns the name of the file in dir that states the plugin.
func PluginFile(dir string) string {
	if formOf(dir) == formTranslated {
		return manifest.FileName
	}
	return agentplugin.FileName
}

// ReadPlugin reads the plugin in dir, which [IsPlugin] reports, in the form of Agent Plugins.
func ReadPlugin(dir string) *agentplugin.Plugin {
	if formOf(dir) != formTranslated {
		return agentplugin.Read(dir, agentplugin.Options{})
	}
	p := &agentplugin.Plugin{}
	m, diags := manifest.ReadFile(filepath.Join(dir, manifest.FileName), manifest.ReadOptions{})
	if p.Diagnostics = diags; m == nil {
		p.Identity.Rejected = true
		for _, d := range diags {
			p.Notes = append(p.Notes, agentplugin.Note{Text: d.Message})
		}
		return p
	}
	p.Manifest, p.Identity = m, agentplugin.Identity{Name: m.Plugin.ID, Version: m.Plugin.Version}
	if m.Transport.Kind != "" {
		p.Servers = append(p.Servers, agentplugin.Server{Name: m.Plugin.ID, ID: m.Plugin.ID, Valid: true})
	}
	for _, name := range slices.Sorted(maps.Keys(m.MCPServers)) {
		p.Servers = append(p.Servers,
			agentplugin.Server{Name: name, ID: manifest.ServerID(m.Plugin.ID, name), Valid: true})
	}
	return p
}

// raised returns the parts with the first one, a package as npm places it, in the root.
func raised(parts []lock.Part) []lock.Part {
	at := parts[0].Path
	all := make([]lock.Part, len(parts))
	for n, p := range parts {
		if p.Path == at {
			p.Path = ""
		} else if below, ok := strings.CutPrefix(p.Path, at+"/"); ok { // its own version of what others need too
			p.Path = path.Clean(below)
		}
		all[n] = p
	}
	return all
}

// isGit reports whether a part is a commit, isLocal whether it is a bundle or folder. Others are registry archives.
func isGit(p lock.Part) bool   { return strings.HasPrefix(p.URL, "git+") }
func isLocal(p lock.Part) bool { return !strings.Contains(p.URL, "://") }
