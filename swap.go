package exthost

import (
	"time"

	"github.com/exthost/exthost/internal/host/bridge"
	"github.com/exthost/exthost/internal/host/snapshot"
	"github.com/exthost/exthost/internal/host/unit"
	"github.com/exthost/exthost/internal/text/diagnostics"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
	"github.com/exthost/exthost/tools"
)

// adopt puts a plan in force.
func (h *Host) adopt(p *snapshot.Plan) {
	h.policies.Install(p.Policies)
	if !h.opts.Mode.Inspect {
		h.env.PruneOffers(p.Extensions)
		h.recording.Follow(p.Config.Record)
	}
	var known []protocol.Diagnostic
	if now := h.snapshots.Load(); now != nil {
		known = now.Diagnostics
	}
	h.diagnostics.WriteNew(p.Diagnostics, known)
	h.followPlaces(p)
	h.units.Add(p.Units())
	h.swap(p)
	h.destinations.Replace(p.Destinations)
}

// followPlaces gives a plan the extensions that other nodes share now.
func (h *Host) followPlaces(p *snapshot.Plan) {
	shared := h.far.Follow(p.Extensions, func(id string) bool { return p.Destinations[id] != nil })
	p.Elsewhere, p.Replicas, p.Reserved = shared.Alone, shared.Replicas, shared.Reserved
	p.LeftOut = diagnostics.Capped(shared.Diagnostics, maxLeftOut)
}

// maxLeftOut bounds the diagnostics about what is left out of what other nodes share.
const maxLeftOut = 100

// swap makes the next snapshot from what the extensions of p, or of the current plan when
// it is nil, offer now. Clients are notified when their list of tools has changed.
func (h *Host) swap(p *snapshot.Plan) {
	defer h.life.starting.BeforeSnapshot()()
	otherTools := h.snapshots.Replace(p,
		func(next *snapshot.Snapshot, number uint64, before *snapshot.Snapshot) (published func()) {
			var last *tools.Catalog
			if before != nil {
				last = before.Catalog
			}
			catalog, diags := next.Plan.Catalog(number, last, h.clients.Names())
			if !h.opts.Mode.Inspect {
				diags = append(diags, next.Policies.SavePins()...)
			}
			declared, found := next.Plan.DeclaredNow(nil)
			next.Catalog, next.Hooks, next.Declared, diags = catalog, h.hooks.of(next), declared, append(diags,
				found...)
			diags = append(diags, next.SetToolsets(before)...)
			next.SetIndexes(before)
			return func() {
				h.diagnostics.SetOffered(diags)
				h.far.Offer(next)
				h.stats.feed.Send(status.Event{
					Kind:  status.EventTools,
					Tools: &status.ToolsEvent{Generation: number, Count: len(catalog.Entries())},
				})
			}
		})
	if otherTools {
		h.life.announce.Add()
	}
}

// rebuildPause lets extensions that change together share a snapshot. announcePause lets
// snapshots share a notification, which clients answer by a request for all tools.
const (
	rebuildPause  = 5 * time.Millisecond
	placesPause   = 250 * time.Millisecond // for what other nodes share
	restatePause  = 100 * time.Millisecond // for what they are told besides tools
	announcePause = 100 * time.Millisecond
)

// extensionOffered takes the handshake of an instance, or with announced a later change of
// its tools: it keeps the offer for the next start, and asks for a new snapshot.
func (h *Host) extensionOffered(x *unit.Extension, i *unit.Instance, announced bool) {
	h.snapshots.Load().Policies.Pin(x.ID(), i.Handshake(), i.Legacy)
	if i.Legacy { // this instance serves calls, and its offer is not kept
		h.life.rebuild.Add()
		return
	}
	x.Remember(i, announced)
	h.life.rebuild.Add()
}

// destinationOffered takes the handshake of an instance of d, or with announced a later
// change of its tools. The next connection finds a process on standby; the session of the
// instance is notified of a change.
func (h *Host) destinationOffered(d *bridge.Destination, i *unit.Instance, announced bool) {
	h.snapshots.Load().Policies.Pin(d.ID(), i.Handshake(), i.Legacy)
	h.life.rebuild.Add()
	if announced {
		h.gateway.NotifyListed(i.Unit, i, protocol.MethodToolsListChanged)
		return
	}
	h.life.beside.Go(func() { d.Refill(h.life.closing) })
}
