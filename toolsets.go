package exthost

import (
	"fmt"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/text"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/tools"
)

// Toolsets are the toolsets of a host's configuration, see [protocol.Session.Toolset]. "" is the toolset of
// everything. The error for an unknown toolset is tool_not_found, with the most similar name.
type Toolsets struct{ h *Host }

// Toolsets returns the toolsets of the configuration in force.
func (h *Host) Toolsets() Toolsets { return Toolsets{h} }

// Tools returns the current tools of a toolset, under the names by which its sessions call them.
func (t Toolsets) Tools(name string) (*tools.Catalog, error) {
	now := t.h.snapshots.Load()
	view, err := now.Toolsets.Of(name)
	if err != nil {
		return nil, err
	}
	return view.Tools(now.Catalog), nil
}

// Tool returns the tool that sessions of a toolset call by a name; for "" that is the registered one. The error is
// tool_not_found, with the most similar name.
func (t Toolsets) Tool(toolset, name string) (*tools.Entry, error) {
	catalog, err := t.Tools(toolset)
	if err != nil {
		return nil, err
	}
	if e, ok := catalog.Lookup(name); ok {
		return e, nil
	}
	names := make([]string, len(catalog.Entries()))
	for i, e := range catalog.Entries() {
		names[i] = e.Name
	}
	what := fmt.Sprintf("there is no tool %q", name)
	if toolset != "" {
		what = fmt.Sprintf("toolset %s shows no tool %q", toolset, name)
	}
	if near := text.Nearest(name, names); near != "" {
		what += fmt.Sprintf(", did you mean %q?", near)
	}
	return nil, protocol.Errorf(protocol.ToolNotFound, "%s", what)
}

// Preview returns the tools of a toolset now, and those that it would have with these patterns and shapes; no include
// is everything, and the shapes of other tools stay. wrong says which patterns match nothing or cannot be used, which
// tools cannot be shown, and that the toolset would show nothing. An unknown toolset has no tools now.
func (t Toolsets) Preview(name string, include, exclude []string, shapes map[string]config.ShownTool,
) (now, then []*tools.Entry, wrong []config.Misfit) {
	s := t.h.snapshots.Load()
	if view, err := s.Toolsets.Of(name); err == nil && name != "" {
		now = view.Tools(s.Catalog).Entries()
	}
	d := s.Config.Toolsets[name].WithTools(shapes)
	d.Include, d.Exclude = append([]string(nil), include...), exclude // an empty include is refused, nil is everything
	then, wrong = s.PreviewToolset(d)
	return now, then, wrong
}

// Offered returns the tools of a toolset that policies show to a caller, and those that policies hide from that
// caller. "" is an anonymous caller.
func (t Toolsets) Offered(name, caller string) (shown, hidden []*tools.Entry, err error) {
	return t.h.snapshots.Load().Offered(name, caller)
}

// ServesTo reports whether an extension or destination exists, may run here and has something that sessions of
// the toolset see.
func (t Toolsets) ServesTo(toolset, id string) bool {
	now := t.h.snapshots.Load()
	view, err := now.Toolsets.Of(toolset)
	return err == nil && now.Target(id) != nil && view.Reaches(id)
}

// Listed returns the tools listed to a session of all extensions: those that the session sees or, in mode search,
// ext_find, the tools that call others, and the favourites. A nil s stands for a Go program, which sees what an
// anonymous caller sees. Call the tools with [Host.Do] and s or, if s has no toolset, with [Host.Call]. The error is
// that of an unknown toolset.
func (t Toolsets) Listed(s *protocol.Session) ([]*tools.Entry, error) {
	return t.h.snapshots.Load().Listed(s)
}

// Find searches the tools of a toolset that policies show to a caller, "" for an anonymous one. It matches words,
// not meaning.
func (t Toolsets) Find(name, caller, query string) (tools.Found, error) {
	return t.h.snapshots.Load().Find(name, caller, query, nil)
}

// IsFavourite reports whether tools.favourites keeps a tool listed in mode search.
func (t Toolsets) IsFavourite(e *tools.Entry) bool {
	return t.h.snapshots.Load().Config.Tools.IsFavourite(e)
}
