package snapshot

import (
	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/internal/unit"
	"github.com/exthost/exthost/status"
)

// Describe adds the extensions and destinations to st, whose Diagnostics are complete.
func (s *Snapshot) Describe(st *status.Status) {
	st.Generation = s.Catalog.Generation()
	st.Extensions = []status.Extension{}
	for x := range s.Ordered {
		e := x.Status()
		for _, entry := range s.Catalog.Extension(x.ID()) {
			e.Tools = append(e.Tools, entry.Name)
		}
		e.Withheld = s.Catalog.WithheldOf(x.ID())
		st.Extensions = append(st.Extensions, e)
	}
	for d := range s.OrderedDestinations {
		st.Destinations = append(st.Destinations, d.Status())
	}
	for _, c := range s.Skipped {
		e := unit.Describe(c)
		e.State, e.Reason = status.StateSkipped, skipReason(c, st.Diagnostics)
		st.Extensions = append(st.Extensions, e)
	}
	for _, d := range st.Diagnostics {
		if reason, ok := disabledBy[d.Code]; ok {
			st.Extensions = append(st.Extensions, status.Extension{ID: d.Extension, Path: d.Path, State: status.StateDisabled, Reason: reason, Tools: []string{}})
		}
	}
}

// disabledBy says which key of the configuration disables an extension, by the code of the
// diagnostic.
var disabledBy = map[string]string{
	discovery.CodeDisabled:       "extensions.disabled names it",
	discovery.CodeNotAllowlisted: "extensions.allowlist does not name it",
}
