package dispatch

import (
	"context"
	"encoding/json"

	"github.com/exthost/exthost/governance/results"
	"github.com/exthost/exthost/internal/host/snapshot"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/tools"
)

// Pages reads long results that this host or another node has stored.
type Pages interface {
	Page(ctx context.Context, s *protocol.Session, origin string, shows func(results.Source) bool,
		arguments json.RawMessage) (json.RawMessage, error)
}

// Answer answers calls without a target: of the host's own tools, of tools/list, and of the methods that
// aggregate serves for all extensions.
func Answer(pages Pages, aggregate Aggregator) Stage {
	return func(next Deliver) Deliver {
		return func(ctx context.Context, c *Call, params json.RawMessage) (json.RawMessage, error) {
			switch {
			case c.Target != nil:
				return next(ctx, c, params)
			case c.entry != nil && c.entry.Tool == tools.FindName:
				return c.find(params)
			case c.entry != nil:
				shows := func(of results.Source) bool { return c.View.Has(of.Extension, of.Tool) }
				return pages.Page(ctx, c.Request.Session, c.Exchange.ID, shows, rawjson.Get(params, "arguments"))
			case c.Request.Method == protocol.MethodToolsList:
				return c.listTools(params)
			}
			one := *c.Request
			one.Params = params
			return aggregate.Aggregate(ctx, &one)
		}
	}
}

// listTools answers tools/list from the catalog, for all extensions or for one, with the tools that the caller
// may see.
func (c *Call) listTools(params json.RawMessage) (json.RawMessage, error) {
	var p struct {
		Cursor string `json:"cursor"`
	}
	if len(params) > 0 {
		if err := json.Unmarshal(params, &p); err != nil {
			return nil, protocol.Errorf(protocol.InvalidArguments, "tools/list: %w", err)
		}
	}
	x, session, policies := c.Exchange, c.Request.Session, c.Snapshot.Policies
	view := tools.View{
		Pages:  snapshot.ShowsPages(session),
		Modern: session != nil && protocol.IsModern(session.Version),
	}
	if list, ok := c.searchList(view.Modern); ok && x.Extension == "" {
		return list, nil
	}
	if !policies.Pipeline.MayHide() {
		return c.View.Tools(c.Snapshot.Catalog).List(x.Extension, p.Cursor, view, nil)
	}
	return c.View.Tools(c.Snapshot.Catalog).List(x.Extension, p.Cursor, view, func(e *tools.Entry) bool {
		return policies.Shows(x.Caller, e)
	})
}
