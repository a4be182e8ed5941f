package directory

import (
	"time"

	"github.com/exthost/exthost/peers"
)

// placed is a place and the offer that it was made of.
type placed struct {
	*peers.Place
	offer *offer
}

// placesOf returns the places of a node that may have left more tools, and how many are left
// then. It notes the digests that are used, and has those fetched that are missing. A node has no
// place for an extension until all of its descriptors are here.
func (s *state) placesOf(m *member, left int, used map[string]bool, now time.Time) ([]placed, int) {
	if m.note = m.strangeness; m.note != "" {
		return nil, left
	}
	places := make([]placed, 0, len(m.places))
	for _, x := range m.Shares {
		if !s.o.Use(m.name, x.ID) {
			continue
		}
		if x.Tools > left {
			if m.note == "" {
				m.note = "extension " + x.ID + " is left out: the tools of all nodes together are more than cluster.max_tools"
			}
			continue
		}
		left -= x.Tools
		used[x.Digest] = true
		o := s.offer(x.Digest)
		switch {
		case o != nil && (o.Extension != x.ID || len(o.Tools) != x.Tools):
			m.note = "extension " + x.ID + " is left out: what it offers is not what the node says of it"
		case o != nil:
			places = append(places, m.place(x, o))
		case m.away:
		default:
			s.miss(m, x, now)
		}
	}
	return places, left
}

// miss has an offer fetched.
func (s *state) miss(m *member, x shared, now time.Time) {
	f := s.missing[x.Digest]
	switch {
	case f == nil && s.offers.bytes >= maxKept:
		m.note = "extension " + x.ID + " is left out: the descriptors of all nodes together take too much memory; narrow cluster.use"
	case f == nil:
		s.missing[x.Digest] = &fetch{owner: m.address(), next: now}
	case f.problem != "":
		m.note = "extension " + x.ID + " is left out until its descriptors come: " + f.problem
	}
}

// place returns the place that was there before, if nothing of it has changed.
func (m *member) place(x shared, o *offer) placed {
	leaving := m.away || m.Leaving
	for _, old := range m.places {
		if b := old.Place; old.offer == o && b.Run == m.Run && b.As == x.As && b.Leaving == leaving && b.State == x.State {
			return old
		}
	}
	p := &peers.Place{Node: m.name, Run: m.Run, As: x.As, Leaving: leaving, Offer: o.Offer, Digests: o.digests}
	p.State = x.State
	return placed{p, o}
}
