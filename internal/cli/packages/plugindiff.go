package packages

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/listing/skills"
	"github.com/exthost/exthost/internal/supply/consent"
	"github.com/exthost/exthost/internal/supply/packages"
	"github.com/exthost/exthost/internal/text"
	"github.com/exthost/exthost/manifest"
)

// maxChanges is the number of lines about the changes of a plugin.
const maxChanges = 200

// pluginChanges lists what the plugin in the folder after runs, reaches, asks for and tells models that the one in
// before did not, and the reverse.
func pluginChanges(before, after string) (lines []string) {
	was, is := packages.ReadPlugin(before), packages.ReadPlugin(after)
	if a, b := orNone(was.Identity.Version), orNone(is.Identity.Version); a != b {
		lines = append(lines, fmt.Sprintf("  version: %s → %s", a, b))
	}
	old, now := grants(was.Manifest), grants(is.Manifest)
	lines = append(lines, missing("  - ", old, now)...)
	lines = append(lines, missing("  + ", now, old)...)
	lines = append(lines, skillChanges(skills.Read(before).Skills, skills.Read(after).Skills)...)
	if more := len(lines) - maxChanges; more > 0 {
		lines = append(lines[:maxChanges], fmt.Sprintf("  … and %d lines more", more))
	}
	return append(lines, "")
}

// missing returns the lines of list that other has not, behind a sign.
func missing(sign string, list, other []string) (lines []string) {
	has := make(map[string]bool, len(other))
	for _, line := range other {
		has[line] = true
	}
	for _, line := range list {
		if !has[line] {
			lines = append(lines, sign+console.Cut(line, 1000))
		}
	}
	return lines
}

func orNone(version string) string {
	if version == "" {
		return "none"
	}
	return version
}

// grants lists what a plugin runs, reaches and asks for.
func grants(m *manifest.Manifest) (lines []string) {
	if m == nil {
		return nil
	}
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	servers := maps.Clone(m.MCPServers)
	if t := m.Transport; t.Kind != "" { // of a translated plugin, the server of its name
		servers = map[string]manifest.Server{m.Plugin.ID: {
			Command: t.Command,
			Args:    t.Args,
			Env:     t.Env,
			Cwd:     t.Cwd,
			URL:     t.URL,
			Headers: t.Headers,
		}}
		maps.Copy(servers, m.MCPServers)
	}
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		s := servers[name]
		if s.URL != "" {
			add("server %s connects to %s", name, s.URL)
			for _, header := range slices.Sorted(maps.Keys(s.Headers)) {
				add("server %s sends the header %s: %s", name, header, s.Headers[header])
			}
			continue
		}
		add("server %s runs %s", name, text.ShellLine(append([]string{s.Command}, s.Args...)))
		if s.Cwd != "" {
			add("server %s runs in %s", name, s.Cwd)
		}
		for _, variable := range slices.Sorted(maps.Keys(s.Env)) {
			add("server %s gets %s=%s", name, variable, s.Env[variable])
		}
	}
	for _, h := range m.Hooks {
		add("hook %s runs %s", h.Event, text.ShellLine(h.Command))
	}
	for _, name := range m.Requires.Bins {
		add("needs the program %s", name)
	}
	for _, name := range m.Requires.Env {
		add("asks for the variable %s", name)
	}
	if m.Sandbox == nil {
		return append(lines, "states no sandbox")
	}
	if m.Sandbox.Profile != "" {
		add("sandbox: profile %s", m.Sandbox.Profile)
	}
	for _, line := range m.Sandbox.Asks() {
		add("sandbox: %s", line)
	}
	return lines
}

// skillChanges lists the skills that came, went or changed.
func skillChanges(before, after []*skills.Skill) (lines []string) {
	was := map[string]*skills.Skill{}
	for _, s := range before {
		was[s.Name] = s
	}
	for _, s := range after {
		old := was[s.Name]
		delete(was, s.Name)
		if old == nil {
			lines = append(lines, "  + skill "+s.Name+": "+strings.Join(strings.Fields(s.Description), " "))
		} else if changes := filesChanged(old.Files, s.Files); len(changes) > 0 {
			lines = append(lines, "  skill "+s.Name+" changed: "+consent.Some(changes))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(was)) {
		lines = append(lines, "  - skill "+name)
	}
	return lines
}

// filesChanged returns the paths at which two versions of a skill differ.
func filesChanged(before, after []skills.File) (paths []string) {
	was := map[string]string{}
	for _, f := range before {
		was[f.Path] = f.Digest
	}
	for _, f := range after {
		if was[f.Path] != f.Digest {
			paths = append(paths, f.Path)
		}
		delete(was, f.Path)
	}
	for path := range was {
		paths = append(paths, path+" (removed)")
	}
	slices.Sort(paths)
	return paths
}
