package dispatch

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/pins"
	"github.com/exthost/exthost/internal/host/bridge"
	"github.com/exthost/exthost/internal/host/policies"
	"github.com/exthost/exthost/internal/listing/toolset"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
)

// FilterLists removes from a server's lists the items that are withheld, or hidden by the caller's toolset, and from
// a destination's list the hidden tools. If a toolset may hide a part of a list, its pages are joined into one,
// because cursors may contain hidden names. changed is called if a list has changed the status or the pins.
func FilterLists(changed func()) Stage {
	return func(next Deliver) Deliver {
		return func(ctx context.Context, c *Call, params json.RawMessage) (json.RawMessage, error) {
			if c.Target == nil {
				return next(ctx, c, params)
			}
			if !c.View.Hides(c.Target.Base().ID(), c.Request.Method) {
				page, _, err := c.page(ctx, next, params, changed)
				return page, err
			}
			var pages []json.RawMessage
			params, size := rawjson.Delete(params, "cursor"), 0
			asked := make(map[string]bool, 1) // cursors of the pages so far
			for more := true; more; {
				if len(pages) == maxPages || size >= maxPagesBytes {
					c.Target.Base().Log.Warn("the extension lists more than clients with a toolset are shown", "method",
						c.Request.Method, "pages", len(pages), "bytes", size)
					break
				}
				page, result, err := c.page(ctx, next, params, changed)
				if err != nil {
					return nil, err
				}
				pages, size = append(pages, page), size+len(page)
				cursor := rawjson.Get(result, "nextCursor")
				params, more = rawjson.Set(params, "cursor", cursor), cursor != nil && string(cursor) != "null" &&
					!asked[string(cursor)]
				asked[string(cursor)] = true
			}
			return toolset.Join(c.Request.Method, pages), nil
		}
	}
}

// Bounds of a list whose pages are joined.
const (
	maxPages      = 64
	maxPagesBytes = 8 << 20
)

// page returns one page as the caller may see it, and the server's result without items that policies hide.
func (c *Call) page(ctx context.Context, next Deliver, params json.RawMessage, changed func(),
) (page, result json.RawMessage, err error) {
	if result, err = next(ctx, c, params); err != nil {
		return nil, nil, err
	}
	kind, listed := pins.Listed[c.Request.Method]
	destination, bridged := c.Target.(*bridge.Destination)
	switch {
	case bridged && c.Request.Method == protocol.MethodToolsList:
		result = c.visible(result, params, pins.Tool, destination, changed)
	case listed:
		result = c.visible(result, params, kind, nil, changed)
	}
	return c.View.Filter(c.Target.Base().ID(), c.Request.Method, result), result, nil
}

// members names the list in the result of each kind.
var members = map[pins.Kind]string{
	pins.Tool:        "tools",
	pins.Prompt:      "prompts",
	pins.Resource:    "resources",
	pins.Template:    "resourceTemplates",
	pins.ListedSkill: "skills",
}

// visible removes from a list the items that the caller may not see. d is the destination whose tools are listed, nil
// for other lists.
func (c *Call) visible(result, params json.RawMessage, kind pins.Kind, d *bridge.Destination, changed func(),
) json.RawMessage {
	if repeats(result, members[kind]) { // the last one is judged, but a client may read another
		result = rawjson.Set(result, members[kind], rawjson.Get(result, members[kind]))
	}
	var list []json.RawMessage
	if err := json.Unmarshal(rawjson.Get(result, members[kind]), &list); err != nil {
		return result
	}
	p := c.Snapshot.Policies
	page := policies.Page{Extension: c.Target.Base().ID(), Kind: kind, Items: list}
	page.Cursor, _ = rawjson.Text(rawjson.Get(params, "cursor"))
	page.Next, _ = rawjson.Text(rawjson.Get(result, "nextCursor"))
	seen, other := p.Show(page)
	if other {
		changed()
	}
	if d != nil {
		seen = slices.DeleteFunc(seen, func(tool json.RawMessage) bool {
			name, _ := rawjson.Text(rawjson.Get(tool, "name"))
			return !p.Pipeline.Visible(c.Exchange.Caller,
				governance.Tool{Extension: c.Exchange.Extension, Name: d.ToolName(name)})
		})
	}
	if len(seen) == len(list) {
		return result
	}
	return rawjson.Set(result, members[kind], rawjson.AppendList(nil, seen))
}

// repeats reports whether an object has a member more than once.
func repeats(object json.RawMessage, member string) bool {
	n := 0
	rawjson.Each(object, func(key []byte, _ json.RawMessage) bool {
		if string(key) == member {
			n++
		}
		return n < 2
	})
	return n > 1
}
