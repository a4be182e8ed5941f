package packages

import (
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/exthost/exthost/internal/supply/lock"
	"github.com/exthost/exthost/manifest/agentplugin"
)

// bundleFile is the manifest of an MCP bundle.
const bundleFile = "manifest.json"

// form is what a package is, by the files in its root.
type form string

const (
	formPlugin form = "plugin" // plugin.json of Agent Plugins
	formBundle form = "bundle" // manifest.json of an MCP bundle
	formNode   form = "node"   // package.json
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
	case has(bundleFile):
		return formBundle
	case has("package.json"):
		return formNode
	}
	return ""
}

// IsPlugin reports whether the package whose root is dir is one of Agent Plugins, valid or not.
func IsPlugin(dir string) bool { return formOf(dir) == formPlugin }

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
