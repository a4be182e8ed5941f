package trust

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/manifest/agentplugin"
	"github.com/exthost/exthost/manifest/sandbox"
)

// TestShowsWhatASandboxReads: the question names the package that the sandbox opens for a command line, which may have
// variables.
func TestShowsWhatASandboxReads(t *testing.T) {
	root := t.TempDir()
	if link, err := filepath.EvalSymlinks(root); err == nil {
		root = link
	}
	for _, name := range []string{"app/package.json", "app/dist/x.js", "ext/x.js"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("APP_ROOT", root)
	cfg := config.Default()
	cfg.Extensions.Entries = map[string]config.Entry{"x": {Env: map[string]string{"APP": filepath.Join(root, "app")}}}
	for _, tt := range []struct {
		name      string
		transport manifest.Transport
		want      bool
	}{
		{"path", manifest.Transport{Args: []string{filepath.Join(root, "app/dist/x.js")}}, true},
		{"variable", manifest.Transport{Args: []string{"${APP_ROOT}/app/dist/x.js"}}, true},
		{"stated by the operator", manifest.Transport{Args: []string{"${APP}/dist/x.js"}}, true},
		{"directory", manifest.Transport{Args: []string{"x.js"}, Cwd: "${APP}/dist"}, true},
		{"package", manifest.Transport{Args: []string{"-r", "${EXTHOST_PACKAGE}/x.js", "${APP}/dist/x.js"}}, true},
		{"plugin", manifest.Transport{
			Args:    []string{"${" + agentplugin.RootVariable + "}/../app/dist/x.js"},
			Literal: true,
		}, true},
		{"own", manifest.Transport{Args: []string{"x.js"}}, false},
		{"unknown variable", manifest.Transport{Args: []string{"${NOT_SET_HERE}/app/dist/x.js"}}, false},
	} {
		tt.transport.Kind, tt.transport.Protocol = manifest.KindStdio, manifest.ProtocolMCP
		tt.transport.Command = "node"
		c := discovery.Candidate{ID: "x", Dir: filepath.Join(root, "ext"), Manifest: &manifest.Manifest{
			Transport: tt.transport,
			Sandbox:   &sandbox.Table{Profile: sandbox.ProfileNode},
		}}
		var i Item
		i.describeSandbox(cfg, &c)
		got := slices.ContainsFunc(i.asks, func(text string) bool {
			return strings.Contains(text, "also reads") && strings.Contains(text, "app, which")
		})
		if got != tt.want {
			t.Errorf("%s: %q", tt.name, i.asks)
		}
	}
}
