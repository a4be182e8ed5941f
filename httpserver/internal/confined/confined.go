// Package confined gives clients over HTTP their toolsets, and keeps them from others.
package confined

import (
	"fmt"
	"net/http"

	"github.com/exthost/exthost/mcpserver"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/tools"
)

// Toolsets are the toolsets of a backend.
type Toolsets interface {
	// Tools returns the tools of a toolset, or why there is none of that name.
	Tools(name string) (*tools.Catalog, error)
	// ServesTo reports whether clients of a toolset see anything of an extension.
	ServesTo(toolset, id string) bool
}

// Rule says which toolsets clients have.
type Rule struct {
	Default string   // of clients that have none of their own; "" lets them choose
	All     Toolsets // nil: there are none
}

// Serves reports whether /{id}/mcp is there for the client of r.
func (u *Rule) Serves(r *http.Request, id string) bool {
	own := mcpserver.ToolsetOf(r.Context())
	return own == "" || u.All == nil || u.All.ServesTo(own, id)
}

// Whole keeps from clients with a toolset what names everything of a host.
func (u *Rule) Whole(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if mcpserver.ToolsetOf(r.Context()) != "" {
			http.Error(w, "this client has a toolset, and what is here names extensions and tools that it may hide: "+
				"show the operator's token", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Own returns r with the toolset of its client: that of the default, unless middleware before
// has given it one. free says that the client needs none.
func (u *Rule) Own(r *http.Request, free bool) *http.Request {
	if u.Default == "" || free || mcpserver.ToolsetOf(r.Context()) != "" {
		return r
	}
	return r.WithContext(mcpserver.WithToolset(r.Context(), u.Default))
}

// Chosen returns r with the toolset that its URL names. A client that has one reaches no
// other, be there one or not: it is answered 403, others 404 where there is none. Then Chosen
// returns nil.
func (u *Rule) Chosen(w http.ResponseWriter, r *http.Request, name string) *http.Request {
	switch own := mcpserver.ToolsetOf(r.Context()); {
	case own == name:
		return r
	case own != "":
		http.Error(w, fmt.Sprintf("this client has a toolset of its own, %s, and reaches no other: use /mcp, or "+
			"/t/%s/mcp", own, own), http.StatusForbidden)
		return nil
	case u.All == nil:
		http.NotFound(w, r)
		return nil
	}
	if _, err := u.All.Tools(name); err != nil {
		http.Error(w, protocol.Reason(err), http.StatusNotFound)
		return nil
	}
	return r.WithContext(mcpserver.WithToolset(r.Context(), name))
}
