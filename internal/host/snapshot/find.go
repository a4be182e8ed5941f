package snapshot

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"sync"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/listing/toolsearch"
	"github.com/exthost/exthost/internal/listing/toolset"
	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/tools"
)

// maxInstructions bounds the part of a server's instructions that the search index uses, in bytes.
const maxInstructions = 1 << 10

// SetIndexes sets the search indexes of s, after its catalog and toolsets. before is the previous snapshot, nil
// for the first.
func (s *Snapshot) SetIndexes(before *Snapshot) {
	var last *toolsearch.Indexes
	if before != nil {
		last = before.Indexes
	}
	has := func(toolset string) bool {
		_, err := s.Toolsets.Of(toolset)
		return err == nil
	}
	s.Indexes = toolsearch.NewIndexes(s.describe, has, last)
	s.skillIndex = sync.OnceValue(func() toolsearch.Skills {
		var list []tools.FoundSkill
		for x := range s.Local {
			for _, e := range s.Skills[x.ID()].Entries() {
				list = append(list, tools.FoundSkill{
					Extension:   x.ID(),
					Name:        e.Name,
					Description: e.Description,
					URI:         e.URI,
				})
			}
		}
		return toolsearch.NewSkills(list)
	})
}

// describe returns the description of an extension: from its manifest, else the instructions of the MCP server.
func (s *Snapshot) describe(id string) string {
	x := s.Extensions[id]
	if x == nil {
		return ""
	}
	said := ""
	if hs := x.Handshake(); hs != nil {
		said = display.Prefix(hs.Instructions, maxInstructions)
	}
	return cmp.Or(x.Candidate.Manifest.Plugin.Description, said)
}

// Offered returns the tools of a toolset that policies show to a caller, and those that policies hide.
func (s *Snapshot) Offered(toolset, caller string) (shown, hidden []*tools.Entry, err error) {
	view, err := s.Toolsets.Of(toolset)
	if err != nil {
		return nil, nil, err
	}
	for _, e := range view.Tools(s.Catalog).Entries() {
		if s.Policies.Shows(caller, e) {
			shown = append(shown, e)
		} else {
			hidden = append(hidden, e)
		}
	}
	return shown, hidden, nil
}

// ListsOtherwise reports whether next may list different tools of the same extensions, because its toolsets or list
// modes differ.
func (p *Plan) ListsOtherwise(next *Plan) bool {
	modes := func(p *Plan) map[string]string {
		of := make(map[string]string)
		for name, client := range p.Config.Server.Clients {
			of[name] = client.Mode
		}
		return of
	}
	risks := func(p *Plan) map[string]map[string]config.ToolEntry {
		of := make(map[string]map[string]config.ToolEntry)
		for id, entry := range p.Config.Extensions.Entries {
			if len(entry.Tools) > 0 {
				of[id] = entry.Tools
			}
		}
		return of
	}
	return !reflect.DeepEqual(p.Config.Toolsets, next.Config.Toolsets) || !reflect.DeepEqual(risks(p), risks(next)) ||
		!reflect.DeepEqual(p.Config.Tools, next.Config.Tools) || !maps.Equal(modes(p), modes(next))
}

// Find searches the tools of a toolset, "" for all tools, that policies show to a caller. also, unless nil,
// restricts them further.
func (s *Snapshot) Find(toolset, caller, query string, also func(*tools.Entry) bool) (tools.Found, error) {
	view, err := s.Toolsets.Of(toolset)
	if err != nil {
		return tools.Found{}, err
	}
	found := s.Indexes.Of(toolset, view.Tools(s.Catalog)).Find(query, s.visible(caller, also))
	if len(s.Skills) > 0 {
		found.Skills = s.skillIndex().Find(query, func(k *tools.FoundSkill) bool {
			return view.Resource(k.Extension, k.URI) && s.Policies.HoldsSkill(k.Extension, k.URI) == nil
		})
	}
	return found, nil
}

// FindFor searches the tools that a session would be listed in mode all.
func (s *Snapshot) FindFor(of *protocol.Session, query string) (tools.Found, error) {
	if of == nil {
		of = new(protocol.Session)
	}
	return s.Find(of.Toolset, of.Caller, query, forModels(of))
}

// visible returns a function that reports whether a caller sees a tool, restricted by also. It returns also
// itself if policies hide nothing.
func (s *Snapshot) visible(caller string, also func(*tools.Entry) bool) func(*tools.Entry) bool {
	if !s.Policies.Pipeline.MayHide() {
		return also
	}
	return func(e *tools.Entry) bool { return (also == nil || also(e)) && s.Policies.Shows(caller, e) }
}

// ShowsPages reports whether tools that only pages of MCP Apps call are listed to s: not if its client declares
// no support for pages. Shared servers offer these tools to all callers.
func ShowsPages(s *protocol.Session) bool {
	return s == nil || s.Version == "" ||
		rawjson.Get(rawjson.Get(s.Capabilities, "extensions"), protocol.ExtensionUI) != nil
}

// forModels returns a function that is false for tools that only pages call; nil if s shows pages.
func forModels(s *protocol.Session) func(*tools.Entry) bool {
	if ShowsPages(s) {
		return nil
	}
	return func(e *tools.Entry) bool { return !e.AppsOnly() }
}

// SearchList returns the list of a session in mode search; searches is false for other sessions. A session that
// may not see the search tools is listed all its tools.
func (s *Snapshot) SearchList(of *protocol.Session) (list []*tools.Entry, searches bool) {
	if of == nil || of.Extension != "" {
		return nil, false
	}
	listing := &s.Config.Tools
	mode := cmp.Or(of.ToolMode, s.Config.Server.Clients[of.Caller].Mode, listing.Mode)
	if mode == toolsearch.ModeAll {
		return nil, false
	}
	view, err := s.View(of)
	if err != nil {
		return nil, false
	}
	visible := s.visible(of.Caller, forModels(of))
	search, ok := listing.Search(func(e *tools.Entry) bool {
		return view.Searches(e) && (visible == nil || visible(e))
	})
	if !ok {
		return nil, false
	}
	entries := shownOf(view.Tools(s.Catalog), visible)
	if !listing.Searches(mode, of.ClientInfo, entries) {
		return nil, false
	}
	return listing.List(search, entries), true
}

// Listed returns the list of a session: all tools that it sees, or the search list.
func (s *Snapshot) Listed(of *protocol.Session) ([]*tools.Entry, error) {
	if of == nil {
		of = new(protocol.Session)
	}
	if list, searches := s.SearchList(of); searches {
		return list, nil
	}
	view, err := s.View(of)
	if err != nil {
		return nil, err
	}
	return shownOf(view.Tools(s.Catalog), s.visible(of.Caller, forModels(of))), nil
}

// shownOf returns the tools of a catalog for which visible is true, all if visible is nil.
func shownOf(catalog *tools.Catalog, visible func(*tools.Entry) bool) []*tools.Entry {
	if visible == nil {
		return catalog.Entries()
	}
	return slices.DeleteFunc(slices.Clone(catalog.Entries()), func(e *tools.Entry) bool { return !visible(e) })
}

// SetToolsets sets the toolset views of s, after its catalog, and reports patterns and names that match nothing
// known. before is the previous snapshot, nil for the first.
func (s *Snapshot) SetToolsets(before *Snapshot) []protocol.Diagnostic {
	defined := s.Config.Toolsets
	if len(defined) == 0 {
		s.Toolsets = toolset.NewViews(nil, nil, nil, nil)
		return nil
	}
	all := s.selectable()
	var last *toolset.Views
	if before != nil {
		last = before.Toolsets
	}
	s.Toolsets = toolset.NewViews(defined, s.Catalog, all, last)
	return s.Toolsets.Unmatched(defined, s.Catalog, all)
}

// PreviewToolset is [toolset.Preview] with the tools of s.
func (s *Snapshot) PreviewToolset(d toolset.Definition) ([]*tools.Entry, []toolset.Misfit) {
	return toolset.Preview(d, s.Catalog, s.selectable())
}

// selectable returns the extensions and destinations that patterns of a toolset may select.
func (s *Snapshot) selectable() (all []toolset.Extension) {
	for x := range s.Ordered {
		hs := x.Handshake()
		more := hs == nil && !x.TellsTools()
		if x.Candidate.Manifest.Transport.Protocol == manifest.ProtocolMCP {
			more = hs == nil
			for _, capability := range []string{"prompts", "resources", "extensions"} {
				more = more || rawjson.Get(hs.Capabilities, capability) != nil
			}
		}
		one := toolset.Extension{ID: x.ID(), Opaque: more}
		for _, e := range s.Skills[x.ID()].Entries() {
			one.Skills, one.Opaque = append(one.Skills, e.Name), true
		}
		if hs != nil {
			declared := rawjson.Get(hs.Capabilities, "extensions")
			one.OtherSkills = rawjson.Get(declared, protocol.ExtensionSkills) != nil
		}
		all = append(all, one)
	}
	for d := range s.orderedDestinations {
		all = append(all, toolset.Extension{ID: d.ID(), Opaque: true, OtherSkills: true})
	}
	for _, id := range s.absent().Extensions {
		if s.Target(id) == nil {
			all = append(all, toolset.Extension{ID: id, Absent: true})
		}
	}
	return all
}
