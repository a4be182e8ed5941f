package snapshot

import (
	"slices"
	"strings"

	"github.com/exthost/exthost/governance/pins"
	"github.com/exthost/exthost/internal/host/descriptors"
	"github.com/exthost/exthost/status"
)

// Pins returns the pinned descriptors, the items held back for hidden text, and the tools of other extensions
// that changed since the operator accepted them.
func (s *Snapshot) Pins() []status.Pin {
	list := s.Policies.Pins()
	for x := range s.Ordered {
		guarded := s.Policies.PinsToolsOf(x.ID())
		for _, p := range x.Pending() {
			if !guarded || p.Gone() { // policies report the others
				list = append(list, changedPin(x.ID(), p))
			}
		}
	}
	return list
}

func changedPin(extension string, p descriptors.Pending) status.Pin {
	lines := make([]string, len(p.Changes))
	for i, c := range p.Changes {
		lines[i] = c.String()
	}
	return status.Pin{
		Pin: pins.Pin{
			Extension: extension,
			Kind:      pins.Tool,
			Name:      p.Tool,
			Label:     p.Tool,
			Diff:      strings.Join(lines, "\n"),
			Digest:    p.Digest,
		},
	}
}

// AcceptTools accepts the selected changed tools of an extension, and the tools of pinned.
func (s *Snapshot) AcceptTools(selected status.Selection, pinned []status.Pin) (accepted bool, err error) {
	x := s.Extensions[selected.Extension]
	if x == nil {
		return false, nil
	}
	guarded := s.Policies.PinsToolsOf(selected.Extension)
	return x.AcceptTools(func(p descriptors.Pending) bool {
		isPinned := func(one status.Pin) bool { return one.Kind == pins.Tool && one.Name == p.Tool }
		if slices.ContainsFunc(pinned, isPinned) {
			return true
		}
		one := changedPin(selected.Extension, p)
		return (!guarded || p.Gone()) && selected.Has(&one)
	})
}
