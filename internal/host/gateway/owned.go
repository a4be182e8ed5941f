package gateway

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/listing/owners"
	"github.com/exthost/exthost/internal/listing/toolset"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/internal/wire/mcpext"
	"github.com/exthost/exthost/protocol"
)

// Methods of an extension of MCP, such as skills/list and skills/get, belong to the servers that declare the
// extension. The lists of these servers are merged. Other methods go to the only such server, or to the one that
// lists the item named in the params.

// skillListing lists skills. Their files are resources that resources/list may omit.
var skillListing = listing{method: protocol.MethodSkillsList, member: "skills"}

// isOwnedList reports whether method lists the items of an extension of MCP.
func isOwnedList(method string) bool {
	_, verb, _ := strings.Cut(method, "/")
	return verb == "list" && mcpext.MayOwn(method)
}

// listMethod returns the method that lists the items that requests of another method are about.
func listMethod(method string) string {
	if method == protocol.MethodDirectoryRead {
		return protocol.MethodSkillsList
	}
	name, _, _ := strings.Cut(method, "/")
	return name + "/list"
}

func notOwned(method string) error {
	name, _, _ := strings.Cut(method, "/")
	return protocol.Errorf(protocol.ToolNotFound,
		"method %q is not served here: no extension declares an MCP extension with methods %s/…", method, name)
}

// listOwned answers the list of an extension of MCP. If the client sees only one server, and all items of it, the
// pages of that server are passed on; else the lists of all servers are merged into one page.
func (g *Gateway) listOwned(ctx context.Context, c *protocol.Call, view *toolset.View) (json.RawMessage, error) {
	servers := g.o.Snapshots.Load().Declared.Owners(c.Method)
	reached := view.Servers(servers)
	name, _, _ := strings.Cut(c.Method, "/")
	switch {
	case len(reached) == 0:
		return nil, notOwned(c.Method)
	case len(reached) == 1 && !view.Hides(reached[0], c.Method):
		one := *c
		one.Extension = reached[0]
		result, err := g.Calls.DoPart(ctx, &one)
		if err == nil && len(servers) == 1 {
			g.owners.Learn(c.Method, reached[0], rawjson.Get(result, name))
		}
		return result, err
	}
	result, _ := g.list(ctx, c, listing{method: c.Method, member: name}, servers, view)
	return result, nil
}

// resolveOwned returns c with the extension that serves its method.
func (g *Gateway) resolveOwned(ctx context.Context, c *protocol.Call, view *toolset.View) (*protocol.Call, error) {
	servers := view.Servers(g.o.Snapshots.Load().Declared.Owners(c.Method))
	if len(servers) == 0 {
		g.Calls.AwaitListed(ctx,
			&protocol.Call{Session: c.Session, Method: listMethod(c.Method), Params: c.Params, Client: c.Client})
		if now, err := g.view(c.Session); err == nil {
			servers = now.Servers(g.o.Snapshots.Load().Declared.Owners(c.Method))
		}
	}
	out := *c
	switch len(servers) {
	case 0:
		return nil, notOwned(c.Method)
	case 1:
		out.Extension = servers[0]
		return &out, nil
	}
	key := owners.ItemKey(c.Params)
	if key == "" {
		return nil, protocol.Errorf(protocol.InvalidArguments,
			`%s: the params name no item by "uri", "name" or "id", and %s serve the method; `+
				"call it at /{id}/mcp of one",
			c.Method, strings.Join(servers, ", "))
	}
	if out.Extension = g.ownerOfItem(ctx, c, key, view); !slices.Contains(servers, out.Extension) {
		return nil, protocol.Errorf(protocol.InvalidArguments,
			"%s: none of %s lists %q; an item that is not listed is reached at /{id}/mcp of its extension", c.Method,
			strings.Join(servers, ", "), key)
	}
	return &out, nil
}

// ownerOfItem returns the extension that lists an item, "" if none. For an unknown item it lists everything
// again.
func (g *Gateway) ownerOfItem(ctx context.Context, c *protocol.Call, key string, view *toolset.View,
) (extension string) {
	if id, owned := g.o.Snapshots.Load().SkillOwner(key, view); owned {
		return id
	}
	l := listing{method: listMethod(c.Method)}
	l.member, _, _ = strings.Cut(l.method, "/")
	serves := func(id string) bool { return view.Check(id, c.Method, c.Params) == nil } // a hidden item has no owner
	if extension = g.owners.FindItem(l.method, key, view, serves); extension == "" && g.owners.MayList() {
		g.list(ctx, &protocol.Call{Session: c.Session}, l, listers(g.o.Snapshots.Load(), l), view)
		extension = g.owners.FindItem(l.method, key, view, serves)
	}
	return extension
}

// onlySkillServer returns the server of an unlisted file of a skill, if only one server has skills (SEP-2640: the URI
// alone is enough to load a skill).
func onlySkillServer(declared *mcpext.Merged, uri string, view *toolset.View) string {
	servers := view.Servers(declared.Owners(protocol.MethodSkillsList))
	if len(servers) != 1 || !strings.HasPrefix(uri, "skill://") || !view.Resource(servers[0], uri) {
		return ""
	}
	return servers[0]
}
