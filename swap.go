package exthost

import (
	"time"

	"github.com/exthost/exthost/internal/host/bridge"
	"github.com/exthost/exthost/internal/host/snapshot"
	"github.com/exthost/exthost/internal/host/unit"
	"github.com/exthost/exthost/internal/recording/recorder"
	"github.com/exthost/exthost/internal/text/diagnostics"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
	"github.com/exthost/exthost/tools"
)

// adopt puts a plan in force.
func (h *Host) adopt(p *snapshot.Plan) {
	h.policies.Install(p.Policies)
	if !h.opts.Mode.Inspect {
		h.env.PruneDescriptors(p.Extensions)
		record := p.Config.Record
		h.recording.Follow(recorder.Config{
			File:       record.File,
			Within:     record.Within,
			Extensions: record.Extensions,
			MaxBytes:   int64(record.MaxBytes),
		})
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

// followPlaces gives p the extensions that other nodes share now.
func (h *Host) followPlaces(p *snapshot.Plan) {
	shared := h.remote.Follow(p.Extensions, func(id string) bool { return p.Destinations[id] != nil })
	p.Remote, p.Replicas, p.Reserved = shared.Alone, shared.Replicas, shared.Reserved
	p.LeftOut = diagnostics.Capped(shared.Diagnostics, maxLeftOut)
}

// maxLeftOut bounds the diagnostics about shared extensions that are left out.
const maxLeftOut = 100

// swap makes the next snapshot from the current descriptors of the extensions of p, or of the current plan if p
// is nil. If the list of tools changed, clients are notified.
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
				h.remote.Offer(next)
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

// Pauses that let changes share one snapshot or one notification. Clients answer a notification by requesting all
// tools.
const (
	rebuildPause  = 5 * time.Millisecond
	placesPause   = 250 * time.Millisecond // before extensions of other nodes are taken over
	restatePause  = 100 * time.Millisecond // before other nodes are told of changed states
	announcePause = 100 * time.Millisecond
)

// extensionDescribed handles the handshake of an instance, or with announced a later change of its tools: it keeps
// the descriptors for the next start, and requests a new snapshot.
func (h *Host) extensionDescribed(x *unit.Extension, i *unit.Instance, announced bool) {
	h.snapshots.Load().Policies.Pin(x.ID(), i.Handshake(), i.Legacy)
	if i.Legacy { // its descriptors are not kept
		h.life.rebuild.Add()
		return
	}
	x.Remember(i, announced)
	h.life.rebuild.Add()
}

// destinationDescribed handles the handshake of an instance of d, or with announced a later change of its tools.
// After a handshake it starts the standby for the next connection; a change is sent to the instance's session.
func (h *Host) destinationDescribed(d *bridge.Destination, i *unit.Instance, announced bool) {
	h.snapshots.Load().Policies.Pin(d.ID(), i.Handshake(), i.Legacy)
	h.life.rebuild.Add()
	if announced {
		h.gateway.NotifyListed(i.Unit, i, protocol.MethodToolsListChanged)
		return
	}
	h.life.beside.Go(func() { d.Refill(h.life.closing) })
}
