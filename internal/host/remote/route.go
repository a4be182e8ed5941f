package remote

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/exthost/exthost/internal/host/unit"
	"github.com/exthost/exthost/peers"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/supervisor"
)

// set is one extension at other nodes.
type set struct {
	cluster   peers.Cluster
	self      string // this node's name
	id        string
	extension *unit.Extension // has an instance per node
	local     atomic.Pointer[unit.Extension]
	attached  func(s *protocol.Session, f func()) bool // see [Host.IfAttached]

	mu        sync.Mutex // guards the fields below
	places    []*peers.Place
	instances map[string]*unit.Instance // by node
	pinned    map[*protocol.Session]pin
}

// pin is the node at which a session has its own instance.
type pin struct {
	node    string
	reached bool // a call has reached it
}

// follow updates the set to the current places, and the extension of this host, nil if none.
func (s *set) follow(places []*peers.Place, local *unit.Extension) {
	s.mu.Lock()
	before := s.places
	s.places = places
	s.mu.Unlock()
	for _, p := range before {
		if now := s.place(p.Node); now == nil || now.Run != p.Run {
			s.unpin(p.Node)
			s.extension.EndSession(p.Node) // ends its instance, with the failures counted against the node
		}
	}
	nodes := make([]string, len(places))
	for n, p := range places {
		nodes[n] = p.Node
	}
	e := &unit.Remote{
		Nodes:   nodes,
		Reason:  reason(places),
		Tools:   toolsOf(places),
		Risks:   risksOf(places),
		Pages:   slices.ContainsFunc(places, func(p *peers.Place) bool { return p.Pages }),
		Acquire: s.acquire,
		Differs: func(own []protocol.Tool) []protocol.Diagnostic { return differences(s.id, places, own) },
	}
	if was := s.local.Swap(local); was != nil && was != local {
		was.SetRemote(nil, nil)
	}
	s.extension.SetRemote(e, handshake(places))
	if local != nil {
		local.SetRemote(e, nil)
	}
}

// reason returns why no place takes calls, "" if one does.
func reason(places []*peers.Place) string {
	var away, failed []string
	for _, p := range places {
		switch {
		case p.Leaving:
			away = append(away, p.Node)
		case hasFailed(p):
			failed = append(failed, p.Node)
		default:
			return ""
		}
	}
	var reasons []string
	if len(away) > 0 {
		reasons = append(reasons, "away or leaving: node "+strings.Join(away, ", "))
	}
	if len(failed) > 0 {
		reasons = append(reasons, "it does not start there, see exthost status of node "+strings.Join(failed, ", "))
	}
	return strings.Join(reasons, "; ")
}

func hasFailed(p *peers.Place) bool { return p.State == string(supervisor.Failed) }

// leave ends a set without places.
func (s *set) leave() {
	if local := s.local.Load(); local != nil {
		local.SetRemote(nil, nil)
	}
	s.mu.Lock()
	before := s.places
	s.places = nil
	s.mu.Unlock()
	for _, p := range before {
		s.unpin(p.Node)
		s.extension.EndSession(p.Node)
	}
}

func (s *set) place(node string) *peers.Place {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at(node)
}

// at is [set.place] for callers that hold s.mu.
func (s *set) at(node string) *peers.Place {
	for _, p := range s.places {
		if p.Node == node {
			return p
		}
	}
	return nil
}

// unpin releases the sessions pinned to a run that has ended.
func (s *set) unpin(node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.pinned, func(_ *protocol.Session, at pin) bool { return at.node == node })
}

// ended handles the outcome of a session's call at a node: the session stays pinned while the node may have an
// instance of it.
func (s *set) ended(session *protocol.Session, node string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ok := s.pinned[session]
	if !ok || at.node != node {
		return
	}
	e, _ := errors.AsType[*protocol.Error](err)
	switch {
	case e != nil && (e.Kind == protocol.NodeLost || e.Kind == protocol.ShuttingDown),
		e != nil && e.Kind == protocol.NotReady && !(at.reached && errors.Is(err, peers.ErrAway)):
		delete(s.pinned, session)
	case e == nil || e.Outcome != "":
		s.pinned[session] = pin{node, true}
	}
}

func (s *set) instance(node string) *unit.Instance {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.instances[node]
}

func (s *set) forget(session *protocol.Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pinned, session)
}

// acquire is the Acquire of [unit.Remote]. It tries this host first, then the other nodes in the order of
// [set.order]. A call that came from another node stays here, because calls are forwarded only once.
func (s *set) acquire(ctx context.Context, local *unit.Unit, w unit.Want) (*unit.Instance, func(error), error) {
	var refusal error
	if w.Node != "" && !slices.Contains(s.having(w), w.Node) {
		return nil, nil, s.notAt(w)
	}
	if local != s.extension.Unit && s.isHere(w.Tool) && (w.Node == "" || w.Node == s.self) &&
		!slices.ContainsFunc(w.Not, func(i *unit.Instance) bool { return i.Unit == local }) {
		i, release, err := local.Acquire(ctx, w)
		if err == nil || !mayGoOn(err) || w.Session != nil && w.Session.Node != "" {
			return i, release, err
		}
		refusal = err
	}
	if w.Session != nil && w.Session.Node != "" {
		return nil, nil, protocol.Errorf(protocol.ToolNotFound, "%s is not at this node", s.id)
	}
	return s.acquireRemote(ctx, w, refusal)
}

// acquireRemote acquires an instance that stands for the best node that accepts the call. If none does, it returns
// refusal, the error of this host, or else the first error of a node.
func (s *set) acquireRemote(ctx context.Context, w unit.Want, refusal error) (*unit.Instance, func(error), error) {
	for _, p := range s.order(w) {
		i, release, err := s.extension.AcquireKey(ctx, p.Node)
		if err == nil {
			s.took(w, p, i)
			return i, release, nil
		}
		if refusal = cmp.Or(refusal, err); !mayGoOn(err) {
			break
		}
	}
	if refusal == nil {
		refusal = protocol.Errorf(protocol.NotReady,
			"%s: no node of the cluster takes the call: each is away, leaving or has another version of the tool; "+
				"exthost status shows the nodes", s.id)
	}
	return nil, nil, refusal
}

// isHere reports whether this host's extension has a tool. tool is "" for a request that is about no tool: the answer
// is true.
func (s *set) isHere(tool string) bool {
	x := s.local.Load()
	return tool == "" || x != nil && x.LocalTool(tool) != nil
}

// has reports whether a place has the tool of a call with the descriptor that the caller saw.
func has(p *peers.Place, w unit.Want) bool {
	return w.Tool == "" || slices.ContainsFunc(p.Tools,
		func(t protocol.Tool) bool { return t.Name == w.Tool && bytes.Equal(t.Raw, w.Raw) })
}

// having returns the nodes that have the tool of a call, this node first.
func (s *set) having(w unit.Want) (nodes []string) {
	if x := s.local.Load(); x != nil && s.isHere(w.Tool) {
		nodes = append(nodes, s.self)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.places {
		if has(p, w) {
			nodes = append(nodes, p.Node)
		}
	}
	return nodes
}

// notAt is the error of a call for a node that does not have its tool.
func (s *set) notAt(w unit.Want) error {
	what := s.id
	if w.Tool != "" {
		what = "tool " + w.Tool + " of " + s.id + ", as it is listed here"
	}
	return protocol.Errorf(protocol.ToolNotFound, "node %s does not have %s; these do: %s", w.Node, what,
		strings.Join(s.having(w), ", "))
}

// order returns the places for a call, the best first: the one to which the session is pinned, then those with the
// fewest calls in flight from this host, and last those that have failed.
func (s *set) order(w unit.Want) []*peers.Place {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.pinned[w.Session].node
	refused := func(p *peers.Place) bool {
		return slices.ContainsFunc(w.Not, func(i *unit.Instance) bool { return i.Key == p.Node })
	}
	if p := s.at(own); p != nil && p.PerSession && !p.Leaving && refused(p) {
		return nil // the session's process there has state that others lack
	}
	fits := func(p *peers.Place) bool {
		if p.Leaving && p.Node != own || refused(p) {
			return false
		}
		return (w.Node == "" || w.Node == p.Node) && has(p, w)
	}
	var list []*peers.Place
	for _, p := range s.places {
		if fits(p) {
			list = append(list, p)
		}
	}
	if len(list) < 2 {
		return list
	}
	load := make(map[*peers.Place]int, len(list))
	for _, p := range list {
		if i := s.instances[p.Node]; i != nil {
			load[p] = i.Info().InFlight
		}
		if p.Node == own && w.Session != nil {
			load[p] = -1
		}
	}
	rank := func(p *peers.Place) int {
		switch {
		case load[p] < 0:
			return 0
		case hasFailed(p): // it would refuse the call
			return 2
		}
		return 1
	}
	slices.SortStableFunc(list, func(a, b *peers.Place) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(load[a], load[b]))
	})
	return list
}

// took records the instance that stands for a node, and pins the session if it gets its own instance there, or state
// that later calls refer to.
func (s *set) took(w unit.Want, p *peers.Place, i *unit.Instance) {
	s.mu.Lock()
	if s.instances[p.Node] != i {
		s.instances[p.Node] = i
		maps.DeleteFunc(s.instances, func(node string, _ *unit.Instance) bool { return s.at(node) == nil })
	}
	stays := w.Session != nil && w.Session.ID != "" && (p.PerSession || w.Tool == "")
	s.mu.Unlock()
	if stays {
		s.attached(w.Session, func() { s.stay(w.Session, p) })
	}
}

// stay pins a session to a place, unless the session is pinned to another place that takes calls.
func (s *set) stay(session *protocol.Session, p *peers.Place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if own := s.at(s.pinned[session].node); own == nil || own.Leaving && own != p {
		s.pinned[session] = pin{node: p.Node}
	}
}

// mayGoOn reports whether another node may take a call after a node has given no instance, with err.
func mayGoOn(err error) bool {
	e, ok := errors.AsType[*protocol.Error](err)
	if !ok || e.Outcome != "" {
		return false
	}
	switch e.Kind {
	case protocol.Overloaded, protocol.BreakerOpen, protocol.NotReady, protocol.Failed, protocol.ShuttingDown,
		protocol.SpawnFailed, protocol.HandshakeTimeout, protocol.HandshakeInvalid, protocol.RequirementMissing:
		return true
	}
	return false
}
