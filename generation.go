package exthost

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/exthost/exthost/hooks"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/tools"
)

// generation is everything a call needs, swapped as one. An exchange uses the
// generation it entered with to its end.
type generation struct {
	*roster
	oversight *oversight
	catalog   *tools.Catalog
	hooks     *hooks.Set

	users atomic.Int64  // exchanges in it, and the host while it is the current one
	left  chan struct{} // closed when the last of them has left
	once  sync.Once
}

// enter returns the current generation. Whatever it holds is not stopped before
// the caller has left it.
func (h *Host) enter() *generation {
	for {
		g := h.gen.Load()
		g.users.Add(1)
		if h.gen.Load() == g {
			return g
		}
		g.leave() // replaced meanwhile, and maybe left by all
	}
}

func (g *generation) leave() {
	if g.users.Add(-1) == 0 {
		g.once.Do(func() { close(g.left) })
	}
}

// offersChanged asks for a new generation; many askers share one.
func (h *Host) offersChanged() {
	select {
	case h.changed <- struct{}{}:
	default: // one is due already and will see this change too
	}
}

// rebuildPause lets extensions that change together share a generation.
const rebuildPause = 5 * time.Millisecond

// rebuildLoop makes new generations as extensions come, go and change their tools.
func (h *Host) rebuildLoop(ctx context.Context) {
	for {
		select {
		case <-h.changed:
			h.rebuild()
		case <-ctx.Done():
			return
		}
		select {
		case <-time.After(rebuildPause):
		case <-ctx.Done():
			return
		}
	}
}

// rebuild makes the next generation from what the extensions offer now.
func (h *Host) rebuild() { h.succeed(nil) }

// succeed makes the next generation of r, or of the roster that there is, and
// swaps it in; clients are told when their list of tools is another.
func (h *Host) succeed(r *roster) {
	h.rebuilding.Lock()
	defer h.rebuilding.Unlock()
	var before *tools.Catalog
	number := uint64(1)
	prev := h.gen.Load()
	if prev != nil {
		before, number = prev.catalog, prev.catalog.Generation()+1
		r = cmp.Or(r, prev.roster)
	}
	catalog, diags := h.catalog(r, number, before)
	next := &generation{
		roster: r, oversight: &h.oversight, catalog: catalog, left: make(chan struct{}),
	}
	next.hooks = h.newHooks(next)
	next.users.Store(1)
	h.gen.Store(next)
	h.reportOffers(diags)
	h.feed.publish(Event{Kind: EventTools, Tools: &ToolsEvent{number, len(catalog.Entries())}})
	if prev == nil {
		return
	}
	prev.leave()
	h.past = append(slices.DeleteFunc(h.past, (*generation).isLeft), prev)
	if !sameTools(before, catalog) {
		select {
		case h.announce <- struct{}{}:
		default: // clients are to be told already
		}
	}
}

func (g *generation) isLeft() bool {
	select {
	case <-g.left:
		return true
	default:
		return false
	}
}

// catalog lists what the extensions of r offer now, and what is wrong with it.
func (h *Host) catalog(r *roster, number uint64, before *tools.Catalog) (*tools.Catalog, []protocol.Diagnostic) {
	sources := r.ownTools()
	var diags []protocol.Diagnostic
	policies := r.pinning()
	for _, x := range r.inOrder() {
		offered, found := x.offered()
		for _, d := range found {
			d.Extension = x.candidate.ID
			diags = append(diags, d)
		}
		source := tools.Source{Extension: x.candidate.ID, Tools: offered}
		for _, p := range policies {
			withheld, found := p.withhold(x, p.hold(x, offered))
			source.Withheld, diags = append(source.Withheld, withheld...), append(diags, found...)
		}
		sources = append(sources, source)
	}
	for _, p := range policies {
		for _, x := range r.destinations() { // which list their tools themselves
			_, found := p.withhold(x, p.held(x))
			diags = append(diags, found...)
		}
		if !h.opts.Inspect {
			diags = append(diags, p.save()...)
		}
	}
	catalog, found := tools.NewCatalog(number, sources, before)
	return catalog, append(diags, found...)
}

// reportOffers replaces what was found wrong with the offers of the last
// generation, and logs what is new.
func (h *Host) reportOffers(diags []protocol.Diagnostic) {
	h.mu.Lock()
	before := h.offerDiagnostics
	h.offerDiagnostics = diags
	h.mu.Unlock()
	known := make(map[protocol.Diagnostic]bool, len(before))
	for _, d := range before {
		known[d] = true
	}
	for _, d := range diags {
		if !known[d] {
			h.logDiagnostic(d)
		}
	}
}

// announceLoop tells clients of changed tools, as long as the slowest may take.
func (h *Host) announceLoop(ctx context.Context) {
	for {
		select {
		case <-h.announce:
			h.notifyListChanged(ctx)
		case <-ctx.Done():
			return
		}
	}
}

func sameTools(a, b *tools.Catalog) bool {
	return slices.EqualFunc(a.Entries(), b.Entries(), func(x, y *tools.Entry) bool {
		return x.Name == y.Name && bytes.Equal(x.Descriptor, y.Descriptor)
	})
}

// listChangedTimeout bounds what slow clients can cost the others.
const listChangedTimeout = 2 * time.Second

func (h *Host) notifyListChanged(ctx context.Context) {
	g := h.gen.Load()
	h.mu.Lock()
	listeners := maps.Clone(h.sessions)
	h.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, listChangedTimeout)
	defer cancel()
	told, telling := make(chan struct{}, len(listeners)), 0
	for s, a := range listeners {
		if s.Client == nil || g.bridged[s.Extension] != nil || !a.telling.CompareAndSwap(false, true) {
			continue // nobody to tell, or one who has still not returned from the last time
		}
		telling++
		h.running.Go(func() {
			if err := s.Client.Notify(ctx, protocol.MethodToolsListChanged, nil); err != nil {
				h.log.Debug("a client was not told of the new tool list", "session", s.ID, "error", err)
			}
			a.telling.Store(false)
			told <- struct{}{}
		})
	}
	for ; telling > 0; telling-- {
		select {
		case <-told:
		case <-ctx.Done(): // which a client may not care for
			return
		}
	}
}
