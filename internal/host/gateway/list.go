package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/exthost/exthost/internal/host/snapshot"
	"github.com/exthost/exthost/internal/listing/owners"
	"github.com/exthost/exthost/internal/listing/toolset"
	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// A client of all extensions gets one list of each kind. Prompts are named like tools. Resources keep their URIs,
// because results, links and clients refer to them; of two extensions that list the same URI, the first owns it.
// A request that names a resource or a prompt goes to its owner.

// listing is a kind of list. It belongs to a capability of MCP or, without one, to an extension of MCP that owns
// method.
type listing struct{ method, capability, member, key string }

var listings = []listing{
	{protocol.MethodResourcesList, "resources", "resources", "uri"},
	{protocol.MethodResourceTemplates, "resources", "resourceTemplates", "uriTemplate"},
	{protocol.MethodPromptsList, "prompts", "prompts", "name"},
}

const (
	listTimeout    = 5 * time.Second // for the complete list of one extension; a slower one is left out
	maxListed      = 4096            // items of one kind of one extension
	maxListedBytes = 64 << 20        // bytes of all pages of one list
	maxPages       = 64              // pages of one list
)

// listsAtOnce bounds the extensions that list in parallel.
var listsAtOnce = 16 * runtime.GOMAXPROCS(0)

func listingOf(method string) (listing, bool) {
	n := slices.IndexFunc(listings, func(l listing) bool { return l.method == method })
	if n < 0 {
		return listing{}, false
	}
	return listings[n], true
}

// listers returns the extensions that have items for a list.
func listers(now *snapshot.Snapshot, l listing) (ids []string) {
	if l.capability == "" {
		return now.Declared.Owners(l.method)
	}
	for x := range now.Ordered {
		if rawjson.Get(now.Capabilities(x), l.capability) != nil {
			ids = append(ids, x.ID())
		}
	}
	return ids
}

// absent returns the extensions that are not in order because they cannot list now, but still own their names and
// URIs: those without a handshake, such as one whose server is down, and those of unreachable nodes.
func absent(now *snapshot.Snapshot, order []string) (ids []string) {
	for x := range now.Ordered {
		if x.Handshake() == nil && !slices.Contains(order, x.ID()) {
			ids = append(ids, x.ID())
		}
	}
	for _, id := range now.Reserved {
		if !slices.Contains(order, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// list returns one page with the items of all extensions in order, without the items that view hides. refused is a
// policy's denial of an extension's list, if any.
func (g *Gateway) list(ctx context.Context, c *protocol.Call, l listing, order []string, view *toolset.View,
) (list json.RawMessage, refused error) {
	away := absent(g.o.Snapshots.Load(), order)
	order = g.owners.Order(l.method, slices.Concat(order, away))
	each, items, errs := make([]listed, len(order)), make([][]json.RawMessage, len(order)), make([]error, len(order))
	var wg sync.WaitGroup
	slots := make(chan struct{}, listsAtOnce)
	var kept []string // not asked, denied or failed: what is known of their items stays
	for n, id := range order {
		if !view.Reaches(id) || slices.Contains(away, id) {
			kept = append(kept, id)
			continue
		}
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			each[n], errs[n] = g.listOne(ctx, c, id, l)
		})
	}
	wg.Wait()
	for n, err := range errs {
		if err == nil {
			continue
		}
		kept = append(kept, order[n])
		if kind := protocol.KindOf(err); kind == protocol.Rejected || kind == protocol.GovernanceUnavailable {
			refused = cmp.Or(refused, err)
		}
	}
	now := g.o.Snapshots.Load()
	for n := range each {
		items[n] = slices.DeleteFunc(each[n].items, func(item json.RawMessage) bool {
			uri, _ := rawjson.Text(rawjson.Get(item, "uri"))
			owner, owned := now.SkillOwner(uri, nil)
			return owned && owner != order[n]
		})
	}
	shown, shadowed := g.owners.Update(owners.List{Method: l.method, Key: l.key}, order, items, kept, view)
	for _, s := range shadowed {
		d := shadowedDiagnostic(s)
		g.o.Log.Warn(d.Message, "extension", d.Extension, "code", d.Code, "next", d.Hint)
	}
	list = append(rawjson.AppendList([]byte(`{"`+l.member+`":`), shown), '}')
	if ttl := shortest(each, errs); ttl > 0 && view == nil && isModern(c.Session) && allKnown(g.o.Snapshots.Load()) {
		list = rawjson.Set(list, "ttlMs", strconv.AppendInt(nil, ttl, 10))
	}
	return list, refused
}

// Diagnostics reports the resources and pages that several extensions have: a client of all extensions reaches only
// that of the first. It considers only lists that clients have asked for, and the tools.
func (g *Gateway) Diagnostics() (list []protocol.Diagnostic) {
	now := g.o.Snapshots.Load()
	listed := make(map[[2]string]bool)
	for _, s := range g.owners.Shadows() {
		if now.Extensions[s.Extension] != nil && now.Extensions[s.By] != nil {
			list = append(list, shadowedDiagnostic(s))
			listed[[2]string{s.Extension, s.By}], listed[[2]string{s.By, s.Extension}] = true, true
		}
	}
	for _, s := range sharedPages(now) {
		if !listed[[2]string{s.Extension, s.By}] {
			list = append(list, shadowedDiagnostic(s))
		}
	}
	return list
}

func shadowedDiagnostic(s owners.Shadow) protocol.Diagnostic {
	what := display.Cut(display.Escape(s.Example), 200)
	if s.Count > 1 {
		what += fmt.Sprintf(" and %d more", s.Count-1)
	}
	return protocol.Diagnostic{
		Level:     protocol.LevelWarn,
		Code:      "resource_shadowed",
		Extension: s.Extension,
		Message: fmt.Sprintf("%s: %s lists %s too, and clients of all extensions get that of %s", s.Method, s.By,
			what, s.By),
		Hint: fmt.Sprintf("reach those of %s at /%s/mcp, or disable one of the two", s.Extension, s.Extension),
	}
}

// allKnown reports whether every MCP server has had its handshake: a list lacks the items of a server that starts
// later.
func allKnown(now *snapshot.Snapshot) bool {
	for x := range now.Ordered {
		if x.Handshake() == nil && x.Candidate.Manifest.Transport.Protocol == manifest.ProtocolMCP {
			return false
		}
	}
	return true
}

// listed is the complete list of one extension.
type listed struct {
	items []json.RawMessage
	ttl   int64 // how long the list may be cached, in ms; 0: not stated
}

// shortest returns how long a merged list may be cached, in ms.
func shortest(each []listed, errs []error) (ttl int64) {
	for n, one := range each {
		switch {
		case errs[n] != nil:
			return 0 // the next attempt may succeed
		case n == 0 || one.ttl < ttl:
			ttl = one.ttl
		}
	}
	return ttl
}

// listOne lists the items of one extension in calls of its own, up to the bounds above. With an error, it returns no
// items.
func (g *Gateway) listOne(ctx context.Context, c *protocol.Call, extension string, l listing) (list listed, err error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	params := rawjson.Delete(c.Params, "cursor")
	asked := make(map[string]bool, 1) // cursors of the pages so far
	bytes := 0                        // of the pages so far
	for n := range maxPages {
		result, err := g.Calls.DoPart(ctx,
			&protocol.Call{Session: c.Session, Extension: extension, Method: l.method, Params: params})
		if e, ok := errors.AsType[*protocol.Error](err); ok && e.Kind == protocol.ExtensionError &&
			e.Code == jsonrpc.CodeMethodNotFound { // many servers have resources, and no templates of them
			g.o.Log.Debug("an extension does not have a list", "extension", extension, "method", l.method)
			return listed{}, nil
		}
		if err != nil {
			g.o.Log.Warn("an extension was left out of a list", "extension", extension, "method", l.method, "error",
				err)
			return listed{}, err
		}
		if bytes += len(result); bytes > maxListedBytes {
			g.o.Log.Warn("an extension lists more than is shown", "extension", extension, "method", l.method,
				"limit_bytes", maxListedBytes)
			return list, nil
		}
		var page []json.RawMessage
		if json.Unmarshal(rawjson.Get(result, l.member), &page) != nil {
			g.o.Log.Warn("an answer to a list has no list", "extension", extension, "method", l.method, "member",
				l.member)
			return list, nil
		}
		if ttl := ttlOf(result); n == 0 || ttl < list.ttl {
			list.ttl = ttl
		}
		if list.items = append(list.items, page...); len(list.items) > maxListed {
			g.o.Log.Warn("an extension lists more than is shown", "extension", extension, "method", l.method, "limit",
				maxListed)
			list.items = list.items[:maxListed]
			return list, nil
		}
		cursor := rawjson.Get(result, "nextCursor")
		if cursor == nil || string(cursor) == "null" {
			return list, nil
		}
		if asked[string(cursor)] {
			g.o.Log.Warn("an extension repeats a cursor; its list ends there", "extension", extension, "method",
				l.method)
			return list, nil
		}
		asked[string(cursor)] = true
		params = rawjson.Set(params, "cursor", cursor)
	}
	g.o.Log.Warn("an extension lists more than is shown", "extension", extension, "method", l.method, "limit_pages",
		maxPages)
	return list, nil
}

// ttlOf returns how long a result may be cached, in ms; 0 if not stated.
func ttlOf(result json.RawMessage) int64 {
	ttl, err := strconv.ParseInt(string(rawjson.Get(result, "ttlMs")), 10, 64)
	if err != nil || ttl < 0 {
		return 0
	}
	return ttl
}
