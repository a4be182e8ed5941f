package directory

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/exthost/exthost/cluster/internal/wire"
)

const (
	wantTimeout = 2 * time.Second
	anyTimeout  = 500 * time.Millisecond // of a question to any node: there may be none
	compareEach = time.Second            // at most
	quiet       = 500 * time.Millisecond // since the last change; what others say of it may be under way
	noQuiet     = 3 * time.Second        // then it is compared without quiet
	snapshot    = 32                     // entries that are so many are not asked for by all newcomers at once
	pace        = 2 * time.Millisecond   // for each node of the cluster, at most
	maxNames    = 200                    // of entries that are asked for together
	maxVerified = 200                    // runs that are asked after one comparison
	lookFirst   = 500 * time.Millisecond // between the first questions to any node, and then twice that, and so on
	lookLast    = 30 * time.Second       // between the later ones
	chunk       = 256 << 10              // bytes of an answer, at most
	forHead     = 16 << 10               // of a message, left to its head
)

// want is what another node is asked for: a part of its list of runs, entries, or a part of an
// offer. Answers are as long as one message, and the asker asks for the rest: so no node has more
// on its way to it than it has asked for.
type want struct {
	after  string   // of a list: the node behind which it begins
	nodes  []string // of entries
	digest string   // of an offer
	at     int64    // of an offer: where the part begins
}

// search is what is known of the difference between this directory and that of another node.
type search struct {
	with      wire.Address    // zero: any
	comparing bool            // there is a list or there are entries to come
	newest    time.Time       // when the last one began
	found     time.Time       // when a difference was found that was not looked into; zero is none
	need      map[string]sum  // entries that are still to be asked for, by node
	listed    map[string]bool // nodes in the list of the other
	resume    time.Time       // when entries are asked for; zero is not
	look      time.Time       // when any node is asked for its list; zero is not
	looks     int             // how often that was in vain
}

// differ looks into a difference between this directory and that of a run, unless what makes the
// difference may be under way.
func (s *state) differ(a wire.Address, now time.Time) {
	if s.found.IsZero() {
		s.found = now
	}
	if s.comparing || s.phase != joined || now.Sub(s.newest) < compareEach || now.Sub(s.changed) < quiet && now.Sub(s.found) < noQuiet {
		return
	}
	s.compare(a, now)
}

// compare asks a run, or any, for its list.
func (s *state) compare(a wire.Address, now time.Time) {
	s.search = search{with: a, comparing: true, newest: now, need: make(map[string]sum), listed: make(map[string]bool), look: s.look, looks: s.looks}
	s.wantMore(&want{}, now)
}

func (s *state) wantMore(w *want, now time.Time) {
	h := wire.Head{Kind: wire.Want, Gossip: wire.Gossip{Node: w.after, Names: w.nodes}}
	if w.after == "" && w.nodes == nil {
		h.Hash = s.hashText()
	}
	timeout := wantTimeout
	if s.with == (wire.Address{}) {
		timeout = anyTimeout
	}
	s.ask(s.with, h, timeout, w, now)
}

// lookAround asks any node for its list: at first often, since a newcomer knows nobody, later so
// that groups of nodes that know nothing of each other do not stay so.
func (s *state) lookAround(now time.Time) {
	if !s.comparing {
		s.compare(wire.Address{}, now)
	}
	wait := min(lookFirst<<min(s.looks, 10), lookLast)
	s.look = now.Add(wait/2 + rand.N(wait))
	s.looks++
}

// wantFailed ends a search whose question has no answer.
func (s *state) wantFailed(w *want, now time.Time) {
	if w.digest != "" {
		s.fetchFailed(w.digest, "no answer", now)
		return
	}
	s.endCompare()
}

func (s *state) endCompare() {
	s.comparing, s.need, s.listed, s.found = false, nil, nil, time.Time{}
}

// have takes the answer to a want.
func (s *state) have(q question, from wire.Address, h *wire.Head, body []byte, now time.Time) {
	switch {
	case q.want.digest != "":
		s.havePart(q.want, h, body, now)
	case !s.comparing:
	case q.want.nodes != nil:
		s.haveEntries(q.want, body, now)
	default:
		s.with = from
		s.haveList(q.want, h, body, now)
	}
}

// haveList compares a part of the list of another node.
func (s *state) haveList(w *want, h *wire.Head, body []byte, now time.Time) {
	if h.Hash != "" && h.Hash == s.hashText() {
		s.endCompare()
		return
	}
	last, verified := w.after, 0
	for line := range bytes.Lines(body) {
		f := bytes.Fields(line)
		if len(f) != 3 || len(f[2]) != 2*len(sum{}) || wire.CheckName(string(f[0])) != nil || string(f[0]) <= last {
			break
		}
		a := wire.Address{Node: string(f[0]), Run: string(f[1])}
		var known sum
		if _, err := hex.Decode(known[:], f[2]); err != nil {
			break
		}
		last = a.Node
		s.listed[last] = true
		m := s.members[a.Node]
		switch g, gone := s.gone[a]; {
		case a.Node == s.o.Self.Node, m != nil && !m.away && m.sum == known:
		case gone && g.lost && verified < maxVerified: // the other has heard it since
			verified++
			s.askPresence(a, now)
		case !gone && len(s.need) < maxMembers:
			s.need[a.Node] = known
		}
	}
	if !h.Last && last != w.after && len(s.listed) <= maxMembers {
		s.wantMore(&want{after: last}, now)
		return
	}
	for name, m := range s.members {
		if !m.away && !s.listed[name] && name != s.with.Node && verified < maxVerified {
			verified++
			s.askPresence(m.address(), now)
		}
	}
	s.listed, s.found = nil, time.Time{}
	s.resume = now
	if len(s.need) > snapshot { // what all say on joining comes meanwhile
		s.resume = now.Add(rand.N(time.Duration(len(s.need)) * pace))
	}
}

// wantEntries asks for the next of the entries that are still missing.
func (s *state) wantEntries(now time.Time) {
	s.resume = time.Time{}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(s.need)) {
		if m := s.members[name]; m != nil && !m.away && m.sum == s.need[name] {
			delete(s.need, name)
		} else if len(names) < maxNames {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		s.endCompare()
		return
	}
	s.wantMore(&want{nodes: names}, now)
}

func (s *state) haveEntries(w *want, body []byte, now time.Time) {
	found := false
	for line := range bytes.Lines(body) {
		e, err := decodeEntry(bytes.TrimSuffix(line, []byte{'\n'}))
		if err != nil {
			s.say(slog.LevelWarn, "a node of the cluster has sent what is no entry", "node", s.with.Node, "error", err)
			break
		}
		if _, asked := s.need[e.Node]; asked {
			found = true
			delete(s.need, e.Node)
			s.learn(e, e.Node == s.with.Node, now)
		}
	}
	if !found { // the other has none of them any more
		for _, name := range w.nodes {
			delete(s.need, name)
		}
	}
	s.wantEntries(now)
}

// answer answers a want, with no more than one message.
func (s *state) answer(to wire.Address, h *wire.Head) {
	m := message{to: to, head: wire.Head{Kind: wire.Have, Gossip: wire.Gossip{Seq: h.Seq}}}
	switch {
	case len(h.Names) == 0 && h.Hash == s.hashText():
		m.head.Hash, m.head.Last = h.Hash, true // the list would be the same
	case len(h.Names) == 0:
		m.body, m.head.Last = s.list(h.Node, s.room)
	case isDigest(h.Names[0]):
		o := s.offer(h.Names[0])
		if o != nil && h.At >= 0 && h.At < int64(len(o.raw)) {
			m.head.At, m.head.Size = h.At, int64(len(o.raw))
			m.body = o.raw[h.At:min(h.At+int64(s.room), int64(len(o.raw)))]
		}
	default:
		for _, name := range h.Names {
			e := s.entryOf(name)
			if e == nil {
				continue
			}
			if len(m.body)+len(e.raw)+1 > s.room {
				break
			}
			m.body = append(append(m.body, e.raw...), '\n')
		}
	}
	s.out = append(s.out, m)
}

// list returns the part of the list of runs behind a node, and whether it is the last.
func (s *state) list(after string, room int) (body []byte, last bool) {
	i, found := slices.BinarySearch(s.ring, after)
	if found {
		i++
	}
	for ; i < len(s.ring); i++ {
		e := s.entryOf(s.ring[i])
		line := fmt.Appendf(nil, "%s %s %x\n", e.Node, e.Run, e.sum)
		if len(body)+len(line) > room {
			return body, false
		}
		body = append(body, line...)
	}
	return body, true
}

// entryOf returns the entry of a node that is there, or of this one; nil if there is none.
func (s *state) entryOf(node string) *entry {
	if node == s.o.Self.Node {
		return s.mine
	}
	if m := s.members[node]; m != nil && !m.away {
		return m.entry
	}
	return nil
}
