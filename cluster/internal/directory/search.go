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
	settings "github.com/exthost/exthost/config/cluster"
)

const (
	wantTimeout = 2 * time.Second
	anyTimeout  = 500 * time.Millisecond // of a question to any node: there may be no other node
	compareEach = time.Second            // minimum interval of comparisons
	quiet       = 500 * time.Millisecond // a comparison waits for so long without changes: updates may be on the way
	noQuiet     = 3 * time.Second        // maximum wait for a time without changes
	snapshot    = 32                     // beyond so many missing entries, requests for them are delayed at random
	pace        = 2 * time.Millisecond   // maximum delay, per node of the cluster
	maxNames    = 200                    // entries per question
	maxVerified = 200                    // runs to ask after one comparison
	lookFirst   = 500 * time.Millisecond // between the first two questions to any node; each time twice as long
	lookLast    = 30 * time.Second       // maximum of that interval
	chunk       = 256 << 10              // maximum bytes of an answer
	forHead     = 16 << 10               // reserved for the head of a message
	leastRoom   = 4 << 10                // minimum bytes of an answer
)

// want is a question to a node for a part of its list of runs, for entries, or for a part of an offer. An
// answer fits in one message and the asker asks for the rest, so that a node is never sent more than it asked
// for.
type want struct {
	itself bool     // asks for the entry of the asked node
	after  string   // of a list: the last node before the part
	nodes  []string // of entries: their nodes
	digest string   // of an offer
	at     int64    // of an offer: where the part begins
}

// search finds the differences between this directory and that of another node.
type search struct {
	all       *state
	with      wire.Address    // zero: any node
	comparing bool            // waiting for a list or for entries
	newest    time.Time       // when the last comparison began
	found     time.Time       // when a difference was found that has not been compared yet; zero: none
	need      map[string]sum  // entries still to be requested, by node
	listed    map[string]bool // nodes in the received list
	resume    time.Time       // when to request entries; zero: never
	look      time.Time       // when to ask any node for its list; zero: never
	looks     int             // number of such questions since this run joined or reconnected
}

// differ starts a comparison with a run whose hash differs, unless updates may still be on the way.
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

// compare requests the list of run a, or of any node if a is zero.
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

// askItself asks a run for its entry, because another node reported a different one.
func (x *search) askItself(a wire.Address, now time.Time) {
	h := wire.Head{Kind: wire.Want, Gossip: wire.Gossip{Names: []string{a.Node}}}
	x.all.ask(a, h, wantTimeout, &want{itself: true}, now)
}

// lookAround requests the list of any node. It does so often at first, as a newcomer knows nobody, and rarely
// later, to reunite groups of nodes that do not know each other.
func (x *search) lookAround(now time.Time) {
	if !x.comparing {
		x.compare(wire.Address{}, now)
	}
	wait := min(lookFirst<<min(x.looks, 10), lookLast)
	x.look = now.Add(wait/2 + rand.N(wait))
	x.looks++
}

// wantFailed ends a search whose question was not answered.
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

// have handles an answer.
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
		l, ok := parseListed(line)
		if !ok || l.run.Node <= last {
			break
		}
		last = l.run.Node
		x.listed[last] = true
		if x.compareRun(l, verified < maxVerified, now) {
			verified++
		}
	}
	if !h.Last && last != w.after && len(x.listed) <= maxMembers {
		x.wantMore(&want{after: last}, now)
		return
	}
	x.endList(maxVerified-verified, now)
}

// listed is a line in the list of a node.
type listed struct {
	run wire.Address
	sum sum
}

// parseListed parses a line of [search.list]. It reports false for an invalid line.
func parseListed(line []byte) (l listed, ok bool) {
	f := bytes.Fields(line)
	if len(f) != 3 || len(f[2]) != 2*len(l.sum) {
		return l, false
	}
	l.run = wire.Address{Node: string(f[0]), Run: string(f[1])}
	_, err := hex.Decode(l.sum[:], f[2])
	return l, err == nil && settings.CheckName(l.run.Node) == nil && wire.IsRun(l.run.Run)
}

// compareRun compares a listed run with what this directory knows. It either notes a missing entry, to be requested
// later, or asks the run itself if mayAsk is set. It reports whether it asked.
func (x *search) compareRun(l listed, mayAsk bool, now time.Time) (asked bool) {
	m := x.all.members[l.run.Node]
	switch g, gone := x.all.gone[l.run]; {
	case l.run == x.all.o.Self, m != nil && !m.away && m.sum == l.sum:
	case gone: // the other node may have heard the run after this one lost it
		if asked = g.lost && mayAsk; asked {
			x.all.askPresence(l.run, now)
		}
	case m != nil && !m.away && l.run.Node != x.with.Node: // only a node itself is trusted to correct its entry
		if asked = mayAsk; asked {
			x.askItself(l.run, now)
		}
	case len(x.need) < maxMembers:
		x.need[l.run.Node] = l.sum
	}
	return asked
}

// endList asks up to mayAsk nodes that the other node did not list, and schedules the requests for missing entries.
func (x *search) endList(mayAsk int, now time.Time) {
	for name, m := range x.all.members {
		if mayAsk > 0 && !m.away && !x.listed[name] && name != x.with.Node {
			mayAsk--
			x.all.askPresence(m.address(), now)
		}
	}
	x.listed, x.found = nil, time.Time{}
	x.resume = now
	if len(x.need) > snapshot { // joining nodes announce themselves meanwhile
		x.resume = now.Add(rand.N(time.Duration(len(x.need)) * pace))
	}
}

// wantEntries requests the next missing entries.
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
	if !found { // the other node no longer has them
		for _, name := range w.nodes {
			delete(x.need, name)
		}
	}
	x.wantEntries(now)
}

// answer answers a want with one message.
func (x *search) answer(to wire.Address, h *wire.Head) {
	m := message{to: to, head: wire.Head{Kind: wire.Have, Gossip: wire.Gossip{Seq: h.Seq}}}
	switch {
	case len(h.Names) == 0 && h.Hash == x.all.hashText():
		m.head.Hash, m.head.Last = h.Hash, true // the asking node has the same list
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

// list returns the lines of the list after a node that fit in room bytes. last reports that they end the list.
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
