package dispatch

import (
	"encoding/json"

	"github.com/exthost/exthost/internal/listing/toolsearch"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/tools"
)

// unwrap returns the call inside a call of a tool that calls others, and other calls unchanged. It runs first, so that
// the inner call is treated as if its caller had made it directly.
func (d *Dispatcher) unwrap(r *protocol.Call, t *toolCall) (*protocol.Call, *toolCall, error) {
	if r.Extension != "" || !tools.CallsOthers(t.name) {
		return r, t, nil
	}
	if view, err := d.o.Snapshots.Load().View(r.Session); err != nil || view.Excludes(t.name) {
		return r, t, nil // the session has no such tool
	}
	params, err := toolsearch.Wrapped(t.name, t.rest, t.arguments)
	if err != nil {
		return nil, nil, err
	}
	inner, err := readToolCall(params)
	if err != nil {
		return nil, nil, err
	}
	direct := *r
	direct.Params, inner.by = params, t.name
	return &direct, inner, nil
}

// isFind reports whether a call is of the tool ext_find, which waits for starting extensions as lists do.
func (t *toolCall) isFind(r *protocol.Call) bool {
	return t != nil && r.Extension == "" && t.name == tools.FindName
}

// findTool returns the tool ext_find if c calls it.
func (c *Call) findTool() (*tools.Entry, bool) {
	if !c.parsed.isFind(c.Request) || c.View.Excludes(tools.FindName) {
		return nil, false
	}
	return toolsearch.Own().Lookup(tools.FindName)
}

// find answers a call of ext_find.
func (c *Call) find(params json.RawMessage) (json.RawMessage, error) {
	arguments := rawjson.Get(params, "arguments")
	if err := c.entry.Validate(arguments); err != nil {
		return nil, err
	}
	query, _ := rawjson.Text(rawjson.Get(arguments, "query"))
	found, err := c.Snapshot.FindFor(c.Request.Session, query)
	if err != nil {
		return nil, err
	}
	listing := &c.Snapshot.Config.Tools
	text := toolsearch.Text(found, func(e *tools.Entry) string { return listing.Caller(e.Risk) })
	return append(rawjson.AppendText([]byte(`{"content":[{"type":"text","text":`), text), `}]}`...), nil
}

// searchList answers tools/list of a session in mode search; ok is false for other sessions.
func (c *Call) searchList(modern bool) (result json.RawMessage, ok bool) {
	list, ok := c.Snapshot.SearchList(c.Request.Session)
	if !ok {
		return nil, false
	}
	result = append(result, '{')
	if modern {
		result = append(result, protocol.UncachedMembers...)
	}
	descriptors := make([]json.RawMessage, len(list))
	for n, e := range list {
		descriptors[n] = e.Descriptor
	}
	return append(rawjson.AppendList(append(result, `"tools":`...), descriptors), '}'), true
}
