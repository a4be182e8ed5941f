package directory

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"time"

	"github.com/exthost/exthost/cluster/internal/wire"
)

const (
	maxMembers   = 4096                   // remote nodes
	maxGone      = 4096                   // departed runs
	rememberGone = time.Hour              // how long a departed run is remembered
	tooSoon      = 100 * time.Millisecond // within it, changes of this node are announced together
	settle       = 50 * time.Millisecond  // within it, changes of remote nodes are processed together
	settleEach   = 250 * time.Microsecond // settle per known node, if that is longer, as all nodes are visited
	coalesce     = 250 * time.Millisecond // within it, changed places are reported together
)

// state is the whole state of a directory. Only update changes it, under Directory.mu. It queues messages,
// losses and log lines in out, lost and logs, for update to process afterwards.
type state struct {
	room      int // maximum bytes of an answer
	phase     phase
	isSettled bool   // it is known whether another run holds the name, or nobody could be asked
	fault     string // why this run cannot use the name: another run holds it; "": no fault
	connected bool
	since     time.Time         // when connected changed
	offered   map[string]*offer // offers of this node, by extension
	announce  time.Time         // when to announce this node; zero: never
	announced time.Time         // when it was last announced
	told      bool              // it has been announced

	probe time.Time // when to probe the next node
	next  time.Time // when tick is called at the latest

	roster
	questions
	search
	offers
}

// message is a queued message.
type message struct {
	to       wire.Address // zero: to all nodes, or to any one node if any is set
	any      bool
	notTaken string
	head     wire.Head
	body     []byte
	hold     bool // send nothing, but hold the name
}

// init sets the state of a run that has not joined yet.
func (s *state) init(o *Options, now time.Time) {
	s.since, s.offered = now, make(map[string]*offer)
	s.roster = newRoster(o, now)
	s.asked = make(map[uint64]question)
	s.search.all = s
	s.offers = offers{all: s, known: make(map[string]*offer), missing: make(map[string]*fetch)}
}

// phase says how far this run has got in joining the cluster.
type phase int

const (
	outside phase = iota // never connected so far, or refused
	asking               // asking whether another run holds the name
	joined               // also while disconnected
)

const askAgain = 5 * time.Second // between questions for a name that another run holds

// connect handles a change of the connection.
func (s *state) connect(yes bool, now time.Time) {
	if s.connected == yes {
		return
	}
	away := now.Sub(s.since)
	s.connected, s.since = yes, now
	clear(s.asked)
	for _, f := range s.missing {
		f.asking = false
	}
	s.offers.running, s.comparing = 0, false
	for _, m := range s.members {
		m.doubt = doubt{}
	}
	switch {
	case !yes:
		s.isSettled = true
		if s.phase == asking {
			s.phase = outside
		}
	case s.phase == joined:
		s.probe, s.look, s.looks = now.Add(rand.N(probeEach)), now, 0
		if away >= s.o.Grace || now.Sub(s.announced) < lookLast {
			// others may consider this run lost, or have missed its last announcement
			s.announce = now.Add(rand.N(time.Duration(len(s.ring)) * pace))
		}
	default:
		s.claim(now)
	}
}

// claim asks whether another run holds this node's name. If none does, the servers report at once that nobody received
// the question.
func (s *state) claim(now time.Time) {
	s.phase = asking
	s.probe = now.Add(askAgain)
	s.askPresence(wire.Address{Node: s.o.Self.Node, Run: wire.NameRun}, now)
}

// join takes the node's name and announces this run.
func (s *state) join(now time.Time) {
	if s.phase != asking {
		return
	}
	s.phase, s.isSettled, s.fault = joined, true, ""
	s.probe, s.look, s.looks = now.Add(rand.N(probeEach)), now.Add(rand.N(tooSoon)), 0
	s.out = append(s.out, message{hold: true})
	s.tellAll(now)
}

// unsent handles messages that could not be sent, because the connection is down.
func (s *state) unsent(list []message, now time.Time) {
	for _, m := range list {
		switch {
		case m.head.Kind == wire.Here:
			s.announce = now.Add(tooSoon)
		case m.to.Run == wire.NameRun && s.phase == asking:
			delete(s.asked, m.head.Seq)
			s.phase, s.probe = outside, now.Add(tooSoon)
		}
	}
}

// namesake handles the entry of another run with this node's name.
func (s *state) namesake(e *entry) {
	since := time.UnixMilli(e.Started).UTC().Format(time.DateTime)
	said := s.fault != ""
	switch {
	case s.phase == asking:
		s.phase, s.isSettled = outside, true
		s.fault = fmt.Sprintf("another host is node %s of this cluster: exthost %s, since %s UTC; give this one "+
			"another name with cluster.node or --node, or stop that one", e.Node, e.Version, since)
	case s.phase == joined && e.compare(s.mine) > 0:
		s.fault = fmt.Sprintf("another host, exthost %s, has joined the cluster as node %s at %s UTC, and calls of "+
			"others go there; stop one of the two", e.Version, e.Node, since)
	}
	if !said && s.fault != "" {
		s.say(slog.LevelError, s.fault)
	}
}

// tellAll announces this node.
func (s *state) tellAll(now time.Time) {
	s.announce, s.announced, s.told = time.Time{}, now, true
	s.out = append(s.out, message{head: wire.Head{Kind: wire.Here}, body: s.mine.raw})
}

// setOwn changes what this node announces.
func (s *state) setOwn(own Own, now time.Time) {
	e := *s.mine
	e.Leaving, e.Shares, e.Waiting, e.Asked = own.Leaving, nil, own.Waiting, own.Asked
	offered := make(map[string]*offer, len(own.Shares))
	for _, x := range own.Shares {
		o, err := encodeOffer(x.Offer, s.offered[x.Extension])
		if err != nil {
			s.say(slog.LevelError, "an extension is not shared with the cluster", "extension", x.Extension, "error",
				err)
			continue
		}
		offered[x.Extension] = o
		e.Shares = append(e.Shares,
			shared{ID: x.Extension, As: x.As, State: x.State, Digest: o.digest, Tools: len(o.Tools)})
	}
	if s.offered = offered; reflect.DeepEqual(e.Shares, s.mine.Shares) && e.Leaving == s.mine.Leaving &&
		e.Asked == s.mine.Asked {
		return
	}
	e.Seq++
	e.encode()
	for len(e.Shares) > 0 && (len(e.raw) > min(maxEntry, s.room) || len(e.Shares) > maxShares) {
		last := len(e.Shares) - 1
		s.say(slog.LevelError, "an extension is not shared with the cluster: there are too many for one message",
			"extension", e.Shares[last].ID)
		e.Shares = e.Shares[:last]
		e.encode()
	}
	if err := e.check(); err != nil {
		s.say(slog.LevelError, "what this node shares cannot be said to the cluster", "error", err)
		return
	}
	s.rehash(s.mine.sum, now)
	s.rehash(e.sum, now)
	s.mine = &e
	if s.announce.IsZero() {
		s.announce = now.Add(tooSoon)
	}
}

// receive handles a message of another run. e is the decoded entry if the kind of message contains one, else nil.
func (s *state) receive(from wire.Address, h *wire.Head, e *entry, body []byte, now time.Time) {
	if from.Node == s.o.Self.Node {
		s.receiveNamesake(from, h, e)
		return
	}
	if s.phase != joined && (h.Kind == wire.Probe || h.Kind == wire.Want) {
		return // it is not yet certain that this run holds its name
	}
	switch h.Kind {
	case wire.Here:
		s.learn(e, true, now)
		return
	case wire.Gone:
		s.goodbye(from, now)
		return
	case wire.Lost:
		s.accuse(wire.Address{Node: h.Node, Run: h.Of}, now)
	case wire.Probe:
		s.out = append(s.out, message{
			to: from,
			head: wire.Head{
				Kind:   wire.Probed,
				Gossip: wire.Gossip{Seq: h.Seq, Hash: s.hashText(), Clock: now.UnixMilli()},
			},
		})
		if h.Hash != s.hashText() {
			s.differ(from, now)
		}
	case wire.Want:
		s.answer(from, h)
	}
	s.heard(from, now)
	if h.Kind == wire.Probed || h.Kind == wire.Have {
		s.answered(from, h, body, now)
	}
}

// answered handles the answer to a question.
func (s *state) answered(from wire.Address, h *wire.Head, body []byte, now time.Time) {
	q, ok := s.asked[h.Seq]
	if !ok || (q.to != from && q.to != wire.Address{}) || (q.want == nil) != (h.Kind == wire.Probed) {
		return // late or unsolicited
	}
	delete(s.asked, h.Seq)
	if q.want == nil {
		s.probed(q, h, now)
	} else {
		s.have(q, from, h, body, now)
	}
}

// receiveNamesake handles a message of another run with this node's name. That run asks whether the name is held, or
// claims it.
func (s *state) receiveNamesake(from wire.Address, h *wire.Head, e *entry) {
	switch {
	case h.Kind == wire.Probe && s.phase == joined:
		s.out = append(s.out, message{
			to:   from,
			head: wire.Head{Kind: wire.Probed, Gossip: wire.Gossip{Seq: h.Seq}},
			body: s.mine.raw,
		})
	case e != nil:
		s.namesake(e)
	}
}

// notTaken handles the report that no run received question seq.
func (s *state) notTaken(seq uint64, now time.Time) {
	if q, ok := s.asked[seq]; ok && s.connected {
		delete(s.asked, seq)
		s.noAnswer(q, true, now)
	}
}

// tick does the work that is due. It reports whether the places and the approval requests have changed.
func (s *state) tick(now time.Time) (places, waiting bool) {
	if s.connected {
		s.tickConnected(now)
	} else if now.Sub(s.since) >= s.o.Silent {
		for _, m := range s.members {
			s.leave(m, now)
		}
	}
	if due(s.probe, now) { // also while disconnected
		s.probe = now.Add(probeEach)
		s.forget(now)
	}
	if due(s.refresh, now) {
		s.arrange(now)
	}
	if places = due(s.tell, now); places {
		s.tell = time.Time{}
	}
	waiting, s.tellWaiting = s.tellWaiting, false
	return places, waiting
}

func (s *state) tickConnected(now time.Time) {
	s.overdue(now)
	s.doubts(now)
	switch {
	case s.phase == joined && due(s.probe, now):
		s.probeOne(now)
		s.forget(now)
	case s.phase == outside && due(s.probe, now):
		s.claim(now)
	}
	if s.phase == joined && due(s.announce, now) {
		s.tellAll(now)
	}
	if s.phase == joined && due(s.look, now) {
		s.lookAround(now)
	}
	if s.comparing && due(s.resume, now) {
		s.wantEntries(now)
	}
	s.fetchMore(now)
}

func due(t, now time.Time) bool { return !t.IsZero() && !now.Before(t) }

// deadline returns when tick must be called next.
func (s *state) deadline() time.Time {
	next := s.probe
	if next.IsZero() {
		next = time.Now().Add(probeEach)
	}
	sooner := func(t time.Time) {
		if !t.IsZero() && t.Before(next) {
			next = t
		}
	}
	sooner(s.refresh)
	sooner(s.tell)
	if !s.connected {
		return next
	}
	if s.phase == joined {
		sooner(s.announce)
		sooner(s.look)
	}
	if s.comparing {
		sooner(s.resume)
	}
	for _, q := range s.asked {
		sooner(q.end)
	}
	for m := range s.doubted {
		sooner(m.due)
	}
	if s.offers.running < maxFetches {
		for _, f := range s.missing {
			if !f.asking {
				sooner(f.next)
			}
		}
	}
	return next
}

// end announces that this run is gone.
func (s *state) end(time.Time) {
	if s.told && s.connected {
		s.out = append(s.out, message{head: wire.Head{Kind: wire.Gone}})
	}
}
