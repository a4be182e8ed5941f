package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"github.com/exthost/exthost/internal/host/tasks"
	"github.com/exthost/exthost/internal/listing/toolset"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/internal/wire/mcpext"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
)

// Lists reports whether an extension with this handshake has items for the list that method requests.
func Lists(method string, hs *runtime.Handshake) bool {
	if l, ok := listingOf(method); ok {
		return hasCapability(hs, l.capability)
	}
	declared, _ := mcpext.Read(hs.Capabilities)
	return len(mcpext.Merge([]mcpext.Source{{List: declared}}).Owners(method)) > 0
}

// Aggregates implements [dispatch.Aggregator].
func (g *Gateway) Aggregates(method string) bool {
	_, ok := listingOf(method)
	return ok || method == protocol.MethodSetLevel || isOwnedList(method)
}

// Aggregate implements [dispatch.Aggregator].
func (g *Gateway) Aggregate(ctx context.Context, c *protocol.Call) (json.RawMessage, error) {
	view, err := g.view(c.Session)
	if err != nil {
		return nil, err
	}
	if l, ok := listingOf(c.Method); ok {
		list, _ := g.list(ctx, c, l, listers(g.o.Snapshots.Load(), l), view)
		return list, nil
	}
	if isOwnedList(c.Method) {
		return g.listOwned(ctx, c, view)
	}
	return g.setLogLevels(ctx, c, view)
}

// ToolOf implements [dispatch.Aggregator].
func (g *Gateway) ToolOf(c *protocol.Call) string { return g.Tasks.ToolOf(c) }

// setLogLevels sends logging/setLevel to every extension that logs.
func (g *Gateway) setLogLevels(ctx context.Context, c *protocol.Call, view *toolset.View) (json.RawMessage, error) {
	if _, err := askedLevel(c.Params); err != nil {
		return nil, err
	}
	for x := range g.o.Snapshots.Load().Ordered {
		if !hasCapability(x.Handshake(), "logging") || !view.Reaches(x.ID()) {
			continue
		}
		one := *c
		one.Extension, one.Client = x.ID(), nil
		if _, err := g.Calls.DoPart(ctx, &one); err != nil {
			g.o.Log.Debug("an extension was not told the log level", "extension", x.ID(), "error", err)
		}
	}
	return json.RawMessage("{}"), nil
}

// subject returns the kind of the item that a request is about, and the path of the item's name in params. kind is ""
// if the request is about no item.
func subject(method string, params json.RawMessage) (kind string, path []string) {
	switch method {
	case protocol.MethodResourcesRead, protocol.MethodResourcesSubscribe, protocol.MethodResourcesUnsubscribe:
		return "resource", []string{"uri"}
	case protocol.MethodPromptsGet:
		return "prompt", []string{"name"}
	case protocol.MethodComplete:
		if kind, _ := rawjson.Text(rawjson.Get(rawjson.Get(params, "ref"), "type")); kind == "ref/prompt" {
			return "prompt", []string{"ref", "name"}
		}
		return "resource", []string{"ref", "uri"}
	}
	return "", nil
}

// Resolve implements [dispatch.Aggregator].
func (g *Gateway) Resolve(ctx context.Context, c *protocol.Call) (*protocol.Call, error) {
	if c.Begun {
		if err := g.Tasks.Begun(c); err != nil {
			return nil, err
		}
	}
	if c.Extension != "" {
		return g.Tasks.AtNode(c), nil
	}
	view, err := g.view(c.Session)
	if err != nil {
		return nil, err
	}
	switch id, err := tasks.ID(c.Method, c.Params); {
	case err != nil:
		return nil, err
	case id != "":
		return g.Tasks.Resolve(c, id, view)
	}
	kind, path := subject(c.Method, c.Params)
	switch {
	case mcpext.MayOwn(c.Method) && !isOwnedList(c.Method):
		return g.resolveOwned(ctx, c, view)
	case kind == "":
		return c, nil
	}
	holder := c.Params
	for _, key := range path[:len(path)-1] {
		holder = rawjson.Get(holder, key)
	}
	last := path[len(path)-1]
	name, _ := rawjson.Text(rawjson.Get(holder, last))
	id, own, err := g.findOwner(ctx, c.Session, kind, name, view)
	if err != nil {
		return nil, err
	}
	if id == "" {
		return nil, protocol.Errorf(protocol.InvalidArguments,
			"no extension lists a %s %q; one that is not listed is reached at /{id}/mcp of its extension", kind, name)
	}
	out := *c
	out.Extension = id
	if own != name {
		holder = rawjson.Set(holder, last, rawjson.Quote(own))
		for _, key := range path[:len(path)-1] {
			holder = rawjson.Set(c.Params, key, holder)
		}
		out.Params = holder
	}
	return &out, nil
}

// ownerByURI returns the extension that a URI alone tells, whatever others list: that of a page, and that in whose
// folder a skill lies. The extension is "" if view hides the skill.
func (g *Gateway) ownerByURI(ctx context.Context, s *protocol.Session, kind, uri string, view *toolset.View,
) (extension string, owned bool) {
	if isPage(kind, uri) {
		extension = g.findPage(ctx, s, uri, view)
		return extension, extension != ""
	}
	if kind != "resource" {
		return "", false
	}
	return g.o.Snapshots.Load().SkillOwner(uri, view)
}

// findOwner returns the extension that lists an item, and the item's name there. For an unknown name it lists
// everything again. Items that view hides are not found. The error is a policy's denial of a list that may contain
// the name.
func (g *Gateway) findOwner(ctx context.Context, s *protocol.Session, kind, name string, view *toolset.View,
) (extension, own string, err error) {
	if view != nil && kind == "prompt" {
		native, ok := view.Native(name)
		if !ok {
			return "", "", nil
		}
		name = native
	}
	if id, owned := g.ownerByURI(ctx, s, kind, name, view); owned {
		return id, name, nil
	}
	extension, own = g.owners.Find(kind, name, view)
	if g.o.Snapshots.Load().Extensions[extension] != nil {
		return extension, own, nil
	}
	caller := ""
	if s != nil {
		caller = s.Caller
	}
	if g.owners.MayList() {
		var refused error
		for _, l := range append(slices.Clone(listings), skillListing) {
			_, err := g.list(ctx, &protocol.Call{Session: s}, l, listers(g.o.Snapshots.Load(), l), view)
			refused = cmp.Or(refused, err)
		}
		g.owners.SetRefusal(caller, refused)
	}
	if extension, own = g.owners.Find(kind, name, view); extension == "" {
		if extension = onlySkillServer(g.o.Snapshots.Load().Declared, name, view); kind == "resource" &&
			extension != "" {
			return extension, name, nil
		}
		if view != nil { // the denied list may be one that the toolset hides
			return "", "", nil
		}
		err = g.owners.Refusal(caller)
	}
	return extension, own, err
}
