package clientconfig

import (
	"cmp"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/protocol"
)

// TestPrograms compares files of other programs with docs/coming-from.md: each works unmodified, is imported, or
// is refused. The page has each note or refusal, in the row that starts with the given words.
func TestPrograms(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "coming-from.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		dir    string
		works  string            // expected extensions, destinations and policies
		imp    string            // file to import instead
		said   map[string]string // part of a diagnostic or note, and the first words of its row
		refuse bool              // the configuration is invalid
	}{
		{dir: "nexo", works: "bundle.calendar bundle.gmail poller stream weather", said: map[string]string{
			"info extensions.yaml: schema_version has no effect here":                "`extensions.transport_defaults`, `extensions.doctor`, `schema_version`",
			"info extensions.yaml: extensions.transport_defaults has no effect here": "`extensions.transport_defaults`",
			"extensions.entries.weather.capabilities_grant has no effect " +
				"here": "`extensions.entries.ID.capabilities_grant`",
			"extensions.entries.weather.allow_external_bind has no effect here": "`extensions.entries.ID.capabilities_grant`, `allow_external_bind`",
			"warn plugin.toml: capabilities.pollers has no effect":              "`capabilities.channels`, `providers`, `pollers`",
			"info plugin.toml: outbound_bindings has no effect":                 "`mcp_servers.NAME.log_level`, `outbound_bindings`",
			"mcp_servers.gmail.log_level has no effect":                         "`mcp_servers.NAME.log_level`",
		}},
		{dir: "contextforge", works: "OPAPluginFilter", said: map[string]string{
			"info plugins.yaml: plugin_dirs has no effect":                                   "`plugin_dirs`, `plugin_settings`",
			"info plugins.yaml: plugin_settings has no effect":                               "`plugin_dirs`, `plugin_settings`",
			"info plugins.yaml: plugin ArgumentNormalizer is left out: it is disabled, and ": "`kind: package.Class`",
		}},
		{dir: "contextforge-in-process", refuse: true, said: map[string]string{
			"error plugins.yaml: plugin PIIFilterPlugin: a Python class runs only inside " +
				"ContextForge": "`kind: package.Class`",
		}},
		{dir: "mcpv", works: "audit-log"},
		{dir: "mcpv", imp: "catalog.yaml", works: "weather weather-http", said: map[string]string{
			"routeTimeoutSeconds is left out":         "`routeTimeoutSeconds`",
			"subAgent has no counterpart here":        "`rpc`, `observability`, `subAgent`",
			"weather: protocolVersion has no counter": "`protocolVersion`",
			"weather: minReady has no counterpart":    "`protocolVersion`, `minReady`",
		}},
		{dir: "gateway", works: "context7 github plain"},
		{dir: "gateway-config", works: "streaming"},
		{dir: "gateway-shell", refuse: true, said: map[string]string{
			"error destinations.yml: destinations.piped.command: '|' means something to a " +
				"shell": "`url`, `command`, `env`",
		}},
		{dir: "clients", imp: ".mcp.json", works: "memory"},
	} {
		t.Run(tt.dir+tt.imp, func(t *testing.T) {
			dir, err := filepath.Abs(filepath.Join("testdata", "programs", tt.dir))
			if err != nil {
				t.Fatal(err)
			}
			names, said, valid := inPlace(t, dir)
			if tt.imp != "" {
				names, said, valid = imported(t, filepath.Join(dir, tt.imp))
			}
			if slices.Sort(names); valid == tt.refuse || valid && strings.Join(names, " ") != tt.works {
				t.Errorf("valid %v, there are %q, want %q", valid, names, tt.works)
			}
			// file modes depend on the checkout
			said = slices.DeleteFunc(said, func(s string) bool { return strings.Contains(s, "may read this file of") })
			for words, row := range tt.said {
				if !slices.ContainsFunc(said, func(s string) bool { return strings.Contains(s, words) }) {
					t.Errorf("nothing says %q among\n%s", words, strings.Join(said, "\n"))
				}
				if !strings.Contains(string(page), "| "+row) {
					t.Errorf("the page has no row of %s", row)
				}
			}
			if len(tt.said) < len(said) && tt.imp == "" {
				for _, s := range said {
					if !slices.ContainsFunc(slices.Collect(maps.Keys(tt.said)),
						func(words string) bool { return strings.Contains(s, words) }) {
						t.Errorf("unexpected: %s", s)
					}
				}
			}
		})
	}
}

// inPlace loads dir's configuration and discovers its extensions.
func inPlace(t *testing.T, dir string) (names, said []string, valid bool) {
	t.Helper()
	cfg, err := config.Load(config.LoadOptions{
		Dir:       dir,
		Environ:   []string{"PATH=/bin"},
		UserDir:   "none",
		SystemDir: "none",
	})
	refused, _ := errors.AsType[config.Refused](err)
	diags := []protocol.Diagnostic(refused)
	if valid = err == nil; valid {
		r, err := discovery.Discover(t.Context(),
			discovery.Options{SearchPaths: cfg.Extensions.SearchPaths, MaxDepth: cfg.Extensions.MaxDepth})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range r.Candidates {
			names = append(names, c.ID)
		}
		diags = slices.Concat(cfg.Warnings, r.Diagnostics)
		names = slices.AppendSeq(names, maps.Keys(cfg.Destinations))
		for _, p := range cfg.Plugins {
			names = append(names, p.Name)
		}
	}
	for _, d := range diags {
		switch d.Code {
		case discovery.CodePathMissing, discovery.CodeNotDescended:
		default:
			said = append(said,
				strings.Join([]string{string(d.Level), cmp.Or(filepath.Base(d.Path), "-") + ":", d.Message}, " "))
		}
	}
	return names, said, valid
}

// imported imports a file, and validates the resulting manifests and configuration.
func imported(t *testing.T, path string) (names, said []string, valid bool) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Read(path, data, Options{Home: "/home/someone"})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.Extensions() {
		parses(t, f)
	}
	for _, s := range r.Servers {
		names = append(names, s.ID)
	}
	for _, n := range r.Notes {
		said = append(said, n.Server+": "+n.Message)
	}
	dir := t.TempDir()
	for _, f := range append(r.Config, File{"destinations.yaml", r.Destinations()}) {
		if err := os.MkdirAll(filepath.Join(dir, "config"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "config", f.Path), f.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	_, err = config.Load(config.LoadOptions{
		Dir:       dir,
		Environ:   []string{"PATH=/bin"},
		UserDir:   "none",
		SystemDir: "none",
	})
	if strings.Contains(string(r.Destinations()), "${") {
		return names, said, true
	}
	if err != nil {
		t.Errorf("what was imported is invalid: %v", err)
	}
	return names, said, err == nil
}
