package directory

import (
	"time"

	"github.com/exthost/exthost/peers"
)

// placed is a place with the offer that it was made from.
type placed struct {
	*peers.Place
	offer *offer
}

// placesOf returns the places of a node that fit in left tools, and how many tools are left then. It adds the
// digests that it needs to used, and fetches the missing ones. An extension has a place once all of its
// descriptors are here.
func (x *offers) placesOf(m *member, left int, used map[string]bool, now time.Time) ([]placed, int) {
	if m.note = m.strangeness; m.note != "" {
		return nil, left
	}
	places := make([]placed, 0, len(m.places))
	for _, e := range m.Shares {
		if !x.all.o.Use(m.name, e.ID) {
			continue
		}
		if e.Tools > left {
			if m.note == "" {
				m.note = "extension " + e.ID +
					" is left out: the tools of all nodes together are more than cluster.max_tools"
			}
			continue
		}
		left -= e.Tools
		used[e.Digest] = true
		o := x.offer(e.Digest)
		switch {
		case o != nil && (o.Extension != e.ID || len(o.Tools) != e.Tools):
			m.note = "extension " + e.ID + " is left out: what it offers is not what the node says of it"
		case o != nil:
			places = append(places, m.place(e, o))
		case m.away:
		default:
			x.miss(m, e, now)
		}
	}
	return places, left
}

// miss fetches a missing offer, or notes why the extension has no place.
func (x *offers) miss(m *member, e shared, now time.Time) {
	f := x.missing[e.Digest]
	switch {
	case f == nil && x.bytes >= maxKept:
		m.note = "extension " + e.ID +
			" is left out: the descriptors of all nodes together take too much memory; narrow cluster.use"
	case f == nil:
		x.missing[e.Digest] = &fetch{owner: m.address(), next: now}
	case f.problem != "":
		m.note = "extension " + e.ID + " is left out until its descriptors come: " + f.problem
	}
}

// place returns the previous place if nothing has changed, else a new one.
func (m *member) place(x shared, o *offer) placed {
	leaving := m.away || m.Leaving
	for _, old := range m.places {
		if b := old.Place; old.offer == o && b.Run == m.Run && b.As == x.As && b.Leaving == leaving &&
			b.State == x.State {
			return old
		}
	}
	p := &peers.Place{Node: m.name, Run: m.Run, As: x.As, Leaving: leaving, Offer: o.Offer, Digests: o.digests}
	p.State = x.State
	return placed{p, o}
}
