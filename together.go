package exthost

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/exthost/exthost/internal/rawjson"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/tools"
)

// For callers of all extensions at once, what MCP servers offer besides tools is
// made one. Prompts are named as tools are. Resources keep their URIs, by which
// results, links and clients refer to them: of two extensions with the same URI the
// first has it. What is addressed by a name or URI goes to its owner, and only
// there.

// listing is one kind of thing that servers list.
type listing struct{ method, capability, member, key string }

var listings = []listing{
	{"resources/list", "resources", "resources", "uri"},
	{"resources/templates/list", "resources", "resourceTemplates", "uriTemplate"},
	{"prompts/list", "prompts", "prompts", "name"},
}

const (
	listTimeout = 5 * time.Second // for one extension to list all it has; without it the others are listed
	maxListed   = 4096            // things of one kind that one extension lists
	maxPages    = 64              // answers it takes for that
	methodLevel = "logging/setLevel"
)

func listingOf(method string) (listing, bool) {
	for _, l := range listings {
		if l.method == method {
			return l, true
		}
	}
	return listing{}, false
}

func isListing(method string) bool {
	_, ok := listingOf(method)
	return ok || method == protocol.MethodToolsList
}

// forAll carries out what is asked of all extensions at once.
func (h *Host) forAll(ctx context.Context, c *protocol.Call) (json.RawMessage, error) {
	if l, ok := listingOf(c.Method); ok {
		return h.listTogether(ctx, c, l), nil
	}
	return h.setLevel(ctx, c)
}

// listTogether answers a list of one kind for all extensions, in one page.
func (h *Host) listTogether(ctx context.Context, c *protocol.Call, l listing) json.RawMessage {
	extensions := h.gen.Load().inOrder()
	order, each := make([]string, len(extensions)), make([][]json.RawMessage, len(extensions))
	var wg sync.WaitGroup
	slots := make(chan struct{}, startsAtOnce)
	for n, x := range extensions {
		id := x.candidate.ID
		if order[n] = id; !offers(x.handshake.Load(), l.capability) {
			continue
		}
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			each[n] = h.listOne(ctx, c, id, l)
		})
	}
	wg.Wait()
	items := h.owners.learn(l, order, each)
	out := append([]byte(`{"`+l.member+`":[`), bytes.Join(raw(items), []byte(","))...)
	return append(out, "]}"...)
}

// listOne lists what one extension has, by the path that every exchange takes. One
// that fails costs nobody else his list.
func (h *Host) listOne(ctx context.Context, c *protocol.Call, id string, l listing) (items []json.RawMessage) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	params := rawjson.Delete(c.Params, "cursor")
	for range maxPages {
		result, err := h.Do(ctx, &protocol.Call{Session: c.Session, Extension: id, Method: l.method, Params: params})
		if err != nil {
			h.log.Warn("an extension was left out of a list", "extension", id, "method", l.method, "error", err)
			return items
		}
		var page []json.RawMessage
		if json.Unmarshal(rawjson.Get(result, l.member), &page) != nil {
			return items
		}
		if items = append(items, page...); len(items) > maxListed {
			h.log.Warn("an extension lists more than is shown", "extension", id, "method", l.method, "limit", maxListed)
			return items[:maxListed]
		}
		cursor := rawjson.Get(result, "nextCursor")
		if cursor == nil || string(cursor) == "null" {
			return items
		}
		params = rawjson.Set(params, "cursor", cursor)
	}
	return items
}

// addressed is where in the params of a method the thing stands that it is about.
func addressed(method string, params json.RawMessage) (kind string, path []string) {
	switch method {
	case "resources/read", methodSubscribe, methodUnsubscribe:
		return "resource", []string{"uri"}
	case "prompts/get":
		return "prompt", []string{"name"}
	case "completion/complete":
		if kind, _ := rawjson.Text(rawjson.Get(rawjson.Get(params, "ref"), "type")); kind == "ref/prompt" {
			return "prompt", []string{"ref", "name"}
		}
		return "resource", []string{"ref", "uri"}
	}
	return "", nil
}

// resolve returns c as it goes to the owner of what it is about; c itself when it is
// about no such thing.
func (h *Host) resolve(ctx context.Context, c *protocol.Call) (*protocol.Call, error) {
	if c.Extension != "" {
		return c, nil
	}
	switch id, err := aboutTask(c.Method, c.Params); {
	case err != nil:
		return nil, err
	case id != "":
		return h.tasks.resolve(c, id)
	}
	kind, path := addressed(c.Method, c.Params)
	if kind == "" {
		return c, nil
	}
	holder := c.Params
	for _, key := range path[:len(path)-1] {
		holder = rawjson.Get(holder, key)
	}
	last := path[len(path)-1]
	name, _ := rawjson.Text(rawjson.Get(holder, last))
	id, own := h.owners.find(kind, name)
	if id == "" && h.owners.stale() {
		for _, l := range listings {
			h.listTogether(ctx, &protocol.Call{Session: c.Session}, l)
		}
		id, own = h.owners.find(kind, name)
	}
	if id == "" {
		return nil, protocol.Errorf(protocol.InvalidArguments, "no extension lists a %s %q; one that is not listed is reached at /{id}/mcp of its extension", kind, name)
	}
	out := *c
	out.Extension = id
	if own != name {
		holder = rawjson.Set(holder, last, quote(own))
		for _, key := range path[:len(path)-1] {
			holder = rawjson.Set(c.Params, key, holder)
		}
		out.Params = holder
	}
	return &out, nil
}

// listTools answers tools/list for all extensions or for one, with what the caller
// may see.
func (g *generation) listTools(caller, extension string, params json.RawMessage) (json.RawMessage, error) {
	var p struct {
		Cursor string `json:"cursor"`
	}
	if len(params) > 0 {
		if err := json.Unmarshal(params, &p); err != nil {
			return nil, protocol.Errorf(protocol.InvalidArguments, "tools/list: %w", err)
		}
	}
	list, next, err := g.catalog.Page(extension, p.Cursor, listPage, func(e *tools.Entry) bool { return g.policy.Visible(caller, e.Extension, e.Name) })
	if err != nil {
		return nil, err
	}
	out := append(make([]byte, 0, 4096), `{"tools":[`...)
	out = append(append(out, bytes.Join(raw(list), []byte(","))...), ']')
	if next != "" {
		out = append(append(out, `,"nextCursor":`...), quote(next)...)
	}
	return append(out, '}'), nil
}

// listPage is how many tools one answer to tools/list holds.
const listPage = 500

func raw(list []json.RawMessage) [][]byte {
	out := make([][]byte, len(list))
	for i, m := range list {
		out[i] = m
	}
	return out
}
