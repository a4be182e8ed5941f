package exthost

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/hooks"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/tools"
)

// generation is everything a call needs, swapped as one. An exchange uses the
// generation it entered with to its end.
type generation struct {
	catalog    *tools.Catalog
	hooks      *hooks.Set
	policy     *governance.Pipeline
	extensions map[string]*extension
}

// offersChanged asks for a new generation; many askers share one.
func (h *Host) offersChanged() {
	select {
	case h.changed <- struct{}{}:
	default: // one is due already and will see this change too
	}
}

// rebuildLoop makes new generations as extensions come, go and change their tools.
func (h *Host) rebuildLoop(ctx context.Context) {
	for {
		select {
		case <-h.changed:
			h.rebuild()
		case <-ctx.Done():
			return
		}
	}
}

// rebuild makes the next generation from what the extensions offer now and swaps
// it in; clients are told when their list of tools is another.
func (h *Host) rebuild() {
	h.rebuilding.Lock()
	defer h.rebuilding.Unlock()
	var sources []tools.Source
	var diags []protocol.Diagnostic
	for _, id := range h.order {
		offered, found := h.extensions[id].offered()
		for _, d := range found {
			d.Extension = id
			diags = append(diags, d)
		}
		sources = append(sources, tools.Source{Extension: id, Tools: offered})
	}
	var before *tools.Catalog
	number := uint64(1)
	if prev := h.gen.Load(); prev != nil {
		before, number = prev.catalog, prev.catalog.Generation()+1
	}
	catalog, found := tools.NewCatalog(number, sources, before)
	h.gen.Store(&generation{
		catalog:    catalog,
		hooks:      hooks.NewSet(h.opts.Hooks...),
		policy:     h.policy,
		extensions: h.extensions,
	})
	h.reportOffers(append(diags, found...))
	if before != nil && !sameTools(before, catalog) {
		select {
		case h.announce <- struct{}{}:
		default: // clients are to be told already
		}
	}
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

// announceLoop tells clients of changed tools, as long as the slowest takes.
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
	h.mu.Lock()
	listeners := slices.Collect(maps.Keys(h.sessions))
	h.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, listChangedTimeout)
	defer cancel()
	var wg sync.WaitGroup
	for _, s := range listeners {
		if s.Client == nil {
			continue
		}
		wg.Go(func() {
			if err := s.Client.Notify(ctx, protocol.MethodToolsListChanged, nil); err != nil {
				h.log.Debug("a client was not told of the new tool list", "session", s.ID, "error", err)
			}
		})
	}
	wg.Wait()
}
