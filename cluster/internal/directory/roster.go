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

// roster tracks the present and the departed nodes.
type roster struct {
	o    *Options
	mine *entry

	members map[string]*member // by node
	names   []string           // names of members, sorted
	doubted map[*member]bool   // members to be probed again
	ring    []string           // names of present nodes, including this one, sorted
	hash    sum                // of the entries of present nodes
	changed time.Time          // when hash changed
	gone    map[wire.Address]departure
	refresh time.Time // when to rebuild places; zero: never

	waiting     approvals // of all present members
	tellWaiting bool      // waiting has changed

	lost []wire.Address
	logs []logged
}

// approvals summarizes the pending approval requests of nodes, to detect changes.
type approvals struct {
	requests int
	asked    int64 // sum of entry.Asked
}

// compareWaiting records whether the approval requests have changed.
func (r *roster) compareWaiting() {
	var now approvals
	for _, m := range r.members {
		if !m.away {
			now.requests, now.asked = now.requests+m.Waiting, now.asked+m.Asked
		}
	}
	r.tellWaiting, r.waiting = r.tellWaiting || now != r.waiting, now
}

// member is a remote node, which may be away.
type member struct {
	*entry
	name    string    // key in members
	away    bool      // lost; its places remain for a while
	since   time.Time // when away or Leaving changed
	hearsay bool      // its entry came from another node
	spoke   bool      // it has sent a message itself
	doubt
	rtt, clock   time.Duration
	note         string // why an extension has no place
	incompatible string // why this version cannot communicate with it
	places       []placed
}

// departure is a run that is gone.
type departure struct {
	at   time.Time
	lost bool // it did not say goodbye, and may come back
}

// logged is a queued log line.
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

// learn handles the entry of a remote node, from the node itself or from hearsay.
func (r *roster) learn(e *entry, itself bool, now time.Time) {
	if g, ok := r.gone[e.address()]; ok {
		if !itself || !g.lost {
			return
		}
		delete(r.gone, e.address())
	}
	m, changed := r.members[e.Node], false
	switch {
	case m == nil:
		m = r.add(e, itself, now)
		changed = m != nil
	case m.Run == e.Run:
		changed = r.update(m, e, itself, now)
	case !itself && !m.away && !m.hearsay: // the node's own word outranks hearsay
	case m.away || e.compare(m.entry) > 0:
		r.succeed(m, e, itself, now)
		changed = true
	case itself: // a clock was set back, or two runs have the same name: probe the known run
		r.suspect(m, now)
	}
	if !changed {
		return
	}
	before := m.incompatible
	if m.incompatible = m.incompatibility(r.o.Features); m.incompatible != "" && m.incompatible != before {
		r.say(slog.LevelWarn, "a node of the cluster cannot be used", "node", m.name, "reason", m.incompatible)
	}
	r.dirty(now)
}

// add adds a node. It returns nil if there are too many.
func (r *roster) add(e *entry, itself bool, now time.Time) *member {
	if len(r.members) >= maxMembers && !(itself && r.dropUnheard(now)) {
		r.say(slog.LevelWarn, "the cluster has more nodes than this one can know", "most", maxMembers, "left_out",
			e.Node)
		return nil
	}
	m := &member{name: e.Node, entry: e, hearsay: !itself, spoke: itself}
	r.members[e.Node] = m
	i, _ := slices.BinarySearch(r.names, e.Node)
	r.names = slices.Insert(r.names, i, e.Node)
	r.enter(m, now)
	return m
}

// update replaces the entry of the known run of a node. It reports false for an entry that is not newer.
func (r *roster) update(m *member, e *entry, itself bool, now time.Time) bool {
	if m.away { // hearsay suffices here: learn ignores it for a run that was lost
		r.enter(m, now)
	}
	corrected := itself && m.hearsay && e.sum != m.sum // the entry of the node itself replaces hearsay
	if itself {
		m.doubt, m.hearsay, m.spoke = doubt{}, false, true
	}
	if e.Seq <= m.Seq && !corrected {
		return false
	}
	r.replace(m, e, now)
	return true
}

// succeed replaces the run of a node by a later one.
func (r *roster) succeed(m *member, e *entry, itself bool, now time.Time) {
	old, away := m.address(), m.away
	r.depart(old, false, now)
	m.doubt, m.rtt, m.clock, m.hearsay, m.spoke = doubt{}, 0, 0, !itself, itself
	r.replace(m, e, now)
	if away {
		r.enter(m, now)
	} else {
		r.lost = append(r.lost, old)
	}
}

// enter marks a node as present.
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

// leave marks a node as away.
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

// dropUnheard makes room for a node that has sent a message itself, by dropping a node that is only known from hearsay:
// any node can invent other nodes. It reports false if there is no such node.
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

// replace replaces the entry of a node.
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

// depart records that a run is gone.
func (r *roster) depart(a wire.Address, lost bool, now time.Time) {
	if len(r.gone) >= maxGone {
		for oldest := range r.gone { // in random order: so many departures do not occur in practice
			delete(r.gone, oldest)
			break
		}
	}
	r.gone[a] = departure{at: now, lost: lost}
}

// goodbye handles the goodbye of a run.
func (r *roster) goodbye(a wire.Address, now time.Time) {
	r.depart(a, false, now)
	if m := r.members[a.Node]; m != nil && m.Run == a.Run {
		r.leave(m, now)
		r.remove(a.Node, now)
	}
}

// suspect schedules a probe of a run.
func (r *roster) suspect(m *member, due time.Time) {
	m.due = due
	r.doubted[m] = true
}

// accuse handles the report of another node that a run is lost. A random delay keeps the nodes from probing the run all
// at once.
func (r *roster) accuse(a wire.Address, now time.Time) {
	if m := r.present(a); m != nil && !m.accused {
		m.accused = true
		r.suspect(m, now.Add(rand.N(maxJitter)))
	}
}

// lostRun returns a lost run to probe, so that the halves of a split network find each other again, or false. It does
// so at random, such that all nodes together probe each lost run about once per second.
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

// present returns the member of a present run, or nil.
func (r *roster) present(a wire.Address) *member {
	if m := r.members[a.Node]; m != nil && m.Run == a.Run && !m.away {
		return m
	}
	return nil
}

// entryOf returns the entry of a present node or of this one, or nil.
func (r *roster) entryOf(node string) *entry {
	if node == r.o.Self.Node {
		return r.mine
	}
	if m := r.members[node]; m != nil && !m.away {
		return m.entry
	}
	return nil
}

// forget removes nodes and departures that are old enough.
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

// nodes returns the status of the remote nodes, sorted by name.
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
