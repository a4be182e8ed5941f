package operations

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/exthost/exthost/governance/results"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/peers"
	"github.com/exthost/exthost/protocol"
)

// pageWait bounds the time for a page from another node.
const pageWait = 30 * time.Second

// page are the params of a page tool call for a caller of the requesting node.
type page struct {
	Caller    string          `json:"caller,omitempty"`
	Session   string          `json:"session,omitempty"` // at the requesting node
	Origin    string          `json:"origin,omitempty"`  // id of the requesting node's decision about the call
	Arguments json.RawMessage `json:"arguments"`
}

// Page answers a call of the page tool; it reads pages of another node's results from that node. s is the caller's
// session, nil if none; origin is the decision about the call.
func (n *Nodes) Page(ctx context.Context, s *protocol.Session, origin string, shows func(results.Source) bool,
	arguments json.RawMessage) (json.RawMessage, error) {
	p := page{Origin: origin}
	owner := results.Owner{}
	if s != nil {
		p.Caller = s.Caller
		owner = results.Owner{Node: s.Node, Caller: s.Caller, Session: s.ID}
	}
	handle, _ := rawjson.Text(rawjson.Get(arguments, "handle"))
	node, remoteHandle, qualified := strings.Cut(handle, "/")
	if qualified && node != n.self && (s == nil || s.Node == "") { // results are not passed on between nodes
		if s != nil && n.sessions.IfAttached(s, func() {}) { // the node knows attached sessions only
			p.Session = s.ID
		}
		return n.pageOf(ctx, node, rawjson.Set(slices.Clone(arguments), "handle", rawjson.Quote(remoteHandle)), p)
	}
	if qualified && node == n.self {
		arguments = rawjson.Set(slices.Clone(arguments), "handle", rawjson.Quote(remoteHandle))
	}
	store := n.Local.State.Results()
	if store == nil {
		return nil, protocol.Errorf(protocol.InvalidArguments, "%w", results.ErrUnknown)
	}
	return store.Call(owner, shows, arguments)
}

// pageOf reads a page from another node.
func (n *Nodes) pageOf(ctx context.Context, node string, arguments json.RawMessage, p page) (json.RawMessage, error) {
	if n.cluster == nil {
		return nil, protocol.Errorf(protocol.InvalidArguments, "%w", results.ErrUnknown)
	}
	ctx, cancel := context.WithTimeout(ctx, pageWait)
	defer cancel()
	p.Arguments = arguments
	raw, err := json.Marshal(p)
	if err != nil {
		return nil, protocol.Errorf(protocol.InvalidArguments, "the arguments: %w", err)
	}
	result, err := n.cluster.Operate(ctx, node, methodPage, raw)
	switch {
	case protocol.KindOf(err) == protocol.NotReady || protocol.KindOf(err) == protocol.NodeLost:
		return nil, protocol.Errorf(protocol.NotReady,
			"the result is kept by node %s, which is not there now; if it does not come back, call the tool again: %w",
			node, err)
	case err != nil:
		return nil, named(node, err)
	}
	return result, nil
}

// page answers a call of the page tool for another node, through the path of all calls.
func (n *inward) page(ctx context.Context, o *peers.Operation) (json.RawMessage, error) {
	var p page
	if err := read(o, &p); err != nil {
		return nil, err
	}
	store := n.Local.State.Results()
	if store == nil {
		return nil, protocol.Errorf(protocol.InvalidArguments, "%w", results.ErrUnknown)
	}
	handle, _ := rawjson.Text(rawjson.Get(p.Arguments, "handle"))
	s := &protocol.Session{Node: o.Node, Caller: p.Caller, Since: time.Now(), Remote: true}
	if p.Session == "" {
		s.Instance = o.Node
	} else {
		s.ID = peers.GuestID(o.Node, o.Run, store.Source(handle).Extension, p.Session)
	}
	name, _ := json.Marshal(results.ToolName)
	params := slices.Concat([]byte(`{"name":`), name, []byte(`,"arguments":`), p.Arguments, []byte(`}`))
	return n.calls.Do(ctx, &protocol.Call{
		Session: s,
		Method:  protocol.MethodToolsCall,
		Params:  params,
		Origin:  p.Origin,
	})
}
