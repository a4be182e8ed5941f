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
	leastRoom   = 4 << 10                // where messages are so short that nothing would be left
)

// want is what another node is asked for: a part of its list of runs, entries, or a part of an
// offer. Answers are as long as one message, and the asker asks for the rest: so no node has more
// on its way to it than it has asked for.
type want struct {
	itself bool     // the entry of the node that is asked
	after  string   // of a list: the node behind which it begins
	nodes  []string // of entries
	digest string   // of an offer
	at     int64    // of an offer: where the part begins
}

// search is what is known of the difference between this directory and that of another node.
type search struct {
	all       *state
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
func (x *search) differ(a wire.Address, now time.Time) {
	if x.found.IsZero() {
		x.found = now
	}
	if x.comparing || x.all.phase != joined || now.Sub(x.newest) < compareEach ||
		now.Sub(x.all.changed) < quiet && now.Sub(x.found) < noQuiet {
		return
	}
	x.compare(a, now)
}

// compare asks a run, or any, for its list.
func (x *search) compare(a wire.Address, now time.Time) {
	*x = search{
		all:       x.all,
		with:      a,
		comparing: true,
		newest:    now,
		need:      make(map[string]sum),
		listed:    make(map[string]bool),
		look:      x.look,
		looks:     x.looks,
	}
	x.wantMore(&want{}, now)
}

func (x *search) wantMore(w *want, now time.Time) {
	h := wire.Head{Kind: wire.Want, Gossip: wire.Gossip{Node: w.after, Names: w.nodes}}
	if w.after == "" && w.nodes == nil {
		h.Hash = x.all.hashText()
	}
	timeout := wantTimeout
	if x.with == (wire.Address{}) {
		timeout = anyTimeout
	}
	x.all.ask(x.with, h, timeout, w, now)
}

// askItself asks a run, of which another node says something else than it said, for its entry.
func (x *search) askItself(a wire.Address, now time.Time) {
	h := wire.Head{Kind: wire.Want, Gossip: wire.Gossip{Names: []string{a.Node}}}
	x.all.ask(a, h, wantTimeout, &want{itself: true}, now)
}

// lookAround asks any node for its list: at first often, since a newcomer knows nobody, later so
// that groups of nodes that know nothing of each other do not stay so.
func (x *search) lookAround(now time.Time) {
	if !x.comparing {
		x.compare(wire.Address{}, now)
	}
	wait := min(lookFirst<<min(x.looks, 10), lookLast)
	x.look = now.Add(wait/2 + rand.N(wait))
	x.looks++
}

// wantFailed ends a search whose question has no answer.
func (x *search) wantFailed(w *want, now time.Time) {
	if w.digest != "" {
		x.all.fetchFailed(w.digest, "no answer", now)
		return
	}
	if !w.itself {
		x.endCompare()
	}
}

func (x *search) endCompare() {
	x.comparing, x.need, x.listed, x.found = false, nil, nil, time.Time{}
}

// have takes the answer to a want.
func (x *search) have(q question, from wire.Address, h *wire.Head, body []byte, now time.Time) {
	switch {
	case q.want.digest != "":
		x.all.havePart(q.want, h, body, now)
	case q.want.itself:
		e, err := decodeEntry(bytes.TrimSuffix(body, []byte{'\n'}))
		if err == nil && e.address() == from {
			x.all.learn(e, true, now)
		}
	case !x.comparing:
	case q.want.nodes != nil:
		x.haveEntries(q.want, body, now)
	default:
		x.with = from
		x.haveList(q.want, h, body, now)
	}
}

// haveList compares a part of the list of another node.
func (x *search) haveList(w *want, h *wire.Head, body []byte, now time.Time) {
	if h.Hash != "" && h.Hash == x.all.hashText() {
		x.endCompare()
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
		if _, err := hex.Decode(known[:], f[2]); err != nil || !wire.IsRun(a.Run) {
			break
		}
		last = a.Node
		x.listed[last] = true
		m := x.all.members[a.Node]
		switch g, gone := x.all.gone[a]; {
		case a == x.all.o.Self, m != nil && !m.away && m.sum == known:
		case gone && g.lost && verified < maxVerified: // the other has heard it since
			verified++
			x.all.askPresence(a, now)
		case gone:
		case m != nil && !m.away && a.Node != x.with.Node: // the node itself knows
			if verified++; verified <= maxVerified {
				x.askItself(a, now)
			}
		case len(x.need) < maxMembers:
			x.need[a.Node] = known
		}
	}
	if !h.Last && last != w.after && len(x.listed) <= maxMembers {
		x.wantMore(&want{after: last}, now)
		return
	}
	for name, m := range x.all.members {
		if !m.away && !x.listed[name] && name != x.with.Node && verified < maxVerified {
			verified++
			x.all.askPresence(m.address(), now)
		}
	}
	x.listed, x.found = nil, time.Time{}
	x.resume = now
	if len(x.need) > snapshot { // what all say on joining comes meanwhile
		x.resume = now.Add(rand.N(time.Duration(len(x.need)) * pace))
	}
}

// wantEntries asks for the next of the entries that are still missing.
func (x *search) wantEntries(now time.Time) {
	x.resume = time.Time{}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(x.need)) {
		if m := x.all.members[name]; m != nil && !m.away && m.sum == x.need[name] {
			delete(x.need, name)
		} else if len(names) < maxNames {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		x.endCompare()
		return
	}
	x.wantMore(&want{nodes: names}, now)
}

func (x *search) haveEntries(w *want, body []byte, now time.Time) {
	found := false
	for line := range bytes.Lines(body) {
		e, err := decodeEntry(bytes.TrimSuffix(line, []byte{'\n'}))
		if err != nil {
			x.all.say(slog.LevelWarn, "a node of the cluster has sent what is no entry", "node", x.with.Node, "error",
				err)
			break
		}
		if _, asked := x.need[e.Node]; asked {
			found = true
			delete(x.need, e.Node)
			if e.Node == x.all.o.Self.Node {
				x.all.namesake(e)
			} else {
				x.all.learn(e, e.Node == x.with.Node, now)
			}
		}
	}
	if !found { // the other has none of them any more
		for _, name := range w.nodes {
			delete(x.need, name)
		}
	}
	x.wantEntries(now)
}

// answer answers a want, with no more than one message.
func (x *search) answer(to wire.Address, h *wire.Head) {
	m := message{to: to, head: wire.Head{Kind: wire.Have, Gossip: wire.Gossip{Seq: h.Seq}}}
	switch {
	case len(h.Names) == 0 && h.Hash == x.all.hashText():
		m.head.Hash, m.head.Last = h.Hash, true // the list would be the same
	case len(h.Names) == 0:
		m.body, m.head.Last = x.list(h.Node, x.all.room)
	case isDigest(h.Names[0]):
		o := x.all.offer(h.Names[0])
		if o != nil && h.At >= 0 && h.At < int64(len(o.raw)) {
			m.head.At, m.head.Size = h.At, int64(len(o.raw))
			m.body = o.raw[h.At:min(h.At+int64(x.all.room), int64(len(o.raw)))]
		}
	default:
		for _, name := range h.Names {
			e := x.all.entryOf(name)
			if e == nil {
				continue
			}
			if len(m.body)+len(e.raw)+1 > x.all.room {
				break
			}
			m.body = append(append(m.body, e.raw...), '\n')
		}
	}
	x.all.out = append(x.all.out, m)
}

// list returns the part of the list of runs behind a node, and whether it is the last.
func (x *search) list(after string, room int) (body []byte, last bool) {
	i, found := slices.BinarySearch(x.all.ring, after)
	if found {
		i++
	}
	for ; i < len(x.all.ring); i++ {
		e := x.all.entryOf(x.all.ring[i])
		line := fmt.Appendf(nil, "%s %s %x\n", e.Node, e.Run, e.sum)
		if len(body)+len(line) > room {
			return body, false
		}
		body = append(body, line...)
	}
	return body, true
}
