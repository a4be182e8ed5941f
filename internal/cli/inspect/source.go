package inspect

import (
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/httpserver"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
	"github.com/exthost/exthost/tools"
)

// source provides the tools of the running host, so that nothing is started twice, or those of a host opened for the
// command.
type source struct {
	running *hosts.Running // nil: opened is set
	opened  *exthost.Host
}

// openSource finds the running host, or opens one that starts the extensions selected by start; nil selects all. The
// caller must call close.
func openSource(ctx context.Context, c *console.Console, start func(id string) bool,
) (s source, close func(), err error) {
	r, cfg, err := hosts.Reach(ctx, c)
	if r != nil {
		return source{running: r}, func() {}, nil
	}
	if err != nil {
		return s, nil, err
	}
	h, err := hosts.Open(ctx, c, cfg, exthost.Options{Start: start, Mode: exthost.Mode{Inspect: true}})
	if err != nil {
		return s, nil, err
	}
	return source{opened: h}, func() { h.Close() }, nil
}

func (s source) status(ctx context.Context) (status.Status, error) {
	if s.running != nil {
		return s.running.Status(ctx)
	}
	return s.opened.Status(), nil
}

// viewer is the client whose tools a command shows.
type viewer struct{ caller, toolset string }

func (v viewer) query(values url.Values) string {
	values.Set("caller", v.caller)
	if v.toolset != "" {
		values.Set("toolset", v.toolset)
	}
	return values.Encode()
}

// tools returns the tools that policies show to the caller with the toolset.
func (s source) tools(ctx context.Context, v viewer) (list httpserver.ToolList, err error) {
	if s.running != nil {
		err = s.running.Get(ctx, "/api/v1/tools?"+v.query(url.Values{}), &list)
		return list, err
	}
	shown, hidden, err := s.opened.Toolsets().Offered(v.toolset, v.caller)
	return httpserver.NewToolList(shown, names(hidden)), err
}

// export returns the tools in a vendor's format. If deferred is set, they are marked as loaded on demand.
func (s source) export(ctx context.Context, format tools.Format, deferred bool, v viewer,
) (out httpserver.Export, err error) {
	if s.running != nil {
		query := url.Values{"format": {string(format)}}
		if deferred {
			query.Set("defer", "true")
		}
		err = s.running.Get(ctx, "/api/v1/tools/export?"+v.query(query), &out)
		return out, err
	}
	shown, hidden, err := s.opened.Toolsets().Offered(v.toolset, v.caller)
	if err != nil {
		return out, err
	}
	return httpserver.NewExport(s.opened, format, shown, names(hidden), deferred)
}

// find searches the tools.
func (s source) find(ctx context.Context, query string, v viewer) (found httpserver.FoundTools, err error) {
	if s.running != nil {
		err = s.running.Get(ctx, "/api/v1/tools/find?"+v.query(url.Values{"query": {query}}), &found)
		return found, err
	}
	answer, err := s.opened.Toolsets().Find(v.toolset, v.caller, query)
	return httpserver.NewFoundTools(answer), err
}

// descriptor returns the descriptor of one tool, even if policies hide it: by the name that a toolset shows, for ""
// by its registered one. The error is [errNotThere] if the running host does not have the tool's extension.
func (s source) descriptor(ctx context.Context, name, toolset string) (json.RawMessage, error) {
	switch {
	case s.running != nil && toolset != "":
		var t httpserver.Tool
		err := s.running.Get(ctx, "/api/v1/tools/"+url.PathEscape(name)+"?toolset="+url.QueryEscape(toolset), &t)
		return t.Descriptor, err
	case s.running != nil:
		t, err := runningTool(ctx, s.running, name)
		return t.Descriptor, err
	}
	e, err := s.opened.Toolsets().Tool(toolset, name)
	switch {
	case err == nil:
		return e.Descriptor, nil
	case toolset != "":
		return nil, err
	}
	return nil, hosts.UnknownTool(s.opened.Status(), name)
}

// runningTool returns a tool of the running host. The error is [errNotThere] if that host does not have the tool's
// extension.
func runningTool(ctx context.Context, r *hosts.Running, name string) (t httpserver.Tool, err error) {
	err = r.Get(ctx, "/api/v1/tools/"+url.PathEscape(name), &t)
	if protocol.KindOf(err) != protocol.ToolNotFound {
		return t, err
	}
	s, err := r.Status(ctx)
	if err != nil {
		return t, err
	}
	if !slices.ContainsFunc(s.Extensions, func(x status.Extension) bool { return tools.MayOwn(x.ID, name) }) {
		return t, errNotThere
	}
	return t, hosts.UnknownTool(s, name)
}

func names(entries []*tools.Entry) (names []string) {
	for _, e := range entries {
		names = append(names, e.Name)
	}
	return names
}

// ownTool returns the name in this host of a tool that node shares as its own. name is the tool's name at node.
func ownTool(ctx context.Context, r *hosts.Running, node, name string) (string, bool) {
	var list httpserver.ToolList
	if err := r.Get(ctx, "/api/v1/tools", &list); err != nil {
		return "", false
	}
	for _, t := range list.Tools {
		id, ok := strings.CutPrefix(t.Extension, node+".")
		if !ok || !slices.Equal(t.Nodes, []string{node}) {
			continue
		}
		if tools.NameOf(id, t.Tool) == name {
			return t.Name, true
		}
	}
	return "", false
}
