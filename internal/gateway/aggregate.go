package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	goruntime "runtime"
	"slices"
	"sync"
	"time"

	"github.com/exthost/exthost/internal/rawjson"
	"github.com/exthost/exthost/internal/unit"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
)

// A client of all extensions gets one list of each kind. Prompts are named as tools are.
// Resources keep their URIs, by which results, links and clients refer to them: of two
// extensions that list the same URI the first has it. A request that names a resource or a
// prompt goes to its owner alone.

// listing is one kind of thing that servers list.
type listing struct{ method, capability, member, key string }

var listings = []listing{
	{protocol.MethodResourcesList, "resources", "resources", "uri"},
	{protocol.MethodResourceTemplates, "resources", "resourceTemplates", "uriTemplate"},
	{protocol.MethodPromptsList, "prompts", "prompts", "name"},
}

const (
	listTimeout = 5 * time.Second // for one extension to list everything; one that takes longer is left out
	maxListed   = 4096            // things of one kind that one extension lists
	maxPages    = 64              // answers that these may take
)

// listsAtOnce bounds how many extensions list in parallel.
var listsAtOnce = 16 * goruntime.GOMAXPROCS(0)

func listingOf(method string) (listing, bool) {
	n := slices.IndexFunc(listings, func(l listing) bool { return l.method == method })
	if n < 0 {
		return listing{}, false
	}
	return listings[n], true
}

// Lists reports whether an extension with that handshake has items for the list that method
// asks for.
func Lists(method string, hs *runtime.Handshake) bool {
	l, ok := listingOf(method)
	return ok && offers(hs, l.capability)
}

// Aggregates implements [dispatch.Aggregator].
func (g *Gateway) Aggregates(method string) bool {
	_, ok := listingOf(method)
	return ok || method == protocol.MethodSetLevel
}

// Aggregate implements [dispatch.Aggregator].
func (g *Gateway) Aggregate(ctx context.Context, c *protocol.Call) (json.RawMessage, error) {
	if l, ok := listingOf(c.Method); ok {
		list, _ := g.list(ctx, c, l)
		return list, nil
	}
	return g.setLogLevels(ctx, c)
}

// ToolOf implements [dispatch.Aggregator].
func (g *Gateway) ToolOf(c *protocol.Call) string { return g.Tasks.toolOf(c) }

// list answers a list of one kind for all extensions, in one page. refused is a denial of
// the list of an extension, nil when there was none.
func (g *Gateway) list(ctx context.Context, c *protocol.Call, l listing) (list json.RawMessage, refused error) {
	extensions := slices.Collect(g.o.Snapshots.Load().Ordered)
	order, each, errs := make([]string, len(extensions)), make([][]json.RawMessage, len(extensions)), make([]error, len(extensions))
	var wg sync.WaitGroup
	slots := make(chan struct{}, listsAtOnce)
	for n, x := range extensions {
		if order[n] = x.ID(); !offers(x.Handshake(), l.capability) {
			continue
		}
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			each[n], errs[n] = g.listOne(ctx, c, x, l)
		})
	}
	wg.Wait()
	var kept []string
	for n, err := range errs {
		if kind := protocol.KindOf(err); kind == protocol.Rejected || kind == protocol.GovernanceUnavailable {
			kept, refused = append(kept, order[n]), cmp.Or(refused, err)
		}
	}
	items := g.owners.update(l, order, each, kept)
	return append(rawjson.AppendList([]byte(`{"`+l.member+`":`), items), '}'), refused
}

// listOne lists the things of one extension by the path of all calls. A failure costs the
// other extensions nothing.
func (g *Gateway) listOne(ctx context.Context, c *protocol.Call, x *unit.Extension, l listing) (items []json.RawMessage, err error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	params := rawjson.Delete(c.Params, "cursor")
	for range maxPages {
		result, err := g.Calls.DoPart(ctx, &protocol.Call{Session: c.Session, Extension: x.ID(), Method: l.method, Params: params})
		if err != nil {
			g.o.Log.Warn("an extension was left out of a list", "extension", x.ID(), "method", l.method, "error", err)
			return items, err
		}
		var page []json.RawMessage
		if json.Unmarshal(rawjson.Get(result, l.member), &page) != nil {
			return items, nil
		}
		if items = append(items, page...); len(items) > maxListed {
			g.o.Log.Warn("an extension lists more than is shown", "extension", x.ID(), "method", l.method, "limit", maxListed)
			return items[:maxListed], nil
		}
		cursor := rawjson.Get(result, "nextCursor")
		if cursor == nil || string(cursor) == "null" {
			return items, nil
		}
		params = rawjson.Set(params, "cursor", cursor)
	}
	return items, nil
}

// setLogLevels carries logging/setLevel of a client of all extensions to every extension
// that logs.
func (g *Gateway) setLogLevels(ctx context.Context, c *protocol.Call) (json.RawMessage, error) {
	for x := range g.o.Snapshots.Load().Ordered {
		if !offers(x.Handshake(), "logging") {
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

// subject returns the kind of thing that a request is about, and the path of its name in
// the params; "" when the request is about none.
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
	if c.Extension != "" {
		return c, nil
	}
	switch id, err := taskID(c.Method, c.Params); {
	case err != nil:
		return nil, err
	case id != "":
		return g.Tasks.resolve(c, id)
	}
	kind, path := subject(c.Method, c.Params)
	if kind == "" {
		return c, nil
	}
	holder := c.Params
	for _, key := range path[:len(path)-1] {
		holder = rawjson.Get(holder, key)
	}
	last := path[len(path)-1]
	name, _ := rawjson.Text(rawjson.Get(holder, last))
	id, own, err := g.findOwner(ctx, c.Session, kind, name)
	if err != nil {
		return nil, err
	}
	if id == "" {
		return nil, protocol.Errorf(protocol.InvalidArguments, "no extension lists a %s %q; one that is not listed is reached at /{id}/mcp of its extension", kind, name)
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

// findOwner returns the extension that lists a thing, and the extension's own name for it.
// It lists everything again for a name that it does not know. The error is the denial of a
// list that may hold the name.
func (g *Gateway) findOwner(ctx context.Context, s *protocol.Session, kind, name string) (extension, own string, err error) {
	extension, own = g.owners.find(kind, name)
	if extension != "" {
		return extension, own, nil
	}
	caller := ""
	if s != nil {
		caller = s.Caller
	}
	if g.owners.mayList() {
		var refused error
		for _, l := range listings {
			_, err := g.list(ctx, &protocol.Call{Session: s}, l)
			refused = cmp.Or(refused, err)
		}
		g.owners.setRefusal(caller, refused)
	}
	if extension, own = g.owners.find(kind, name); extension == "" {
		err = g.owners.refusal(caller)
	}
	return extension, own, err
}
