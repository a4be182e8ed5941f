package remote

import (
	"context"
	"encoding/json"

	"github.com/exthost/exthost/internal/host/gateway"
	"github.com/exthost/exthost/internal/host/snapshot"
	"github.com/exthost/exthost/internal/host/unit"
	"github.com/exthost/exthost/peers"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/supervisor"
	"github.com/exthost/exthost/tools"
)

// Host presents the host to its cluster.
type Host struct {
	Calls interface { // the host's path of calls
		Attach(ctx context.Context, s *protocol.Session) error
		Do(ctx context.Context, c *protocol.Call) (json.RawMessage, error)
	}
	Snapshots *snapshot.Store
	Gateway   *gateway.Gateway
	Directory *Directory
	Nodes     interface { // operations for operators
		Operate(ctx context.Context, o *peers.Operation) (json.RawMessage, error)
		WaitingChanged()
	}
	Changed func() // called when the places have changed; must not block
}

var _ peers.Host = (*Host)(nil)

// Attach implements [peers.Host].
func (h *Host) Attach(ctx context.Context, s *protocol.Session) error {
	return h.Calls.Attach(ctx, s)
}

// IfAttached implements [peers.Host].
func (h *Host) IfAttached(s *protocol.Session, f func()) (attached bool) {
	return h.Gateway.Sessions.IfAttached(s, f)
}

// Do implements [peers.Host]. The call can only reach an extension of this host itself.
func (h *Host) Do(ctx context.Context, c *protocol.Call) (json.RawMessage, error) {
	if h.Snapshots.Load().Extensions[c.Extension] == nil {
		return nil, protocol.Errorf(protocol.ToolNotFound, "there is no extension %q at this node", c.Extension)
	}
	return h.Calls.Do(ctx, c)
}

// Incoming implements [peers.Host].
func (h *Host) Incoming(ctx context.Context, p *peers.Place, s *protocol.Session, method string, params json.RawMessage,
	notify bool) (json.RawMessage, error) {
	i := h.Directory.instance(p)
	switch {
	case i == nil:
		return nil, protocol.Errorf(protocol.ToolNotFound, "no call of this host went to %s", p.ID())
	case s != nil:
		return h.Gateway.Forward(ctx, i, s, method, params, notify)
	}
	return h.Gateway.Incoming(ctx, i, method, params, notify)
}

// PlacesChanged implements [peers.Host].
func (h *Host) PlacesChanged() { h.Changed() }

// Operate implements [peers.Host].
func (h *Host) Operate(ctx context.Context, o *peers.Operation) (json.RawMessage, error) {
	return h.Nodes.Operate(ctx, o)
}

// WaitingChanged implements [peers.Host].
func (h *Host) WaitingChanged() { h.Nodes.WaitingChanged() }

// Events returns the callbacks of extensions that only other nodes have. state receives the events of their
// supervisors.
func Events(s *snapshot.Store, g func() *gateway.Gateway, state func(id string, e supervisor.Event),
) func(*unit.Extension) unit.Events {
	return func(x *unit.Extension) unit.Events {
		return unit.Events{
			Described: func(i *unit.Instance, _ bool) { s.Load().Policies.Pin(i) },
			Incoming: func(ctx context.Context, i *unit.Instance, method string, params json.RawMessage,
				notify bool) (json.RawMessage, error) {
				return g().Incoming(ctx, i, method, params, notify)
			},
			State: func(e supervisor.Event) { state(x.ID(), e) },
		}
	}
}

// Restate calls [Directory.Offer] if the state of an extension has changed since it was published.
func (d *Directory) Restate(s *snapshot.Snapshot) {
	if d.cluster == nil {
		return
	}
	d.mu.Lock()
	known := d.told
	d.mu.Unlock()
	for x := range s.Local {
		if before := known[x.ID()]; before.shown && before.state != x.Unit.Status().State {
			d.offer(s, true)
			return
		}
	}
}

// Offer publishes the descriptors of this host's extensions in a snapshot. Calls of Offer and Restate must not
// overlap.
func (d *Directory) Offer(s *snapshot.Snapshot) {
	if d.cluster != nil {
		d.offer(s, false)
	}
}

// offer is Offer; again says that the snapshot was published before. An extension without tools in the catalog waits
// for the next snapshot, because its handshake may have come after the catalog was made.
func (d *Directory) offer(s *snapshot.Snapshot, again bool) {
	d.mu.Lock()
	known := d.told
	d.mu.Unlock()
	var list []peers.Offer
	now := make(map[string]told)
	for x := range s.Local {
		hs, state, before := x.Handshake(), x.Unit.Status().State, known[x.ID()]
		own, risks := ownTools(s, x)
		if hs == nil && len(own) == 0 && s.Skills[x.ID()] == nil {
			continue
		}
		if len(own) == 0 && hs != nil && len(hs.Tools) > 0 && !before.shown && (again || before.hs != hs) {
			if !again {
				before.hs = hs
			}
			now[x.ID()] = before
			continue
		}
		now[x.ID()] = told{state, true, hs}
		o := peers.Offer{
			Extension:  x.ID(),
			Version:    x.Candidate.Manifest.Plugin.Version,
			Protocol:   x.Candidate.Manifest.Transport.Protocol,
			State:      state,
			PerSession: x.PerSession(),
			Replay:     x.Spec.Options.Replay,
			Pages:      s.Policies.Offloads(),
			Tools:      own,
			Risks:      risks,
			// this node serves the skills in its folder, whatever protocol the extension speaks
			Capabilities: s.Capabilities(x),
		}
		if hs != nil {
			o.ProtocolVersion = hs.ProtocolVersion
			o.ServerInfo, o.Instructions = hs.ServerInfo, hs.Instructions
		}
		list = append(list, o)
	}
	d.mu.Lock()
	d.told = now
	d.mu.Unlock()
	d.cluster.Offer(list)
}

// ownTools returns the tools that an extension of this host has here, and the risks that differ from what they state.
func ownTools(s *snapshot.Snapshot, x *unit.Extension) (own []protocol.Tool, risks map[string]protocol.Risk) {
	risks = make(map[string]protocol.Risk)
	for _, e := range s.Catalog.Extension(x.ID()) {
		if x.LocalTool(e.Tool) == nil { // only other nodes have the tool
			continue
		}
		if own = append(own, protocol.Tool{Name: e.Tool, Raw: e.Raw}); e.Risk != tools.RiskOf(e.Annotations) {
			risks[e.Tool] = e.Risk
		}
	}
	return own, risks
}
