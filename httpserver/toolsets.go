package httpserver

import (
	"fmt"
	"net/http"

	"github.com/exthost/exthost/mcpserver"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/tools"
)

// Toolsets are the toolsets of a backend.
type Toolsets interface {
	// Tools returns the tools of a toolset, or an error if there is no such toolset.
	Tools(name string) (*tools.Catalog, error)
	// ServesTo reports whether clients of a toolset see any part of an extension.
	ServesTo(toolset, id string) bool
}

// toolsetRule assigns toolsets to clients.
type toolsetRule struct {
	byDefault string   // toolset of clients without their own; "" lets them choose
	all       Toolsets // nil if there are none
}

// servesExtension reports whether /{id}/mcp exists for the client of r.
func (t *toolsetRule) servesExtension(r *http.Request, id string) bool {
	own := mcpserver.ToolsetOf(r.Context())
	return own == "" || t.all == nil || t.all.ServesTo(own, id)
}

// unrestrictedOnly refuses clients with a toolset, for handlers that reveal everything about a host.
func (t *toolsetRule) unrestrictedOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if mcpserver.ToolsetOf(r.Context()) != "" {
			http.Error(w, "this client has a toolset, and what is here names extensions and tools that it may hide: "+
				"show the operator's token", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// withDefault returns r with the default toolset, unless middleware has already set a toolset. free means that the
// client needs none: r is then returned as it is.
func (t *toolsetRule) withDefault(r *http.Request, free bool) *http.Request {
	if t.byDefault == "" || free || mcpserver.ToolsetOf(r.Context()) != "" {
		return r
	}
	return r.WithContext(mcpserver.WithToolset(r.Context(), t.byDefault))
}

// withChosen returns r with the toolset name, which is in the URL of r. If it cannot, it answers r and returns nil: 403
// if the client has another toolset, whether or not the named one exists; 404 if the named one does not exist.
func (t *toolsetRule) withChosen(w http.ResponseWriter, r *http.Request, name string) *http.Request {
	switch own := mcpserver.ToolsetOf(r.Context()); {
	case own == name:
		return r
	case own != "":
		http.Error(w, fmt.Sprintf("this client has a toolset of its own, %s, and reaches no other: use /mcp, or "+
			"/t/%s/mcp", own, own), http.StatusForbidden)
		return nil
	case t.all == nil:
		http.NotFound(w, r)
		return nil
	}
	if _, err := t.all.Tools(name); err != nil {
		http.Error(w, protocol.Reason(err), http.StatusNotFound)
		return nil
	}
	return r.WithContext(mcpserver.WithToolset(r.Context(), name))
}
