package directory

import (
	"encoding/hex"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/exthost/exthost/cluster/internal/wire"
	"github.com/exthost/exthost/status"
)

// roster is who is there, and who was.
type roster struct {
	o    *Options
	mine *entry

	members map[string]*member // by node
	names   []string           // of members, sorted
	doubted map[*member]bool   // those that are asked again
	ring    []string           // the nodes of those that are there, and this one, sorted
	hash    sum                // of the entries of ring
	changed time.Time          // of hash
	gone    map[wire.Address]departure
	refresh time.Time // when places are made anew; zero is not

	waiting     approvals // of all members that are there
	tellWaiting bool      // and are others than before

	lost []wire.Address
	logs []logged
}

// approvals are the approval requests that wait at nodes, as far as they can be compared.
type approvals struct {
	requests int
	asked    int64 // the sum of when each node's were others last
}

// compareWaiting notes whether other approval requests wait than before.
func (r *roster) compareWaiting() {
	var now approvals
	for _, m := range r.members {
		if !m.away {
			now.requests, now.asked = now.requests+m.Waiting, now.asked+m.Asked
		}
	}
	r.tellWaiting, r.waiting = r.tellWaiting || now != r.waiting, now
}

// member is another node. Its run may not be there any more.
type member struct {
	*entry
	name    string    // for logs, and as key
	away    bool      // it is lost; its places stay for a while
	since   time.Time // of away, or of what the entry says of leaving
	hearsay bool      // its entry is from another node
	spoke   bool      // it was heard itself
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

// logged is a line of the log.
type logged struct {
	level slog.Level
	text  string
	args  []any
}

func newRoster(o *Options, now time.Time) roster {
	r := roster{
		o:       o,
		mine:    newEntry(o, now),
		members: make(map[string]*member),
		doubted: make(map[*member]bool),
		gone:    make(map[wire.Address]departure),
		ring:    []string{o.Self.Node},
	}
	r.hash = r.mine.sum
	return r
}

// newEntry returns the entry of a run that shares nothing yet.
func newEntry(o *Options, now time.Time) *entry {
	e := &entry{
		Node:     o.Self.Node,
		Run:      o.Self.Run,
		Started:  now.UnixMilli(),
		Seq:      1,
		Version:  o.Version,
		Wire:     []string{wire.Major},
		Features: o.Features,
		MaxBody:  o.MaxBody,
	}
	e.encode()
	return e
}

// learn takes an entry of another node, from itself or from hearsay.
func (r *roster) learn(e *entry, itself bool, now time.Time) {
	if g, ok := r.gone[e.address()]; ok {
		if !itself || !g.lost {
			return
		}
		delete(r.gone, e.address())
	}
	m := r.members[e.Node]
	switch {
	case m == nil:
		if len(r.members) >= maxMembers && !(itself && r.dropUnheard(now)) {
			r.say(slog.LevelWarn, "the cluster has more nodes than this one can know", "most", maxMembers, "left_out",
				e.Node)
			return
		}
		m = &member{name: e.Node, entry: e, hearsay: !itself, spoke: itself}
		r.members[e.Node] = m
		i, _ := slices.BinarySearch(r.names, e.Node)
		r.names = slices.Insert(r.names, i, e.Node)
		r.enter(m, now)
	case m.Run == e.Run:
		if m.away { // not as one that was lost: that is in gone
			r.enter(m, now)
		}
		corrected := itself && m.hearsay && e.sum != m.sum // whatever others said of it
		if itself {
			m.doubt, m.hearsay, m.spoke = doubt{}, false, true
		}
		if e.Seq <= m.Seq && !corrected {
			return
		}
		r.replace(m, e, now)
	case !itself && !m.away && !m.hearsay: // what it says itself holds
		return
	case m.away || e.compare(m.entry) > 0:
		old, away := m.address(), m.away
		r.depart(old, false, now)
		m.doubt, m.rtt, m.clock, m.hearsay, m.spoke = doubt{}, 0, 0, !itself, itself
		r.replace(m, e, now)
		if away {
			r.enter(m, now)
		} else {
			r.lost = append(r.lost, old)
		}
	case itself: // a clock went back, or two runs have one name: the other must answer
		r.suspect(m, now)
		return
	default:
		return
	}
	before := m.strangeness
	if m.strangeness = m.strange(r.o.Features); m.strangeness != "" && m.strangeness != before {
		r.say(slog.LevelWarn, "a node of the cluster cannot be used", "node", m.name, "reason", m.strangeness)
	}
	r.dirty(now)
}

// enter adds a node to those that are there.
func (r *roster) enter(m *member, now time.Time) {
	m.away, m.since, m.doubt = false, now, doubt{}
	delete(r.gone, m.address())
	i, found := slices.BinarySearch(r.ring, m.name)
	if !found {
		r.ring = slices.Insert(r.ring, i, m.name)
	}
	r.rehash(m.sum, now)
	r.dirty(now)
}

// leave removes a node from those that are there.
func (r *roster) leave(m *member, now time.Time) {
	if m.away {
		return
	}
	if i, found := slices.BinarySearch(r.ring, m.name); found {
		r.ring = slices.Delete(r.ring, i, i+1)
	}
	m.away, m.since, m.doubt = true, now, doubt{}
	r.rehash(m.sum, now)
	r.lost = append(r.lost, m.address())
	r.dirty(now)
}

// dropUnheard makes room for a node that speaks itself, in place of one that only others spoke of: any node may speak
// of nodes that do not exist. It reports false when there is none.
func (r *roster) dropUnheard(now time.Time) bool {
	for name, m := range r.members {
		if !m.spoke {
			r.leave(m, now)
			r.remove(name, now)
			return true
		}
	}
	return false
}

func (r *roster) remove(name string, now time.Time) {
	delete(r.members, name)
	if i, found := slices.BinarySearch(r.names, name); found {
		r.names = slices.Delete(r.names, i, i+1)
	}
	r.dirty(now)
}

// replace puts another entry in the place of that of a node.
func (r *roster) replace(m *member, e *entry, now time.Time) {
	if !m.away {
		r.rehash(m.sum, now)
		r.rehash(e.sum, now)
	}
	if m.Leaving != e.Leaving {
		m.since = now
	}
	m.entry = e
}

func (r *roster) rehash(part sum, now time.Time) {
	r.hash.mix(part)
	r.changed = now
}

func (r *roster) dirty(now time.Time) {
	if r.refresh.IsZero() {
		r.refresh = now.Add(max(settle, time.Duration(len(r.names))*settleEach))
	}
}

// depart notes that a run is not there any more.
func (r *roster) depart(a wire.Address, lost bool, now time.Time) {
	if len(r.gone) >= maxGone {
		for oldest := range r.gone { // any: there are too many to be true
			delete(r.gone, oldest)
			break
		}
	}
	r.gone[a] = departure{at: now, lost: lost}
}

// goodbye takes the goodbye of a run.
func (r *roster) goodbye(a wire.Address, now time.Time) {
	r.depart(a, false, now)
	if m := r.members[a.Node]; m != nil && m.Run == a.Run {
		r.leave(m, now)
		r.remove(a.Node, now)
	}
}

// suspect has a run asked at due.
func (r *roster) suspect(m *member, due time.Time) {
	m.due = due
	r.doubted[m] = true
}

// accuse takes it that another node found a run lost: it is asked here too, not by all at once.
func (r *roster) accuse(a wire.Address, now time.Time) {
	if m := r.present(a); m != nil && !m.accused {
		m.accused = true
		r.suspect(m, now.Add(rand.N(maxJitter)))
	}
}

// lostRun returns a run that was lost, to be asked whether it is back, so that the halves of a
// network that was split find each other. It returns none so often that each is asked about once
// in a second, by any node.
func (r *roster) lostRun() (wire.Address, bool) {
	var lost []wire.Address
	for a, g := range r.gone {
		if g.lost {
			lost = append(lost, a)
		}
	}
	if rand.IntN(len(r.ring)) >= len(lost) {
		return wire.Address{}, false
	}
	return lost[rand.IntN(len(lost))], true
}

// present returns the member of a run that is there, or nil.
func (r *roster) present(a wire.Address) *member {
	if m := r.members[a.Node]; m != nil && m.Run == a.Run && !m.away {
		return m
	}
	return nil
}

// entryOf returns the entry of a node that is there, or of this one; nil if there is none.
func (r *roster) entryOf(node string) *entry {
	if node == r.o.Self.Node {
		return r.mine
	}
	if m := r.members[node]; m != nil && !m.away {
		return m.entry
	}
	return nil
}

// forget forgets nodes that were lost long ago.
func (r *roster) forget(now time.Time) {
	for name, m := range r.members {
		if m.away && now.Sub(m.since) >= r.o.Forget {
			r.remove(name, now)
		}
	}
	for a, g := range r.gone {
		if now.Sub(g.at) >= rememberGone {
			delete(r.gone, a)
		}
	}
}

// nodes returns the other nodes by name.
func (r *roster) nodes() []status.Node {
	list := make([]status.Node, 0, len(r.members))
	for _, name := range r.names {
		m := r.members[name]
		n := status.Node{
			Name:      m.name,
			Run:       m.Run,
			State:     status.NodeReady,
			Since:     m.since,
			Version:   m.Version,
			RTT:       m.rtt,
			Clock:     m.clock,
			Tools:     m.tools(),
			Approvals: m.Waiting,
			Note:      m.note,
			Shares:    make([]status.Shared, 0, len(m.Shares)),
		}
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

func (r *roster) hashText() string { return hex.EncodeToString(r.hash[:]) }

func (r *roster) say(level slog.Level, text string, args ...any) {
	r.logs = append(r.logs, logged{level, text, args})
}
