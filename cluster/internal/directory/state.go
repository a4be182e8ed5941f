package directory

import (
	"encoding/hex"
	"log/slog"
	"slices"
	"time"

	"github.com/exthost/exthost/cluster/internal/wire"
	"github.com/exthost/exthost/peers"
	"github.com/exthost/exthost/status"
)

const (
	maxMembers   = 4096
	maxGone      = 4096
	rememberGone = time.Hour
	tooSoon      = 100 * time.Millisecond // changes of this node within it are told together
	settle       = 50 * time.Millisecond  // changes of others within it are taken together
	settleEach   = 250 * time.Microsecond // for each node, if that is longer: all are looked at
	coalesce     = 250 * time.Millisecond // changes of places within it are told together
)

// state is everything that a directory knows. It is changed under Directory.mu by update alone.
// What it wants to be sent or told it puts into out and lost, for update to do afterwards.
type state struct {
	o *Options

	room      int // bytes of an answer
	phase     phase
	isSettled bool   // it is known whether another run has the name, or there was no way to ask
	fault     string // another run has the name
	connected bool
	since     time.Time // of connected
	mine      *entry
	offered   map[string]*offer // of this node, by extension
	announce  time.Time         // when the others hear of mine; zero is not
	announced time.Time         // when they last heard of it
	told      bool              // they have heard of mine once

	members map[string]*member // by node
	names   []string           // of members, sorted
	doubted map[*member]bool   // those that are asked again
	ring    []string           // the nodes of those that are there, and this one, sorted
	hash    sum                // of the entries of ring
	changed time.Time          // of hash
	gone    map[wire.Address]departure

	seq    uint64
	asked  map[uint64]question
	search // for what others know
	offers // what others offer

	places  []*peers.Place
	refresh time.Time // when places are made anew; zero is not
	tell    time.Time // when the owner hears of other places; zero is not
	probe   time.Time // when the next node is asked whether it is there
	next    time.Time // when tick is called at the latest

	out  []message
	lost []wire.Address
	logs []logged
}

// logged is a line of the log.
type logged struct {
	level slog.Level
	text  string
	args  []any
}

func (s *state) say(level slog.Level, text string, args ...any) {
	s.logs = append(s.logs, logged{level, text, args})
}

// message is one to be sent.
type message struct {
	to       wire.Address // zero: to all, or to any
	any      bool
	notTaken string
	head     wire.Head
	body     []byte
	hold     bool // nothing is sent; the name is held
}

// member is another node. Its run may not be there any more.
type member struct {
	*entry
	name  string    // for logs, and as key
	away  bool      // it is lost; its places stay for a while
	since time.Time // of away, or of what the entry says of leaving
	doubt
	rtt, clock  time.Duration
	note        string // why an extension of it has no place
	strangeness string // why it cannot be spoken with
	places      []placed
}

// departure is a run that is not there any more.
type departure struct {
	at   time.Time
	lost bool // it did not say goodbye: it may come back
}

func newState(o *Options, now time.Time) state {
	s := state{o: o, since: now, members: make(map[string]*member), doubted: make(map[*member]bool), gone: make(map[wire.Address]departure), asked: make(map[uint64]question), ring: []string{o.Self.Node}}
	s.mine, s.offered = newEntry(o, now), make(map[string]*offer)
	s.hash = s.mine.sum
	s.offers.known, s.offers.missing = make(map[string]*offer), make(map[string]*fetch)
	return s
}

// learn takes an entry of another node, from itself or from hearsay.
func (s *state) learn(e *entry, itself bool, now time.Time) {
	if e.Node == s.o.Self.Node {
		s.namesake(e)
		return
	}
	if g, ok := s.gone[e.address()]; ok {
		if !itself || !g.lost {
			return
		}
		delete(s.gone, e.address())
	}
	m := s.members[e.Node]
	switch {
	case m == nil:
		if len(s.members) >= maxMembers {
			s.say(slog.LevelWarn, "the cluster has more nodes than this one can know", "most", maxMembers, "left_out", e.Node)
			return
		}
		m = &member{name: e.Node, entry: e}
		s.members[e.Node] = m
		i, _ := slices.BinarySearch(s.names, e.Node)
		s.names = slices.Insert(s.names, i, e.Node)
		s.enter(m, now)
	case m.Run == e.Run:
		if m.away { // not as one that was lost: that is in gone
			s.enter(m, now)
		}
		if itself {
			m.doubt = doubt{}
		}
		if e.Seq <= m.Seq {
			return
		}
		s.replace(m, e, now)
	case m.away || e.compare(m.entry) > 0:
		old, away := m.address(), m.away
		s.depart(old, false, now)
		m.doubt, m.rtt, m.clock = doubt{}, 0, 0
		s.replace(m, e, now)
		if away {
			s.enter(m, now)
		} else {
			s.lost = append(s.lost, old)
		}
	case itself: // a clock went back, or two runs have one name: the other must answer
		s.suspect(m, now)
		return
	default:
		return
	}
	before := m.strangeness
	if m.strangeness = m.strange(s.o.Features); m.strangeness != "" && m.strangeness != before {
		s.say(slog.LevelWarn, "a node of the cluster cannot be used", "node", m.name, "reason", m.strangeness)
	}
	s.dirty(now)
}

// enter adds a node to those that are there.
func (s *state) enter(m *member, now time.Time) {
	m.away, m.since, m.doubt = false, now, doubt{}
	delete(s.gone, m.address())
	i, found := slices.BinarySearch(s.ring, m.name)
	if !found {
		s.ring = slices.Insert(s.ring, i, m.name)
	}
	s.rehash(m.sum, now)
	s.dirty(now)
}

// leave removes a node from those that are there.
func (s *state) leave(m *member, now time.Time) {
	if m.away {
		return
	}
	if i, found := slices.BinarySearch(s.ring, m.name); found {
		s.ring = slices.Delete(s.ring, i, i+1)
	}
	m.away, m.since, m.doubt = true, now, doubt{}
	s.rehash(m.sum, now)
	s.lost = append(s.lost, m.address())
	s.dirty(now)
}

// replace puts another entry in the place of that of a node.
func (s *state) replace(m *member, e *entry, now time.Time) {
	if !m.away {
		s.rehash(m.sum, now)
		s.rehash(e.sum, now)
	}
	if m.Leaving != e.Leaving {
		m.since = now
	}
	m.entry = e
}

func (s *state) rehash(part sum, now time.Time) {
	s.hash.mix(part)
	s.changed = now
}

func (s *state) dirty(now time.Time) {
	if s.refresh.IsZero() {
		s.refresh = now.Add(max(settle, time.Duration(len(s.names))*settleEach))
	}
}

// depart notes that a run is not there any more.
func (s *state) depart(a wire.Address, lost bool, now time.Time) {
	if len(s.gone) >= maxGone {
		for oldest := range s.gone { // any: there are too many to be true
			delete(s.gone, oldest)
			break
		}
	}
	s.gone[a] = departure{at: now, lost: lost}
}

// goodbye takes the goodbye of a run.
func (s *state) goodbye(a wire.Address, now time.Time) {
	s.depart(a, false, now)
	if m := s.members[a.Node]; m != nil && m.Run == a.Run {
		s.leave(m, now)
		s.remove(a.Node, now)
	}
}

func (s *state) remove(name string, now time.Time) {
	delete(s.members, name)
	if i, found := slices.BinarySearch(s.names, name); found {
		s.names = slices.Delete(s.names, i, i+1)
	}
	s.dirty(now)
}

// present returns the member of a run that is there, or nil.
func (s *state) present(a wire.Address) *member {
	if m := s.members[a.Node]; m != nil && m.Run == a.Run && !m.away {
		return m
	}
	return nil
}

// forget forgets nodes that were lost long ago.
func (s *state) forget(now time.Time) {
	for name, m := range s.members {
		if m.away && now.Sub(m.since) >= s.o.Forget {
			s.remove(name, now)
		}
	}
	for a, g := range s.gone {
		if now.Sub(g.at) >= rememberGone {
			delete(s.gone, a)
		}
	}
}

// nodes returns the other nodes by name.
func (s *state) nodes() []status.Node {
	list := make([]status.Node, 0, len(s.members))
	for _, name := range s.names {
		m := s.members[name]
		n := status.Node{Name: m.name, Run: m.Run, State: status.NodeReady, Since: m.since, Version: m.Version, RTT: m.rtt, Clock: m.clock, Tools: m.tools(), Note: m.note,
			Shares: make([]status.Shared, 0, len(m.Shares))}
		switch {
		case m.away:
			n.State = status.NodeAway
		case m.Leaving:
			n.State = status.NodeLeaving
		}
		for _, x := range m.Shares {
			n.Shares = append(n.Shares, status.Shared{Extension: x.ID, As: x.As, State: x.State})
		}
		list = append(list, n)
	}
	return list
}

func (s *state) hashText() string { return hex.EncodeToString(s.hash[:]) }
