package inspect

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/httpserver"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/internal/proc/process"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/manifest/agentplugin"
	"github.com/exthost/exthost/protocol"
)

// Validate returns exthost validate, which checks manifests or the configuration.
func Validate(c *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "validate [DIR | plugin.toml | plugin.json ...]",
		Short: "Check manifests and the configuration, starting nothing",
		Long: "Check the manifests given and those below a folder given, or the configuration and every\n" +
			"manifest it finds, and print all errors and warnings with file, line and column. The exit\n" +
			"code is 3 when there is an error. For one plugin (plugin.json) an error names the section of\n" +
			"Agent Plugins, -o json lists all its servers and skills, and the code is 3 when the plugin is\n" +
			"rejected.",
		Example: "  exthost validate\n  exthost validate extensions/weather\n  exthost validate extensions",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return validateAll(cmd.Context(), c)
			}
			if len(args) == 1 {
				if dir, ok := pluginFolder(args[0]); ok {
					return validatePlugin(c, dir)
				}
			}
			var diags []protocol.Diagnostic
			manifests := 0
			for _, path := range args {
				found, n, err := validatePath(cmd.Context(), path)
				if err != nil {
					return err
				}
				diags, manifests = append(diags, found...), manifests+n
			}
			return report(c, diags, console.Plural(manifests, "manifest"))
		},
	}
}

// validatePath checks one manifest, the manifest of a folder or, if a folder has none, all manifests below it. It
// returns the number of manifests.
func validatePath(ctx context.Context, path string) ([]protocol.Diagnostic, int, error) {
	if dir, ok := pluginFolder(path); ok {
		return hosts.ReadPlugin(dir).Diagnostics, 1, nil
	}
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		folder := path
		path = filepath.Join(folder, manifest.FileName)
		if _, err = os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			r, err := discovery.Discover(ctx, discovery.Options{SearchPaths: []string{folder}, Safe: []string{"/"}})
			if err != nil || r.Stats.Manifests > 0 {
				for _, x := range r.Candidates {
					r.Diagnostics = append(r.Diagnostics, unusable(x.Path, x.Manifest)...)
				}
				return r.Diagnostics, r.Stats.Manifests, err
			}
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, &console.Error{
			Code: console.ExitNotFound,
			Text: "there is no " + path,
			Hint: "exthost validate DIR, where DIR/plugin.toml or DIR/NAME/plugin.toml is, or without DIR for all " +
				"there are",
		}
	}
	m, found := manifest.ReadFile(path, manifest.ReadOptions{FollowLinks: true})
	return append(found, unusable(path, m)...), 1, nil
}

// unusable reports a manifest whose script does not exist, or whose program or script has line ends that it cannot run
// with. It does not report a missing command, which may be built later; exthost check does.
func unusable(path string, m *manifest.Manifest) []protocol.Diagnostic {
	if m == nil {
		return nil
	}
	d := protocol.Diagnostic{
		Level:     protocol.LevelError,
		Code:      manifest.CodeInvalid,
		Extension: m.Plugin.ID,
		Path:      path,
	}
	dir, argv := filepath.Dir(path), m.Transport.CommandLine()
	if script := m.Transport.Script; script != "" {
		if !filepath.IsAbs(script) {
			script = filepath.Join(dir, script)
		}
		if _, err := os.Stat(script); errors.Is(err, fs.ErrNotExist) {
			d.Message = "transport.script: there is no " + console.NearbyPath(script)
			d.Hint = "check the spelling; a script is relative to the folder of its plugin.toml"
			return []protocol.Diagnostic{d}
		}
		argv, _ = process.LaunchScript(script, dir, os.Getenv("PATH")) // check reports a missing interpreter
	} else if len(argv) > 0 && strings.Contains(argv[0], "/") && !filepath.IsAbs(argv[0]) {
		argv = append([]string{filepath.Join(dir, argv[0])}, argv[1:]...)
	}
	if script := process.CRLFScript(argv, dir); script != "" {
		d.Message = "the first line of " + console.NearbyPath(script) +
			" ends in CR LF, and its interpreter takes the CR for text, so that it cannot run"
		d.Hint = "save it with Unix line endings"
		return []protocol.Diagnostic{d}
	}
	return nil
}

func validateAll(ctx context.Context, c *console.Console) error {
	cfg, _, err := hosts.Load(c)
	if err != nil {
		return err
	}
	h, err := hosts.Examine(ctx, c, cfg)
	if err != nil {
		return err
	}
	defer h.Close()
	s := h.Status()
	for _, x := range s.Extensions {
		if filepath.Base(x.Path) == agentplugin.FileName { // states no script
			continue
		}
		// skip x if another manifest defines it as one of its servers
		if m, _ := manifest.ReadFile(x.Path, manifest.ReadOptions{FollowLinks: true}); m != nil && m.Plugin.ID == x.ID {
			s.Diagnostics = append(s.Diagnostics, unusable(x.Path, m)...)
		}
	}
	if d := httpserver.CheckTLS(httpserver.TLS(cfg.Server.TLS)); d != nil {
		s.Diagnostics = append(s.Diagnostics, *d)
	}
	return report(c, s.Diagnostics, "the configuration and "+console.Plural(len(s.Extensions), "extension"))
}

// report prints diagnostics as data. Its exit code is 3 if one is an error.
func report(c *console.Console, diags []protocol.Diagnostic, checked string) error {
	failed := 0
	rows := [][]string{}
	for _, d := range diags {
		if d.Code == discovery.CodeNotDescended { // nothing to correct
			continue
		}
		if d.Level == protocol.LevelError {
			failed++
		}
		rows = append(rows, []string{string(d.Level) + ": " + console.Nearby(d).String()})
	}
	verdict, code := "valid", console.ExitOK
	if failed > 0 {
		verdict, code = console.Plural(failed, "error"), console.ExitInvalid
	}
	rows = append(rows, []string{checked + ": " + verdict})
	return c.Print(console.Document{
		Kind:  "diagnostics",
		Value: console.OrEmpty(diags),
		Rows:  rows,
		Wrap:  true,
		Code:  code,
	})
}

// schemas returns exthost config schema, which prints the JSON Schemas of manifests and configuration.
func schemas(c *console.Console) *cobra.Command {
	sub := func(name, short string, schema func() []byte) *cobra.Command {
		return &cobra.Command{
			Use:   name,
			Short: short,
			Args:  console.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				if err := c.JSONOnly(cmd); err != nil {
					return err
				}
				_, err := fmt.Fprintln(c.Out, string(schema()))
				return err
			},
		}
	}
	return console.Group("schema", "Print the JSON Schema of a kind of files",
		sub("manifest", "The JSON Schema of plugin.toml", manifest.Schema),
		sub("plugin", "The JSON Schema of io.github.exthost in a plugin.json", manifest.TablesSchema),
		sub("config", "The JSON Schema of exthost.yaml and exthost.toml", config.Schema),
		sub("lock", "The JSON Schema of exthost.lock", config.LockSchema))
}

// Config returns exthost config, which shows the configuration and prints JSON Schemas.
func Config(c *console.Console) *cobra.Command {
	var origin bool
	show := &cobra.Command{
		Use:   "show",
		Short: "Print the configuration, --origin with its sources",
		Args:  console.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			cfg, origins, err := hosts.Load(c)
			if err != nil {
				return err
			}
			if !origin && c.Output == "table" {
				return c.PrintYAML(cfg.Redacted())
			}
			settings := cfg.Settings(origins)
			names, rows := []string{}, [][]string{{"KEY", "VALUE", "ORIGIN"}}
			for _, s := range settings {
				names = append(names, s.Key)
				rows = append(rows, []string{s.Key, fmt.Sprint(s.Value), s.Origin})
			}
			return c.Print(console.Document{Kind: "settings", Value: settings, Names: names, Rows: rows})
		},
	}
	show.Flags().BoolVar(&origin, "origin", false, "a line for each value: key, value, origin")
	return console.Group("config", "Show the configuration, print JSON Schemas", show, schemas(c))
}
