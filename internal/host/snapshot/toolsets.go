package snapshot

import (
	"github.com/exthost/exthost/internal/listing/toolset"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// SetToolsets sets the toolset views of s, after its catalog, and reports patterns and names that match nothing
// known. before is the previous snapshot, nil for the first.
func (s *Snapshot) SetToolsets(before *Snapshot) []protocol.Diagnostic {
	defined := s.Config.Toolsets
	if len(defined) == 0 {
		s.Toolsets = toolset.NewViews(nil, nil, nil, nil)
		return nil
	}
	var all []toolset.Extension
	for x := range s.Ordered {
		hs := x.Handshake()
		more := hs == nil && !x.TellsTools()
		if x.Candidate.Manifest.Transport.Protocol == manifest.ProtocolMCP {
			more = hs == nil
			for _, capability := range []string{"prompts", "resources", "extensions"} {
				more = more || rawjson.Get(hs.Capabilities, capability) != nil
			}
		}
		all = append(all, toolset.Extension{ID: x.ID(), Opaque: more})
	}
	for d := range s.OrderedDestinations {
		all = append(all, toolset.Extension{ID: d.ID(), Opaque: true})
	}
	for _, id := range s.absent().Extensions {
		if s.Target(id) == nil {
			all = append(all, toolset.Extension{ID: id, Absent: true})
		}
	}
	var last *toolset.Views
	if before != nil {
		last = before.Toolsets
	}
	s.Toolsets = toolset.NewViews(defined, s.Catalog, all, last)
	return s.Toolsets.Unmatched(defined, s.Catalog, all)
}
