package discovery

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/text"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/manifest/agentplugin"
	"github.com/exthost/exthost/protocol"
)

// selection selects the manifests that apply.
type selection struct {
	o        Options
	found    []found
	unusable []found // directories with a manifest that cannot be used
	below    []nested
	result   *Result
	seen     map[string]bool        // all ids found, to report unknown ids in lists
	claims   map[string][]Candidate // who has an id, see [selection.claim]; nil without a plugin.json
}

// run drops nested manifests before disabled ones: disabling an extension, or breaking its manifest, must not start
// other extensions inside its directory.
func (s *selection) run() {
	byPath := func(a, b found) int {
		return cmp.Or(cmp.Compare(a.RootIndex, b.RootIndex), cmp.Compare(a.Path, b.Path))
	}
	slices.SortFunc(s.found, byPath)
	slices.SortFunc(s.unusable, byPath)
	s.seen = map[string]bool{}
	for _, f := range s.found {
		s.seen[f.ID] = true
	}
	s.reportBelow()
	s.dropNested()
	s.dropDuplicates()
	s.dropIf(func(f found) bool { return s.disabled(f.Candidate) })
	for i := range s.found {
		s.found[i].list = s.found[i].candidates()
	}
	s.claim()
	for _, f := range s.found {
		s.admit(f.list)
	}
	slices.SortFunc(s.result.Candidates, func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(a.RootIndex, b.RootIndex), cmp.Compare(a.ID, b.ID))
	})
	s.reportUnknown("disabled", s.o.Disabled, false)
	s.reportUnknown("allowlist", s.o.Allowlist, false)
	s.reportUnknown("entries", s.o.Configured, true)
}

func (s *selection) diagnose(level protocol.Level, code, id, path, format string, args ...any) {
	s.result.Diagnostics = append(s.result.Diagnostics, protocol.Diagnostic{
		Level:     level,
		Code:      code,
		Extension: id,
		Path:      path,
		Message:   fmt.Sprintf(format, args...),
	})
}

// hint adds a hint to the latest diagnostic.
func (s *selection) hint(format string, args ...any) {
	s.result.Diagnostics[len(s.result.Diagnostics)-1].Hint = fmt.Sprintf(format, args...)
}

// dropIf drops every manifest for which drop returns true. drop adds the diagnostic.
func (s *selection) dropIf(drop func(f found) bool) { s.found = slices.DeleteFunc(s.found, drop) }

func (s *selection) disabled(c Candidate) bool {
	if !s.isDisabled(c) {
		return false
	}
	s.diagnose(protocol.LevelInfo, CodeDisabled, c.ID, c.Path, "%s is disabled", c.ID)
	return true
}

// dropNested drops extensions inside the directory of another manifest, even of another search path or an unusable one,
// and directories that were found twice.
func (s *selection) dropNested() {
	owner := make(map[string]found, len(s.found)+len(s.unusable))
	for _, f := range s.unusable {
		owner[f.real] = f
	}
	s.dropIf(func(f found) bool {
		first, again := owner[f.real]
		if again = again && first.Manifest != nil; again {
			s.diagnose(protocol.LevelInfo, CodeSameDirectory, f.ID, f.Path, "this is the same directory as that of %s",
				first.Path)
		} else {
			owner[f.real] = f
		}
		return again
	})
	s.dropIf(func(f found) bool {
		for dir := filepath.Dir(f.real); ; dir = filepath.Dir(dir) {
			if outer, ok := owner[dir]; ok {
				s.nested(f, outer)
				return true
			}
			if dir == filepath.Dir(dir) {
				return false
			}
		}
	})
}

// reportBelow reports the manifests below those of extensions whose ids no other extension has: a copy of an extension
// inside of it, such as a build, is no news.
func (s *selection) reportBelow() {
	slices.SortFunc(s.below, func(a, b nested) int {
		return cmp.Or(cmp.Compare(a.found.RootIndex, b.found.RootIndex), cmp.Compare(a.found.Path, b.found.Path))
	})
	for _, b := range s.below {
		if !s.seen[b.found.ID] {
			s.seen[b.found.ID] = true
			s.nested(b.found, b.outer)
		}
	}
}

// nested reports that f is inside the directory of outer.
func (s *selection) nested(f, outer found) {
	switch {
	case outer.Manifest == nil:
		s.diagnose(protocol.LevelWarn, CodeNested, f.ID, f.Path,
			"%s does not run: it is inside the directory of %s, which cannot be used", f.ID, outer.Path)
	case slices.Contains(s.o.Disabled, outer.ID):
		s.diagnose(protocol.LevelInfo, CodeNested, f.ID, f.Path,
			"%s does not run: it is inside the directory of %s (%s), which is disabled", f.ID, outer.ID, outer.Path)
	default:
		s.diagnose(protocol.LevelInfo, CodeNested, f.ID, f.Path,
			"%s does not run: it is below %s (%s); move it beside that, if it is an extension of its own", f.ID,
			outer.ID, outer.Path)
	}
}

// dropDuplicates keeps one extension per id: the one in the first search path that has the id. If that search path has
// several, none of them runs: the order of their folders is arbitrary, and the first extension would get the state
// directory and secrets of another.
func (s *selection) dropDuplicates() {
	first := make(map[string][]found, len(s.found)) // in the first search path that has the id
	for _, f := range s.found {
		if of := first[f.ID]; len(of) == 0 || of[0].RootIndex == f.RootIndex {
			first[f.ID] = append(of, f)
		}
	}
	s.dropIf(func(f found) bool {
		of := first[f.ID]
		switch {
		case f.RootIndex != of[0].RootIndex:
			s.diagnose(protocol.LevelWarn, CodeDuplicateID, f.ID, f.Path,
				"%s is the id of %s already, which comes first and is kept", f.ID, of[0].Path)
			return true
		case len(of) == 1 || slices.Contains(s.o.Disabled, f.ID):
			return false
		}
		s.conflict(f, of)
		return true
	})
}

// conflict reports that f shares its id with others in its search path.
func (s *selection) conflict(f found, all []found) {
	var others []string
	for _, other := range all {
		if other.Path != f.Path {
			others = append(others, filepath.Dir(other.Path))
		}
	}
	dir := filepath.Dir(f.Path)
	s.diagnose(protocol.LevelError, CodeDuplicateID, f.ID, f.Path, "%s is also the id in %s; none of them runs", f.ID,
		strings.Join(others, ", "))
	s.hint("give one another id, remove it, or choose: extensions.search_paths: [%s, %s]", dir,
		s.o.SearchPaths[f.RootIndex])
	s.result.Conflicting = append(s.result.Conflicting, f.Candidate)
}

// admit adds the candidates of a manifest.
func (s *selection) admit(list []Candidate) {
	for _, one := range list {
		s.see(one)
		if (one.Owner == "" || !s.disabled(one)) && !s.meets(one) && s.allowed(one) {
			s.result.Candidates = append(s.result.Candidates, one)
		}
	}
}

func (s *selection) see(c Candidate) {
	s.seen[c.ID] = true
	if c.Portable() {
		s.seen[c.stated()] = true
	}
}

// candidates returns what a manifest starts: itself, if it has a transport, hooks or a folder of skills, and each of
// its servers.
func (c Candidate) candidates() (list []Candidate) {
	m := c.Manifest
	servers := slices.Sorted(maps.Keys(m.MCPServers))
	for _, name := range servers {
		list = append(list, c.server(name))
	}
	if m.Portable {
		return c.portable(list)
	}
	if m.Transport.Kind != "" || len(m.Hooks) > 0 || hasSkills(c.Dir) {
		list = slices.Insert(list, 0, c)
	}
	return list
}

// portable adds a candidate for the hooks and the skills of a plugin, and for one that has nothing. A server with the
// name of the plugin has them too.
func (c Candidate) portable(servers []Candidate) []Candidate {
	m := *c.Manifest
	id := agentplugin.PluginID(c.ID)
	for i := range servers {
		if servers[i].ID == id {
			servers[i].Manifest.Hooks = m.Hooks
			return servers
		}
	}
	if len(m.Hooks) == 0 && len(servers) > 0 && !hasSkills(c.Dir) {
		return servers
	}
	own := c
	own.ID, own.Owner, own.OwnedBy, own.Manifest = id, c.ID, c.Manifest, &m
	m.Plugin.ID, m.MCPServers = id, nil
	return slices.Insert(servers, 0, own)
}

// hasSkills reports whether the folder of an extension has Agent Skills, valid or not, or too many to be read.
func hasSkills(dir string) bool {
	path := filepath.Join(dir, "skills")
	if info, err := os.Stat(path); err != nil || !info.IsDir() { // opening a FIFO would block
		return false
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close() // read only
	names, _ := f.Readdirnames(maxSkillFolders + 1)
	return len(names) > maxSkillFolders || slices.ContainsFunc(names, func(name string) bool {
		info, err := os.Stat(filepath.Join(path, name, "SKILL.md"))
		return err == nil && info.Mode().IsRegular()
	})
}

// maxSkillFolders bounds the folders in which hasSkills looks.
const maxSkillFolders = 1000

func (s *selection) allowed(c Candidate) bool {
	list := s.o.Allowlist
	if len(list) == 0 || slices.Contains(list, c.ID) || c.Owner != "" && slices.Contains(list, c.Owner) {
		return true
	}
	s.diagnose(protocol.LevelInfo, CodeNotAllowlisted, c.ID, c.Path, "%s is not in the allowlist", c.ID)
	return false
}

// server returns the candidate for one of owner's servers, with the owner's requirements and runtime options.
func (owner Candidate) server(name string) Candidate {
	m := owner.Manifest
	c := owner
	c.ID = manifest.ServerID(owner.ID, name)
	if m.Portable {
		c.ID = agentplugin.ServerID(owner.ID, name)
	}
	c.Owner, c.OwnedBy = owner.ID, m
	c.Manifest = &manifest.Manifest{
		Plugin: manifest.Plugin{
			ID:              c.ID,
			Version:         m.Plugin.Version,
			Name:            name,
			MinAgentVersion: m.Plugin.MinAgentVersion,
		},
		Transport: m.MCPServers[name].Transport(),
		Requires:  m.Requires,
		Context:   manifest.Context{Passthrough: m.Context.Passthrough || m.MCPServers[name].ContextPassthrough},
		Runtime:   m.Runtime,
		Sandbox:   m.Sandbox,
		Meta:      m.Meta,
	}
	if m.Portable { // mcp.json has no description of a server
		c.Manifest.Plugin.Description = m.Plugin.Description
	}
	c.Manifest.Transport.Literal = m.Portable
	c.Manifest.Transport.Secrets, c.Manifest.ToolTexts = m.Servers.Secrets[name], m.Servers.Tools[name]
	if asks := m.MCPServers[name].RequiresEnv; len(asks) > 0 {
		c.Manifest.Requires.Env = slices.Concat(m.Requires.Env, asks)
	}
	return c
}

// reportUnknown reports the ids of a list that no extension has. If mistyped is set, it reports only ids similar to a
// known one, as the others may be meant for another directory.
func (s *selection) reportUnknown(list string, ids []string, mistyped bool) {
	known := slices.Sorted(maps.Keys(s.seen))
	for _, id := range ids {
		if s.seen[id] { // skips the search for similar ids, which is slow
			continue
		}
		near := text.Nearest(id, known)
		if mistyped && near == "" {
			continue
		}
		s.diagnose(protocol.LevelWarn, CodeUnknownID, id, "", "%s names %q, and no extension found has that id", list,
			id)
		if near != "" {
			s.hint("did you mean %q?", near)
		}
	}
}
