package gateway

import (
	"context"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/host/snapshot"
	"github.com/exthost/exthost/internal/listing/owners"
	"github.com/exthost/exthost/internal/listing/toolset"
	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/tools"
)

// PageServer implements [dispatch.Aggregator].
func (g *Gateway) PageServer(ctx context.Context, s *protocol.Session, uri string) (extension string, err error) {
	view, err := g.view(s)
	if err != nil {
		return "", err
	}
	if extension, _, err = g.findOwner(ctx, s, "resource", uri, view); err == nil && extension == "" {
		err = protocol.Errorf(protocol.InvalidArguments, "no extension has the page %q that the call says it is from",
			display.Cut(display.Visible(uri), 200))
	}
	return extension, err
}

// pageServer returns the extension with a page of an MCP App: one whose tools name the page, as servers need not list
// pages (SEP-1865, "Resource Discovery"). Of several such extensions it is lister, the one that lists the page, else
// the first. If no tool names the page, it is lister.
func pageServer(now *snapshot.Snapshot, uri string, view *toolset.View, lister string) string {
	first := ""
	for x := range now.Ordered {
		id := x.ID()
		if !view.Resource(id, uri) || !namesPage(view.Tools(now.Catalog), id, uri) {
			continue
		}
		if id == lister {
			return lister
		}
		if first == "" {
			first = id
		}
	}
	if first == "" {
		return lister
	}
	return first
}

func namesPage(catalog *tools.Catalog, extension, uri string) bool {
	return slices.ContainsFunc(catalog.Extension(extension), func(e *tools.Entry) bool { return e.Page() == uri })
}

// findPage is findOwner for a page of an MCP App. It waits for extensions whose tools are not known yet.
func (g *Gateway) findPage(ctx context.Context, s *protocol.Session, uri string, view *toolset.View) string {
	now := g.o.Snapshots.Load()
	lister, _ := g.owners.Find("resource", uri, view)
	if now.Extensions[lister] == nil {
		lister = ""
	}
	if id := pageServer(now, uri, view, lister); id != "" {
		return id
	}
	g.Calls.AwaitListed(ctx, &protocol.Call{Session: s, Method: protocol.MethodToolsList})
	now = g.o.Snapshots.Load()
	if view, err := now.View(s); err == nil {
		return pageServer(now, uri, view, "")
	}
	return ""
}

// sharedPages finds pages that the tools of several extensions name. Clients of all extensions get the page of the
// first.
func sharedPages(now *snapshot.Snapshot) (list []owners.Shadow) {
	first, at := make(map[string]string), make(map[[2]string]int)
	for x := range now.Ordered {
		id, own := x.ID(), make(map[string]bool)
		for _, e := range now.Catalog.Extension(id) {
			uri := e.Page()
			if uri == "" || own[uri] {
				continue
			}
			own[uri] = true
			by, named := first[uri]
			if !named {
				first[uri] = id
				continue
			}
			pair := [2]string{id, by}
			if _, known := at[pair]; !known {
				at[pair] = len(list)
				s := owners.Shadow{Method: protocol.MethodToolsList, Extension: id, By: by, Example: uri}
				list = append(list, s)
			}
			list[at[pair]].Count++
		}
	}
	return list
}

func isPage(kind, uri string) bool {
	return kind == "resource" && strings.HasPrefix(uri, tools.PageScheme)
}
