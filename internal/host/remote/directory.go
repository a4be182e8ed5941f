// Package remote adds the extensions of other nodes to this host, and chooses the node of each call.
package remote

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/internal/host/unit"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/peers"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
	"github.com/exthost/exthost/status"
	"github.com/exthost/exthost/tools"
)

// CodeDiffers is the code of the diagnostic about a tool that differs between this host and a replica.
const CodeDiffers = "replica_differs"

// Directory holds the extensions of other nodes. It is safe for concurrent use.
type Directory struct {
	cluster peers.Cluster // nil: no cluster
	env     *unit.Env
	events  func(*unit.Extension) unit.Events

	mu       sync.Mutex // guards the fields below
	sets     map[string]*set
	told     map[string]told                          // by id, about the extensions of this host
	attached func(s *protocol.Session, f func()) bool // see [Host.IfAttached]
	owners   owners
	round    uint64 // number of calls of Follow
}

// told is what the cluster was told about an extension of this host.
type told struct {
	state string
	shown bool               // its descriptors were published
	hs    *runtime.Handshake // the handshake at that time
}

// New returns an empty directory. events returns the callbacks of an extension.
func New(env *unit.Env, cluster peers.Cluster, events func(*unit.Extension) unit.Events) *Directory {
	return &Directory{cluster: cluster, env: env, events: events, sets: make(map[string]*set), owners: make(owners)}
}

// Open joins the cluster for h.
func (d *Directory) Open(ctx context.Context, h *Host) error {
	if d.cluster == nil {
		return nil
	}
	d.mu.Lock()
	d.attached = h.IfAttached
	d.mu.Unlock()
	return d.cluster.Open(ctx, h)
}

// Close leaves the cluster. Calls of other nodes have the time drain to end.
func (d *Directory) Close(ctx context.Context, drain time.Duration) error {
	if d.cluster == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, drain)
	defer cancel()
	return d.cluster.Close(ctx)
}

// Status returns the state of the cluster, nil without one.
func (d *Directory) Status() *status.Cluster {
	if d.cluster == nil {
		return nil
	}
	return d.cluster.Status()
}

// Shared are the extensions that other nodes share with a host.
type Shared struct {
	Alone       []*unit.Extension     // extensions that only other nodes have, sorted by id
	Replicas    []*unit.Extension     // replicas of extensions of this host, sorted by id
	Reserved    []string              // ids of extensions that other nodes had: their tool names stay reserved
	Diagnostics []protocol.Diagnostic // about extensions that are left out
}

// Follow updates the extensions of other nodes to the current places of the cluster. local are the extensions of this
// host, which take precedence in calls. isDestination reports whether an id belongs to a destination of this host.
func (d *Directory) Follow(local map[string]*unit.Extension, isDestination func(id string) bool) (f Shared) {
	if d.cluster == nil {
		return Shared{}
	}
	takenBy := func(p *peers.Place) string {
		switch id := p.ID(); {
		case isDestination(id):
			return "a destination of this host"
		case local[id] == nil:
			return ""
		case p.As == peers.AsMine:
			return "an extension of this host"
		case d.cluster.SharedAs(id) != peers.AsReplicas: // the operator has not declared them the same
			return "an extension of this host, which does not share it as replicas"
		}
		return ""
	}
	places := d.cluster.Places()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.round++
	byID, left := d.owners.admit(places, takenBy, d.round)
	f.Diagnostics = left
	f.Reserved = slices.DeleteFunc(d.owners.absent(d.round),
		func(id string) bool { return local[id] != nil || isDestination(id) })
	for id, s := range d.sets {
		if byID[id] == nil {
			s.leave()
			delete(d.sets, id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		s := d.sets[id]
		if s == nil {
			s = d.newSet(id, byID[id])
			d.sets[id] = s
		}
		s.follow(byID[id], local[id])
		if local[id] == nil {
			f.Alone = append(f.Alone, s.extension)
		} else {
			f.Replicas = append(f.Replicas, s.extension)
		}
	}
	for id, x := range local {
		if d.sets[id] == nil {
			x.SetRemote(nil, nil)
		}
	}
	return f
}

// instance returns the instance that stands for the node of p, nil if no call went there.
func (d *Directory) instance(p *peers.Place) *unit.Instance {
	d.mu.Lock()
	s := d.sets[p.ID()]
	d.mu.Unlock()
	if s == nil {
		return nil
	}
	return s.instance(p.Node)
}

// EndSession tells the nodes that had calls of s that it has ended.
func (d *Directory) EndSession(s *protocol.Session) {
	if d.cluster == nil {
		return
	}
	d.cluster.EndSession(s)
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, set := range d.sets {
		set.forget(s)
	}
}

// newSet makes the extension of an id from its first places. The caller holds d.mu.
func (d *Directory) newSet(id string, places []*peers.Place) *set {
	s := &set{
		cluster:   d.cluster,
		self:      d.env.Node,
		id:        id,
		attached:  d.attached,
		instances: make(map[string]*unit.Instance),
		pinned:    make(map[*protocol.Session]pin),
	}
	first := places[0]
	m := &manifest.Manifest{}
	m.Plugin.ID, m.Plugin.Name, m.Plugin.Version = id, id, first.Version
	m.Plugin.Description = "at other nodes of the cluster"
	m.Transport.Kind, m.Transport.Protocol = status.TransportCluster, first.Protocol
	spec := runtime.Spec{
		ID:       id,
		Manifest: m,
		Options: manifest.Options{
			Activation:   manifest.ActivationLazy,
			MaxInstances: maxNodes,
			MaxInFlight:  maxInFlight,
			MaxQueue:     maxInFlight,
			DrainTimeout: drainTimeout,
			Replay:       first.Replay,
		},
	}
	s.extension = unit.NewRemote(d.env, unit.Options{
		Candidate: discovery.Candidate{ID: id, Manifest: m},
		Spec:      spec,
		Start:     func(_ runtime.Spec, node string) (runtime.Instance, error) { return newInstance(s, node), nil },
		Keep:      func(string) bool { return true },
	}, d.events)
	return s
}

const (
	maxNodes     = 4096 // nodes of one extension
	maxInFlight  = 4096 // calls of one extension at one node; the node has its own bound
	drainTimeout = 30 * time.Second
)

// handshake returns the handshake of an extension that only other nodes have: the tools of the first place, plus
// those that only later places have.
func handshake(places []*peers.Place) *runtime.Handshake {
	first := places[0]
	hs := &runtime.Handshake{
		ServerVersion:   first.Version,
		Protocol:        first.Protocol,
		ProtocolVersion: first.ProtocolVersion,
		Capabilities:    first.Capabilities,
		Instructions:    first.Instructions,
		ServerInfo:      first.ServerInfo,
	}
	hs.Tools = toolsOf(places)
	return hs
}

func toolsOf(places []*peers.Place) (list []protocol.Tool) {
	known := make(map[string]bool)
	for _, p := range places {
		for _, t := range p.Tools {
			if !known[t.Name] {
				known[t.Name] = true
				list = append(list, t)
			}
		}
	}
	return list
}

// risksOf returns the risk of each tool at the nodes that have it, the highest if they differ.
func risksOf(places []*peers.Place) map[string]protocol.Risk {
	risks := make(map[string]protocol.Risk)
	for _, p := range places {
		for _, t := range p.Tools {
			risk, stated := p.Risks[t.Name]
			if !stated {
				risk = tools.RiskOf(rawjson.Get(t.Raw, "annotations"))
			}
			if known, ok := risks[t.Name]; !ok || risk.Exceeds(known) {
				risks[t.Name] = risk
			}
		}
	}
	return risks
}

// differences is the Differs of [unit.Remote].
func differences(id string, places []*peers.Place, local []protocol.Tool) (diags []protocol.Diagnostic) {
	own := make(map[string]json.RawMessage)
	for _, t := range local {
		own[t.Name] = t.Raw
	}
	for _, p := range places {
		for _, t := range p.Tools {
			if raw, ok := own[t.Name]; ok && string(raw) != string(t.Raw) {
				diags = append(diags, protocol.Diagnostic{
					Level:   protocol.LevelWarn,
					Code:    CodeDiffers,
					Message: "tool " + t.Name + " differs from that of node " + p.Node + ", which gets no calls of it",
					Hint:    "bring " + id + " to one version on all nodes, or share it as mine",
				})
			}
		}
	}
	return diags
}
