package discovery

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/exthost/exthost/protocol"
)

// claim records which manifests, and which of their candidates, have an id. Without a plugin.json no two servers have
// one id.
func (s *selection) claim() {
	if !slices.ContainsFunc(s.found, func(f found) bool { return f.Manifest.Portable }) {
		return
	}
	s.claims = map[string][]Candidate{}
	for _, f := range s.found {
		s.claims[f.ID] = append(s.claims[f.ID], f.Candidate)
		for _, c := range f.list {
			if c.Owner != "" && !s.isDisabled(c) {
				s.claims[c.ID] = append(s.claims[c.ID], c)
			}
		}
	}
}

// stated returns the id of a server with its name as the file states it. With it extensions.disabled selects one of the
// servers of a plugin that have one id.
func (c Candidate) stated() string { return c.Owner + "." + c.Manifest.Plugin.Name }

// isDisabled reports whether the operator disabled a candidate. Unlike [selection.disabled] it adds no diagnostic.
func (s *selection) isDisabled(c Candidate) bool { return slices.ContainsFunc(s.o.Disabled, c.is) }

// is reports whether an entry of extensions.disabled means c.
func (c Candidate) is(entry string) bool {
	if !c.Portable() {
		return entry == c.ID
	}
	if entry != c.ID || entry == c.stated() {
		return entry == c.stated()
	}
	name, _ := strings.CutPrefix(entry, c.Owner+".")
	_, another := c.OwnedBy.MCPServers[name]
	return !another
}

// meets reports whether another candidate has the id of c, and does not come later. Within a search path neither runs,
// as with the ids of manifests: the order of folders and of servers is arbitrary, and the first would get the state
// directory and secrets of the other.
func (s *selection) meets(c Candidate) bool {
	if s.claims == nil {
		return false
	}
	of := slices.Clone(s.claims[c.ID])
	if c.Owner != "" && c.Owner != c.ID {
		of = append(of, s.claims[c.Owner]...)
	}
	var others, choice []string
	for _, other := range of {
		switch same := other.Path == c.Path; {
		case same && (other.Owner == "" || other.ID != c.ID || other.stated() == c.stated()):
		case same:
			name := strconv.Quote(other.stated())
			others, choice = append(others, name), append(choice, name)
		case other.RootIndex < c.RootIndex:
			s.diagnose(protocol.LevelWarn, CodeDuplicateID, c.ID, c.Path,
				"%s is an id of %s already, which comes first and is kept", c.ID, other.Path)
			return true
		case other.RootIndex == c.RootIndex:
			others = append(others, other.Path)
		}
	}
	if others == nil {
		return false
	}
	s.diagnose(protocol.LevelError, CodeDuplicateID, c.ID, c.Path, "%s is also the id of %s; none of them runs", c.ID,
		strings.Join(others, ", "))
	if choice != nil {
		s.hint("choose %q: extensions.disabled: [%s]", c.stated(), strings.Join(choice, ", "))
	} else {
		s.hint("remove one, or choose: extensions.search_paths: [%s, %s]", filepath.Dir(c.Path),
			s.o.SearchPaths[c.RootIndex])
	}
	s.result.Conflicting = append(s.result.Conflicting, c)
	return true
}
