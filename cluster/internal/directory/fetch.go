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
	maxFetches = 8         // at once
	maxKept    = 256 << 20 // bytes of the offers of others
	maxUnused  = 16 << 20  // of those that no node has any more
	maxTries   = 3         // of a fetch, one after the other
	fetchPause = 10 * time.Second
)

// offers are what others offer, by digest.
type offers struct {
	known   map[string]*offer
	bytes   int // of known
	missing map[string]*fetch
	running int // fetches
}

// fetch is an offer on its way here.
type fetch struct {
	owner   wire.Address
	asking  bool
	got     []byte
	tries   int
	next    time.Time // when it may be asked for; zero is now
	problem string
}

// offer returns an offer of this node, or of another; nil if it is not here.
func (s *state) offer(digest string) *offer {
	if o := s.known[digest]; o != nil {
		return o
	}
	for _, o := range s.offered {
		if o.digest == digest {
			return o
		}
	}
	return nil
}

// fetchMore begins fetches.
func (s *state) fetchMore(now time.Time) {
	for digest, f := range s.missing {
		if s.offers.running >= maxFetches {
			return
		}
		if f.asking || now.Before(f.next) {
			continue
		}
		s.offers.running++
		f.asking = true
		s.fetchPart(digest, f, now)
	}
}

// fetchPart asks for the next part of an offer: first its owner, and if that is in vain, another
// node, which may have fetched it.
func (s *state) fetchPart(digest string, f *fetch, now time.Time) {
	from := f.owner
	if f.tries > 0 {
		if m := s.members[s.ring[rand.IntN(len(s.ring))]]; m != nil {
			from = m.address()
		}
	}
	w := &want{digest: digest, at: int64(len(f.got))}
	h := wire.Head{Kind: wire.Want, Gossip: wire.Gossip{Names: []string{digest}}}
	h.At = w.at
	s.ask(from, h, wantTimeout, w, now)
}

// havePart takes a part of an offer.
func (s *state) havePart(w *want, h *wire.Head, body []byte, now time.Time) {
	f := s.missing[w.digest]
	if f == nil || !f.asking {
		return
	}
	switch {
	case h.Size > maxOffer:
		s.fetchFailed(w.digest, "it is too long", now)
		return
	case len(body) == 0 || h.At != int64(len(f.got)) || int64(len(f.got)+len(body)) > h.Size:
		s.fetchFailed(w.digest, "the node does not have it", now)
		return
	}
	f.got = append(f.got, body...)
	if int64(len(f.got)) < h.Size {
		s.fetchPart(w.digest, f, now)
		return
	}
	if Digest(f.got) != w.digest {
		s.fetchFailed(w.digest, "what came has another digest", now)
		return
	}
	o, err := decodeOffer(f.got)
	if err != nil {
		s.fetchFailed(w.digest, err.Error(), now)
		return
	}
	s.offers.running--
	delete(s.missing, w.digest)
	s.known[w.digest] = o
	s.offers.bytes += len(o.raw)
	s.dirty(now)
}

// fetchFailed has an offer asked for again, at once or after a while.
func (s *state) fetchFailed(digest, problem string, now time.Time) {
	f := s.missing[digest]
	if f == nil || !f.asking {
		return
	}
	s.offers.running--
	f.asking, f.got, f.problem = false, nil, problem
	if f.tries++; f.tries >= maxTries {
		s.say(slog.LevelWarn, "what a node of the cluster offers did not come", "node", f.owner.Node, "reason", problem)
		f.tries, f.next = 0, now.Add(fetchPause)
		s.dirty(now) // which notes the problem
	}
}

// arrange makes the places anew, and says what is missing for them.
func (s *state) arrange(now time.Time) {
	s.refresh = time.Time{}
	used := make(map[string]bool, len(s.known))
	places, left := make([]*peers.Place, 0, len(s.places)), s.o.MaxTools
	for _, name := range s.names {
		m := s.members[name]
		m.places, left = s.placesOf(m, left, used, now)
		for _, p := range m.places {
			places = append(places, p.Place)
		}
	}
	for digest, f := range s.missing {
		if !used[digest] {
			if f.asking {
				s.offers.running--
			}
			delete(s.missing, digest)
		}
	}
	s.drop(used)
	if !slices.Equal(places, s.places) {
		s.places = places
		if s.tell.IsZero() {
			s.tell = now.Add(coalesce)
		}
	}
}

// drop drops offers that no node has, when there are many.
func (s *state) drop(used map[string]bool) {
	unused := 0
	for digest, o := range s.known {
		if !used[digest] {
			unused += len(o.raw)
		}
	}
	for digest, o := range s.known {
		if unused <= maxUnused {
			return
		}
		if !used[digest] {
			unused -= len(o.raw)
			s.offers.bytes -= len(o.raw)
			delete(s.known, digest)
		}
	}
}
