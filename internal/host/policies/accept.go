package policies

import (
	"errors"
	"slices"

	"github.com/exthost/exthost/governance/pins"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// Pins returns the pinned descriptors, then the items held back for hidden text.
func (set *Set) Pins() (list []status.Pin) {
	for _, p := range set.pinning {
		for _, pin := range p.Pins().List() {
			list = append(list, status.Pin{Policy: p.name, Pin: pin})
		}
	}
	for _, pin := range set.hidden.List() {
		list = append(list, status.Pin{Pin: pin})
	}
	return list
}

// ApprovePins pins the selected items as they were shown, and returns them. by names the approver. The error is
// tool_not_found if nothing is selected, or if an item has changed since it was shown.
func (s *State) ApprovePins(set *Set, selected status.Selection, by string) (approved []status.Pin, err error) {
	for _, p := range set.Pins() {
		if !selected.Has(&p) {
			continue
		}
		if err := set.approve(&p, by); errors.Is(err, pins.ErrOther) || errors.Is(err, pins.ErrNothingHeld) {
			return approved, protocol.Errorf(protocol.ToolNotFound, "%w: look again with exthost policy pins", err)
		} else if err != nil {
			return approved, protocol.Errorf(protocol.ConfigInvalid,
				"%s is accepted until this host ends, and not longer: %w", p.Extension, err)
		}
		approved = append(approved, p)
		s.env.Log.Info("a change was approved", "extension", p.Extension, "what", p.Label, "policy", p.Policy, "digest",
			p.Digest, "by", by)
	}
	if len(approved) == 0 {
		return nil, set.nothingWithheld(selected)
	}
	return approved, nil
}

func (set *Set) approve(p *status.Pin, by string) error {
	if p.Policy == "" {
		return set.hidden.Accept(p.Extension, p.Kind, p.Name, p.Digest)
	}
	n := slices.IndexFunc(set.pinning, func(one pinning) bool { return one.name == p.Policy })
	return set.pinning[n].Pins().Approve(p.Extension, p.Kind, p.Name, p.Digest, by)
}

// nothingWithheld returns why there is nothing to accept.
func (set *Set) nothingWithheld(s status.Selection) error {
	known := func(p status.Pin) bool { return p.Extension == s.Extension && p.Label == s.Label }
	waits := func(p status.Pin) bool { return s.Names(&p) }
	switch {
	case len(s.Digests) == 0 && slices.ContainsFunc(set.Pins(), waits):
		return protocol.Errorf(protocol.ToolNotFound,
			"nothing was accepted of %s: state the digests of what was shown, as exthost policy pins -o json lists "+
				"them", s.Extension)
	case slices.ContainsFunc(set.Pins(), waits):
		return protocol.Errorf(protocol.ToolNotFound,
			"%s has changed again since it was shown, and nothing was accepted: look again with exthost policy pins",
			s.Extension)
	case s.Label == "":
		return protocol.Errorf(protocol.ToolNotFound,
			"no tool of an extension %q has changed: there is nothing to accept", s.Extension)
	case len(set.pinning) > 0 && !slices.ContainsFunc(set.Pins(), known):
		return protocol.Errorf(protocol.ToolNotFound, "no tool %q of %s is pinned; name it as the extension does",
			s.Label, s.Extension)
	}
	return protocol.Errorf(protocol.ToolNotFound, "the tool %s of %s has not changed: there is nothing to accept",
		s.Label, s.Extension)
}
