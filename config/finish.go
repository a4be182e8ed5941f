package config

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/builtin"
	"github.com/exthost/exthost/internal/file/ownership"
	"github.com/exthost/exthost/internal/text/strict"
	"github.com/exthost/exthost/manifest"
)

// finisher completes the merged configuration: it fills in values that depend on others, and reports those that do
// not fit together.
type finisher struct {
	cfg      *Config
	report   *strict.Report
	decoder  *strict.Decoder                            // knows the positions of keys and the base of relative paths
	broken   map[strict.Pos]bool                        // positions of values that could not be decoded
	checkCEL func(governance.Spec) []governance.Problem // LoadOptions.CheckCEL
	owners   ownership.Rule                             // decides which owners' files are read
}

func (f *finisher) finish() {
	f.broken = make(map[strict.Pos]bool)
	for _, d := range f.report.Diagnostics {
		f.broken[strict.Pos{File: d.Path, Line: d.Line, Column: d.Column}] = true
	}
	if _, stated := f.decoder.Positions["extensions.search_paths"]; !stated {
		base := f.decoder.Base(strict.Pos{})
		for i, path := range f.cfg.Extensions.SearchPaths {
			f.cfg.Extensions.SearchPaths[i] = filepath.Join(base, path)
		}
	}
	f.finishPolicies()
	for i := range f.cfg.Hooks {
		f.finishHook(strict.Index("hooks", i), &f.cfg.Hooks[i])
	}
	for _, name := range slices.Sorted(maps.Keys(f.cfg.Destinations)) {
		d := f.cfg.Destinations[name]
		f.finishDestination(name, &d)
		f.cfg.Destinations[name] = d
	}
	f.checkExtensions(&f.cfg.Extensions)
	f.checkServer(&f.cfg.Server)
	f.checkToolsets()
	f.checkInjected()
	f.checkSecrets()
	f.checkHeaders(f.cfg.Governance.Headers)
	if h := &f.cfg.Cluster.Hub; h.Listen != "" && h.Dir == "" {
		h.Dir = filepath.Join(f.base("cluster.hub.listen"), "cluster")
	}
	for _, p := range f.cfg.Cluster.Validate() {
		f.fail("cluster."+p.Field, p.Hint, "%s", p.Message)
	}
	for _, p := range f.cfg.OTel.Validate() {
		f.failIn("otel", p)
	}
}

// base returns the directory that a key's relative paths start from.
func (f *finisher) base(path string) string {
	pos, _ := f.decoder.Positions.At(path)
	return f.decoder.Base(pos)
}

func (f *finisher) fail(path, hint, format string, args ...any) {
	f.failAt(path, hint, path+": "+fmt.Sprintf(format, args...))
}

func (f *finisher) failIn(path string, p manifest.Problem) {
	at := path
	if p.Field != "" {
		at += "." + p.Field
	}
	f.failAt(at, p.Hint, path+": "+p.Message)
}

// failAt reports an error unless the value could not be decoded in the first place.
func (f *finisher) failAt(path, hint, message string) {
	pos, _ := f.decoder.Positions.At(path)
	if place := (strict.Pos{File: pos.File, Line: pos.Line, Column: pos.Column}); pos.Source != "" || !f.broken[place] {
		f.report.Add(pos, hint, "%s", message)
	}
}

func (f *finisher) finishPolicies() {
	names := map[string]string{}
	for i := range f.cfg.Plugins {
		s, path := &f.cfg.Plugins[i], strict.Index("plugins", i)
		s.Normalize()
		problems := s.Validate()
		for _, p := range problems {
			f.failIn(path, manifest.Problem(p))
		}
		if s.Kind == governance.KindBuiltin && len(problems) == 0 {
			f.finishBuiltin(path, s)
		}
		if first, ok := names[s.Name]; ok && s.Name != "" {
			pos, _ := f.decoder.Positions.At(first + ".name")
			f.fail(path+".name", "policies are never replaced: choose another name",
				"policy %q is already defined at %s", s.Name, pos)
		}
		names[s.Name] = path
		if len(s.Cmd) > 0 {
			s.Cwd = f.settle(path, s.Cwd, s.Cmd)
		}
		if s.MCP != nil && s.MCP.Proto == governance.ProtoStdio {
			s.MCP.Cwd = f.settle(path+".mcp", s.MCP.Cwd, s.MCP.Cmd)
			s.MCP.Script = against(s.MCP.Cwd, s.MCP.Script)
			if refused := f.owners.Named(s.MCP.Script); s.MCP.Script != "" && refused != nil {
				f.fail(path+".mcp.script", refused.Hint, "not used: %s", refused.Message)
			}
		}
	}
}

// finishBuiltin checks the config of a built-in policy.
func (f *finisher) finishBuiltin(path string, s *governance.Spec) {
	builtin.Resolve(s, f.base(path))
	check := builtin.Check
	if s.Builtin == builtin.CEL {
		check = f.checkCEL
	}
	if check == nil {
		return
	}
	problems := check(*s)
	for _, p := range problems {
		at := path
		if p.Field != "" {
			at += "." + p.Field
		}
		f.fail(at, "", "%s", p.Message)
	}
	// only a warning, as exthost serve --cluster may still join a cluster
	if len(problems) == 0 && !s.Disabled && builtin.Shares(*s) && !f.cfg.Cluster.Joins() {
		pos, _ := f.decoder.Positions.At(path + ".config.scope")
		f.report.Warn(pos, "exthost serve --cluster FILE joins one, exthost cluster init makes one; or state scope: "+
			"node", "%s.config.scope: cluster counts for all nodes of a cluster, and no host starts that is in none: "+
			"cluster.join and cluster.urls are not stated", path)
	}
}

// settle returns the directory that a process starts in: cwd, or the directory of the file that states the process. It
// resolves a command with a slash against that directory, and ~ at its beginning.
func (f *finisher) settle(path, cwd string, argv []string) string {
	cwd = cmp.Or(cwd, f.base(path))
	if len(argv) > 0 && strings.ContainsAny(argv[0], `/\`) {
		argv[0] = against(cwd, strict.InHome(argv[0]))
	}
	if refused := f.owners.Command(cwd, argv); refused != nil {
		f.fail(path, refused.Hint, "its command does not run: %s", refused.Message)
	}
	return cwd
}

func (f *finisher) finishHook(path string, h *manifest.HookSpec) {
	for _, p := range h.Validate() {
		f.failIn(path, p)
	}
	if event, ok := manifest.ParseHookEvent(h.Event); ok {
		h.Event = string(event)
	}
	f.settle(path, "", h.Command)
}

// finishSecrets checks the section secrets and fills in the default paths, below the user's configuration directory
// userDir.
func (f *finisher) finishSecrets(userDir string) {
	s, path := &f.cfg.Secrets, "secrets"
	f.only(path, "provider age and file",
		map[string]bool{"path": s.Path != "" && s.Provider != SecretsAge && s.Provider != SecretsFile})
	f.only(path, "provider age", map[string]bool{"identity": s.Identity != "" && s.Provider != SecretsAge})
	f.only(path, "provider command", map[string]bool{"command": s.Command != nil && s.Provider != SecretsCommand})
	switch {
	case s.Provider == SecretsCommand && (len(s.Command) == 0 || s.Command[0] == ""):
		f.fail(path+".command", `such as [op, read, "op://vault/{name}/password"]`, "provider command needs a command")
	case s.Provider == SecretsCommand:
		s.Dir = f.settle(path+".command", "", s.Command)
	case s.Provider == SecretsFile && s.Path == "":
		f.fail(path+".path", "such as /run/secrets", "provider file needs a path")
	case s.Provider == SecretsAge && userDir != "":
		s.Path = cmp.Or(s.Path, filepath.Join(userDir, "secrets", "secrets.age"))
		s.Identity = cmp.Or(s.Identity, filepath.Join(filepath.Dir(s.Path), "identity"))
	}
	if userDir != "" {
		s.Logins = cmp.Or(s.Logins, filepath.Join(userDir, "logins"))
	}
	if s.Timeout <= 0 {
		f.fail(path+".timeout", "", "without a limit an answer that does not come would never be given up")
	}
}
