package exthost

import (
	"encoding/json"
	"path/filepath"
	"slices"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/builtin"
	"github.com/exthost/exthost/governance/results"
	"github.com/exthost/exthost/internal/rawjson"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/tools"
)

// spills reports whether m cuts results and keeps what it cuts off. In shadow mode
// it does not cut.
func spills(m governance.Member) bool {
	_, ok := m.Policy.(builtin.Offloader)
	return ok && m.Spec.Mode != governance.ModeShadow
}

// openResults opens the store of results, if r is the first roster to need it. It
// stays until the host is closed.
func (h *Host) openResults(r *roster) error {
	if h.opts.Inspect || h.oversight.results.Load() != nil || !slices.ContainsFunc(r.members, spills) {
		return nil
	}
	store, err := results.Open(results.Options{Dir: filepath.Join(h.opts.StateDir, ".results")})
	if err != nil {
		return protocol.Errorf(protocol.ConfigInvalid, "plugins: no place for the results that size_cap cuts: %w", err)
	}
	h.oversight.results.Store(store)
	return nil
}

// spill gives the members of r that cut results a place for what they cut off.
func (h *Host) spill(r *roster) {
	for _, m := range r.members {
		p, ok := m.Policy.(builtin.Offloader)
		switch {
		case !ok:
		case spills(m):
			p.OffloadTo(h.oversight.results.Load())
		default:
			p.OffloadTo(nil)
		}
	}
}

// ownTools are the host's own.
func (r *roster) ownTools() (list []tools.Source) {
	if slices.ContainsFunc(r.members, spills) {
		list = append(list, tools.Source{Tools: []protocol.Tool{results.Tool()}})
	}
	return list
}

// callOwn answers a call of one of the host's own tools.
func (r *routed) callOwn(x *governance.Exchange) (json.RawMessage, error) {
	return r.gen.oversight.results.Load().Call(results.Owner{Caller: x.Caller, Session: x.Session}, rawjson.Get(x.Request, "arguments"))
}
