package directory

import (
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/exthost/exthost/cluster/internal/wire"
	"github.com/exthost/exthost/peers"
)

const (
	maxFetches = 8         // concurrent
	maxKept    = 256 << 20 // bytes of offers of remote nodes
	maxUnused  = 16 << 20  // bytes of offers that no node has any more
	maxTries   = 3         // of a fetch, before a pause
	fetchPause = 10 * time.Second
)

// offers holds the offers of remote nodes by digest, and the places made from them.
type offers struct {
	all     *state
	known   map[string]*offer
	bytes   int // size of known
	missing map[string]*fetch
	running int // running fetches
	places  []*peers.Place
	tell    time.Time // when to report changed places; zero: never
}

// fetch is the state of an offer that is missing.
type fetch struct {
	owner   wire.Address
	asking  bool
	got     []byte
	tries   int
	next    time.Time // when to request it; zero: now
	problem string
}

// offer returns a local or a fetched offer, or nil.
func (x *offers) offer(digest string) *offer {
	if o := x.known[digest]; o != nil {
		return o
	}
	for _, o := range x.all.offered {
		if o.digest == digest {
			return o
		}
	}
	return nil
}

// fetchMore starts fetches, up to maxFetches.
func (x *offers) fetchMore(now time.Time) {
	for digest, f := range x.missing {
		if x.running >= maxFetches {
			return
		}
		if f.asking || now.Before(f.next) {
			continue
		}
		x.running++
		f.asking = true
		x.fetchPart(digest, f, now)
	}
}

// fetchPart requests the next part of an offer: from the owner, or after a failure from a random node, which may have
// the offer too.
func (x *offers) fetchPart(digest string, f *fetch, now time.Time) {
	from := f.owner
	if f.tries > 0 {
		if m := x.all.members[x.all.ring[rand.IntN(len(x.all.ring))]]; m != nil {
			from = m.address()
		}
	}
	w := &want{digest: digest, at: int64(len(f.got))}
	h := wire.Head{Kind: wire.Want, Gossip: wire.Gossip{Names: []string{digest}}}
	h.At = w.at
	x.all.ask(from, h, wantTimeout, w, now)
}

// havePart handles an answer with a part of an offer.
func (x *offers) havePart(w *want, h *wire.Head, body []byte, now time.Time) {
	f := x.missing[w.digest]
	if f == nil || !f.asking {
		return
	}
	switch {
	case h.Size > maxOffer:
		x.fetchFailed(w.digest, "it is too long", now)
		return
	case len(body) == 0 || h.At != int64(len(f.got)) || int64(len(f.got)+len(body)) > h.Size:
		x.fetchFailed(w.digest, "the node does not have it", now)
		return
	}
	f.got = append(f.got, body...)
	if int64(len(f.got)) < h.Size {
		x.fetchPart(w.digest, f, now)
		return
	}
	if Digest(f.got) != w.digest {
		x.fetchFailed(w.digest, "what came has another digest", now)
		return
	}
	o, err := decodeOffer(f.got)
	if err != nil {
		x.fetchFailed(w.digest, err.Error(), now)
		return
	}
	x.running--
	delete(x.missing, w.digest)
	x.known[w.digest] = o
	x.bytes += len(o.raw)
	x.all.dirty(now)
}

// fetchFailed lets a fetch start again: at once, or after fetchPause if maxTries attempts have failed.
func (x *offers) fetchFailed(digest, problem string, now time.Time) {
	f := x.missing[digest]
	if f == nil || !f.asking {
		return
	}
	x.running--
	f.asking, f.got, f.problem = false, nil, problem
	if f.tries++; f.tries >= maxTries {
		x.all.say(slog.LevelWarn, "what a node of the cluster offers did not come", "node", f.owner.Node, "reason",
			problem)
		f.tries, f.next = 0, now.Add(fetchPause)
		x.all.dirty(now) // adds the problem to the node's note
	}
}

// arrange rebuilds the places and lists the missing offers.
func (x *offers) arrange(now time.Time) {
	x.all.refresh = time.Time{}
	x.all.compareWaiting()
	used := make(map[string]bool, len(x.known))
	places, left := make([]*peers.Place, 0, len(x.places)), x.all.o.MaxTools
	for _, name := range x.all.names {
		m := x.all.members[name]
		m.places, left = x.placesOf(m, left, used, now)
		for _, p := range m.places {
			places = append(places, p.Place)
		}
	}
	for digest, f := range x.missing {
		if !used[digest] {
			if f.asking {
				x.running--
			}
			delete(x.missing, digest)
		}
	}
	x.drop(used)
	if !slices.Equal(places, x.places) {
		x.places = places
		if x.tell.IsZero() {
			x.tell = now.Add(coalesce)
		}
	}
}

// drop frees offers that no node has any more, once they exceed maxUnused.
func (x *offers) drop(used map[string]bool) {
	unused := 0
	for digest, o := range x.known {
		if !used[digest] {
			unused += len(o.raw)
		}
	}
	for digest, o := range x.known {
		if unused <= maxUnused {
			return
		}
		if !used[digest] {
			unused -= len(o.raw)
			x.bytes -= len(o.raw)
			delete(x.known, digest)
		}
	}
}

// placed is a place with the offer that it was made from.
type placed struct {
	*peers.Place
	offer *offer
}

// placesOf returns the places of a node, and reduces left by the number of their tools. It skips an extension with more
// than left tools. It adds the digests of the used offers to used, and fetches missing ones: an extension has a place
// once its offer is here.
func (x *offers) placesOf(m *member, left int, used map[string]bool, now time.Time) ([]placed, int) {
	if m.note = m.incompatible; m.note != "" {
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
