package packages

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/manifest/agentplugin"
)

// describePlugin returns what a plugin is. A plugin that no host would run is an error.
func describePlugin(dir string) (Run, error) {
	p := ReadPlugin(dir)
	if p.Identity.Rejected {
		return Run{}, fmt.Errorf("its plugin is rejected: %s", rejection(p))
	}
	if _, err := os.Lstat(filepath.Join(dir, manifest.FileName)); err == nil && p.Manifest.Portable {
		return Run{}, fmt.Errorf("beside its plugin.json it has a %s, and would run as that says; copy the folder "+
			"into a search path to run it", manifest.FileName)
	}
	return Run{
		Plugin:      p,
		Description: p.Manifest.Plugin.Description,
		License:     p.Manifest.Meta.License,
		Homepage:    p.Manifest.Meta.Homepage,
		Version:     p.Identity.Version,
	}, nil
}

// rejection returns why a plugin is rejected.
func rejection(p *agentplugin.Plugin) string {
	var texts []string
	for _, n := range p.Notes {
		text := n.Text
		if n.Section != "" {
			text += " (Agent Plugins " + n.Section + ")"
		}
		texts = append(texts, text)
	}
	if len(texts) > 4 {
		texts = append(texts[:4], fmt.Sprintf("%d more", len(texts)-4))
	}
	return strings.Join(texts, "; ")
}

// makeServersExecutable makes the programs that a plugin bundles executable, because not every archive records modes.
func makeServersExecutable(dir string) error {
	p := ReadPlugin(dir)
	if p.Manifest == nil {
		return nil
	}
	var errs []error
	own := manifest.Server{Command: p.Manifest.Transport.Command}
	for _, s := range append(slices.Collect(maps.Values(p.Manifest.MCPServers)), own) {
		program, own := strings.CutPrefix(s.Command, "./")
		at := filepath.Join(dir, filepath.FromSlash(program))
		if info, err := os.Lstat(at); own && err == nil && info.Mode().IsRegular() {
			errs = append(errs, os.Chmod(at, 0o555))
		}
	}
	return errors.Join(errs...)
}
