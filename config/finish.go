package config

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/builtin"
	"github.com/exthost/exthost/internal/strict"
	"github.com/exthost/exthost/manifest"
)

// noteSecretsFiles records the destinations that have a secrets_file, which may set
// their variables.
func (l *loader) noteSecretsFiles(root *strict.Node) {
	destinations := root.At("destinations")
	if destinations == nil {
		return
	}
	note := func(name string, d *strict.Node) {
		if d.At("secrets_file") != nil {
			l.secrets[strict.Join("destinations", name)+"."] = true
		}
	}
	for _, f := range destinations.Fields {
		note(f.Key, f.Value)
	}
	for _, item := range destinations.Items {
		if name := item.At("name"); name != nil {
			note(name.Text, item)
		}
	}
}

// late reports whether a variable that is not set now may be set for the process
// that path describes.
func (l *loader) late(path string) bool {
	if strings.HasPrefix(path, "hooks[") {
		return true // the host sets variables for each hook
	}
	for prefix := range l.secrets {
		if strings.HasPrefix(path, prefix) {
			return true
		}
	}
	return false
}

// finish fills in the values that depend on others and reports contradictions.
func (l *loader) finish() {
	for _, d := range l.report.Diagnostics {
		l.broken[strict.Pos{File: d.Path, Line: d.Line, Column: d.Column}] = true
	}
	if _, stated := l.decoder.Positions["extensions.search_paths"]; !stated {
		base := l.decoder.Base(strict.Pos{})
		for i, path := range l.cfg.Extensions.SearchPaths {
			l.cfg.Extensions.SearchPaths[i] = filepath.Join(base, path)
		}
	}
	l.finishPolicies()
	for i := range l.cfg.Hooks {
		l.finishHook(strict.Index("hooks", i), &l.cfg.Hooks[i])
	}
	for _, name := range slices.Sorted(maps.Keys(l.cfg.Destinations)) {
		d := l.cfg.Destinations[name]
		l.finishDestination(name, &d)
		l.cfg.Destinations[name] = d
	}
	l.checkExtensions(&l.cfg.Extensions)
	l.checkServer(&l.cfg.Server)
}

// base returns the directory that relative paths at a key start from.
func (l *loader) base(path string) string {
	pos, _ := l.decoder.Positions.At(path)
	return l.decoder.Base(pos)
}

// fail reports an error in the value at path.
func (l *loader) fail(path, hint, format string, args ...any) {
	l.failAt(path, hint, path+": "+fmt.Sprintf(format, args...))
}

// failIn reports a problem of the table at path.
func (l *loader) failIn(path string, p manifest.Problem) {
	at := path
	if p.Field != "" {
		at += "." + p.Field
	}
	l.failAt(at, p.Hint, path+": "+p.Message)
}

// failAt reports nothing for a value that could not be decoded.
func (l *loader) failAt(path, hint, message string) {
	pos, _ := l.decoder.Positions.At(path)
	if place := (strict.Pos{File: pos.File, Line: pos.Line, Column: pos.Column}); pos.Source != "" || !l.broken[place] {
		l.report.Add(pos, hint, "%s", message)
	}
}

func (l *loader) finishPolicies() {
	names := map[string]string{}
	for i := range l.cfg.Plugins {
		s, path := &l.cfg.Plugins[i], strict.Index("plugins", i)
		s.Normalize()
		problems := s.Validate()
		for _, p := range problems {
			l.failIn(path, manifest.Problem(p))
		}
		if s.Kind == governance.KindBuiltin && len(problems) == 0 {
			l.finishBuiltin(path, s)
		}
		if first, ok := names[s.Name]; ok && s.Name != "" {
			pos, _ := l.decoder.Positions.At(first + ".name")
			l.fail(path+".name", "policies are never replaced: choose another name", "policy %q is already defined at %s", s.Name, pos)
		}
		names[s.Name] = path
		if len(s.Cmd) > 0 {
			s.Cwd = l.settle(path, s.Cwd, s.Cmd)
		}
		if s.MCP != nil && s.MCP.Proto == governance.ProtoStdio {
			s.MCP.Cwd = l.settle(path+".mcp", s.MCP.Cwd, s.MCP.Cmd)
			s.MCP.Script = against(s.MCP.Cwd, s.MCP.Script)
		}
	}
}

// finishBuiltin has the built-in policy check its config.
func (l *loader) finishBuiltin(path string, s *governance.Spec) {
	builtin.Resolve(s, l.base(path))
	check := builtin.Check
	if s.Builtin == builtin.CEL {
		check = l.options.CheckCEL
	}
	if check == nil {
		return
	}
	for _, p := range check(*s) {
		at := path
		if p.Field != "" {
			at += "." + p.Field
		}
		l.fail(at, "", "%s", p.Message)
	}
}

// settle returns the working directory of a process, by default the directory of the
// file that states it. A command with a slash becomes absolute, relative to there.
func (l *loader) settle(path, cwd string, argv []string) string {
	if cwd == "" {
		cwd = l.base(path)
	}
	if len(argv) > 0 && strings.ContainsAny(argv[0], `/\`) {
		argv[0] = against(cwd, argv[0])
	}
	return cwd
}

// against makes a path absolute, relative to dir. "" stays "".
func against(dir, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

func (l *loader) finishHook(path string, h *manifest.HookSpec) {
	for _, p := range h.Validate() {
		l.failIn(path, p)
	}
	if event, ok := manifest.ParseHookEvent(h.Event); ok {
		h.Event = string(event)
	}
	l.settle(path, "", h.Command)
}
