package hosts

import "github.com/exthost/exthost/manifest/agentplugin"

// ReadPlugin reads the plugin in a folder, with its skills.
func ReadPlugin(dir string) *agentplugin.Plugin {
	return agentplugin.Read(dir, agentplugin.Options{})
}
