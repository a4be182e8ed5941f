package exthost

import (
	"github.com/exthost/exthost/internal/listing/toolindex"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/tools"
)

// Toolsets are the toolsets of a host's configuration, see [protocol.Session.Toolset]. The name
// "" stands for everything. The error about a toolset that there is not is tool_not_found, and
// names one that was probably meant.
type Toolsets struct{ h *Host }

// ToolsetsOf returns the toolsets of h.
func ToolsetsOf(h *Host) Toolsets { return Toolsets{h} }

// Tools returns the current tools of a toolset, under the names that its sessions call them by.
func (t Toolsets) Tools(name string) (*tools.Catalog, error) {
	now := t.h.snapshots.Load()
	view, err := now.Toolsets.Of(name)
	if err != nil {
		return nil, err
	}
	return view.Tools(now.Catalog), nil
}

// Offered returns the tools of a toolset that policies show to a caller, "" for an anonymous
// one, and those that they hide from it.
func (t Toolsets) Offered(name, caller string) (shown, hidden []*tools.Entry, err error) {
	return t.h.snapshots.Load().Offered(name, caller)
}

// ServesTo reports whether there is an extension or destination of that id that may run here,
// and of which sessions of a toolset see anything.
func (t Toolsets) ServesTo(toolset, id string) bool {
	now := t.h.snapshots.Load()
	view, err := now.Toolsets.Of(toolset)
	return err == nil && now.Target(id) != nil && view.Reaches(id)
}

// Listed returns the tools that are listed to a session of all extensions: those that it sees, or in
// mode search ext_find, ext_call and the favourites. Nil stands for a Go program, which sees all that
// an anonymous caller does. The tools are called by [Host.Do] with the session, or, without a toolset,
// by [Host.Call]. The error says that the session's toolset is not there.
func (t Toolsets) Listed(s *protocol.Session) ([]*tools.Entry, error) {
	return t.h.snapshots.Load().Listed(s)
}

// Found is what a search has for a query: the best tools, others of the best extensions, or,
// where nothing was found, the extensions that there are.
type Found = toolindex.Answer

// Find searches the tools of a toolset that policies show to a caller, "" for an anonymous one,
// for what a user asks for. Words count, and not what they mean.
func (t Toolsets) Find(name, caller, query string) (Found, error) {
	return t.h.snapshots.Load().Find(name, caller, query, nil)
}

// IsFavourite reports whether tools.favourites of the configuration keeps a tool listed where
// others are searched for.
func (t Toolsets) IsFavourite(e *tools.Entry) bool {
	return t.h.snapshots.Load().Config.Tools.IsFavourite(e)
}
