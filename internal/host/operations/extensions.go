package operations

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/exthost/exthost/internal/host/unit"
	"github.com/exthost/exthost/peers"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
	"github.com/exthost/exthost/tools"
)

// orderWait bounds an order to another node: a restart waits for calls in flight.
const orderWait = 2 * time.Minute

// place returns the node of an extension, "" for this one, and its id there.
func (n *Nodes) place(id, verb string) (node, there string, err error) {
	if n.cluster == nil || n.Local.has(id) {
		return "", id, nil
	}
	node, there, ok := strings.Cut(id, ".")
	others := n.list()
	switch {
	case ok && node == n.self:
		return "", there, nil
	case ok && slices.ContainsFunc(others, func(other status.Node) bool { return other.Name == node }):
		return node, there, nil
	}
	var at []string
	for _, other := range others {
		for _, x := range other.Shares {
			if x.Extension == id {
				at = append(at, other.Name)
			}
		}
	}
	if len(at) > 0 {
		return "", "", protocol.Errorf(protocol.InvalidArguments,
			"%s is not at this node; it is at %s: exthost %s %s.%s", id, strings.Join(at, ", "), verb, at[0], id)
	}
	return "", id, nil
}

// has reports whether the host has an extension, running or not.
func (h *Local) has(id string) bool {
	if slices.ContainsFunc(h.Snapshots.Load().Remote, func(x *unit.Extension) bool { return x.ID() == id }) {
		return false
	}
	return slices.ContainsFunc(h.Status().Extensions, func(x status.Extension) bool { return x.ID == id })
}

// owns reports whether the host has extensions that come from servers beside the manifest of id: their ids begin with
// id and a dot.
func (h *Local) owns(id string) bool {
	return slices.ContainsFunc(h.Status().Extensions,
		func(x status.Extension) bool { return strings.HasPrefix(x.ID, id+".") && len(x.Nodes) == 0 })
}

// Having returns a function that lists the nodes that have a catalog tool, this node first. The list is empty
// without a cluster, and for the host's own tools.
func (n *Nodes) Having() func(*tools.Entry) []string {
	if n.cluster == nil {
		return func(*tools.Entry) []string { return nil }
	}
	self, now, places := n.self, n.Local.Snapshots.Load(), make(map[string][]*peers.Place)
	for _, p := range n.cluster.Places() {
		places[p.ID()] = append(places[p.ID()], p)
	}
	return func(e *tools.Entry) (nodes []string) {
		if x := now.Extensions[e.Extension]; x != nil && x.LocalTool(e.Tool) != nil {
			nodes = append(nodes, self)
		}
		for _, p := range places[e.Extension] {
			same := func(t protocol.Tool) bool { return t.Name == e.Tool && bytes.Equal(t.Raw, e.Raw) }
			if slices.ContainsFunc(p.Tools, same) {
				nodes = append(nodes, p.Node)
			}
		}
		return nodes
	}
}

// Restart restarts an extension of this host, or of another node as NODE.ID.
func (n *Nodes) Restart(ctx context.Context, id, by string) error {
	return n.act(ctx, methodRestart, id, by, n.Local.Restart)
}

// Enable enables an extension of this host, or of another node as NODE.ID.
func (n *Nodes) Enable(ctx context.Context, id, by string) error {
	return n.act(ctx, methodEnable, id, by, n.Local.Enable)
}

// Disable disables an extension of this host, or of another node as NODE.ID.
func (n *Nodes) Disable(ctx context.Context, id, by string) error {
	return n.act(ctx, methodDisable, id, by, n.Local.Disable)
}

func (n *Nodes) act(ctx context.Context, method, id, by string, local func(context.Context, string) error) error {
	_, verb, _ := strings.Cut(method, "/")
	node, there, err := n.place(id, verb)
	switch {
	case err != nil:
		return err
	case node == "":
		return local(ctx, there)
	}
	return n.order(ctx, orderWait, node, method, order{ID: there, By: by}, nil)
}

// Reload reloads an extension of this host, or of another node as NODE.ID; "" reloads this whole host.
func (n *Nodes) Reload(ctx context.Context, id, by string) (*status.Change, error) {
	if id == "" {
		return n.Local.Reloads.Reload(ctx)
	}
	node, there, err := n.place(id, "reload")
	switch {
	case err != nil:
		return nil, err
	case node == "":
		return n.Local.Reloads.Reload(ctx, there)
	}
	change := new(status.Change)
	if err := n.order(ctx, orderWait, node, methodReload, order{ID: there, By: by}, change); err != nil {
		return nil, err
	}
	return change, nil
}

// reload reloads one extension of this host for another node. Reloading everything, as without an id, is left to
// the operator of this node.
func (n *inward) reload(ctx context.Context, id string) (*status.Change, error) {
	if id == "" {
		return nil, protocol.Errorf(protocol.InvalidArguments,
			"node %s reloads one extension for another node: exthost reload %s.ID", n.self, n.self)
	}
	change, err := n.Local.Reloads.Reload(ctx, id)
	if err == nil && change.Empty() && !n.Local.has(id) && !n.Local.owns(id) {
		return nil, protocol.Errorf(protocol.ToolNotFound,
			"there is no extension %q that can be used; exthost validate, at that node, says what is wrong with one",
			id)
	}
	return change, err
}
