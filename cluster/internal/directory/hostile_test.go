package directory

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/exthost/exthost/cluster/internal/wire"
)

func FuzzEntry(f *testing.F) {
	e := newEntry(&Options{
		Self:     wire.Address{Node: "a", Run: wire.NewRun()},
		Version:  "1.2.3",
		Features: []string{"x"},
	}, time.Unix(1, 0))
	e.Shares = []shared{{ID: "notes", As: "mine", State: "ready", Digest: Digest(nil), Tools: 2}}
	e.encode()
	f.Add(e.raw)
	f.Add([]byte(`{"node":"a","run":"aaaaaaaaaa","shares":[{"id":"a.b"}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		e, err := decodeEntry(raw)
		if err != nil {
			return
		}
		if err := e.check(); err != nil {
			t.Error(err)
		}
		if e.sum != sumOf(raw) || !bytes.Equal(e.raw, raw) {
			t.Error("the entry is not that of its bytes")
		}
	})
}

func FuzzOffer(f *testing.F) {
	o, err := encodeOffer(extension("notes", "add", "list").Offer, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(o.raw)
	f.Add([]byte("{}\n{\"name\":\"a\"}{\"name\":\"a\"}"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		o, err := decodeOffer(raw)
		if err != nil {
			return
		}
		for _, tool := range o.Tools {
			if !json.Valid(tool.Raw) || !bytes.Contains(raw, tool.Raw) || o.digests[tool.Name] != Digest(tool.Raw) {
				t.Errorf("tool %q: %s", tool.Name, tool.Raw)
			}
		}
		again, err := encodeOffer(o.Offer, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(again.Tools) != len(o.Tools) {
			t.Errorf("%d tools, and encoded again %d", len(o.Tools), len(again.Tools))
		}
	})
}

// silent is a network without other nodes.
type silent struct{}

func (silent) Send(wire.Address, string, []byte) error { return nil }
func (silent) Broadcast([]byte) error                  { return nil }
func (silent) Any([]byte) error                        { return nil }
func (silent) MaxPayload() int                         { return 1 << 20 }
func (silent) Hold() error                             { return nil }

// FuzzReceive sends arbitrary messages of a node.
func FuzzReceive(f *testing.F) {
	entry := newEntry(&Options{Self: wire.Address{Node: "b", Run: "aaaaaaaaaa"}}, time.Unix(1, 0))
	for _, kind := range []string{wire.Here, wire.Gone, wire.Lost, wire.Probe, wire.Probed, wire.Want, wire.Have} {
		m, err := wire.Encode(&wire.Head{
			Kind:   kind,
			Run:    "aaaaaaaaaa",
			Gossip: wire.Gossip{Seq: 1, Node: "b", Names: []string{"a"}, Hash: "00"},
		}, entry.raw)
		if err != nil {
			f.Fatal(err)
		}
		f.Add("b", m)
	}
	f.Add("b", []byte(`{"k":"want","run":"aaaaaaaaaa","at":-1,"names":["`+Digest(nil)+"\"]}\n"))
	f.Fuzz(func(t *testing.T, from string, m []byte) {
		h, body, err := wire.Decode(m)
		if err != nil {
			return
		}
		d := New(Options{Self: wire.Address{Node: "a", Run: "bbbbbbbbbb"}, Sender: silent{}})
		d.Connected(true)
		d.NotTaken(token(1))
		d.SetOwn(Own{Shares: []Share{extension("notes", "add")}})
		for range 3 {
			d.Receive(from, h, body)
			d.update(func(s *state, now time.Time) { s.tick(now.Add(time.Minute)) })
		}
		if len(d.Nodes()) > 1 {
			t.Error("one node is several")
		}
	})
}

// A node that announces as many others as it can fills a bounded amount of memory.
func TestManyAnnouncedNodesAreBounded(t *testing.T) {
	d := New(Options{Self: wire.Address{Node: "a", Run: "bbbbbbbbbb"}, Sender: silent{}})
	d.Connected(true)
	d.NotTaken(token(1))
	for i := range maxMembers + 500 {
		name := fmt.Sprintf("n%d", i)
		e := newEntry(&Options{Self: wire.Address{Node: name, Run: wire.NewRun()}, Version: "1"}, time.Unix(1, 0))
		d.Receive(name, &wire.Head{Kind: wire.Here, Run: e.Run}, e.raw)
		if i%2 == 0 {
			d.Receive(name, &wire.Head{Kind: wire.Gone, Run: e.Run}, nil)
		}
		d.Receive(name, &wire.Head{Kind: wire.Probe, Run: wire.NewRun()}, nil)
		d.Receive(name, &wire.Head{Kind: wire.Lost, Run: e.Run, Gossip: wire.Gossip{Node: name, Of: e.Run}}, nil)
	}
	if len(d.s.members) > maxMembers || len(d.s.gone) > maxGone || len(d.s.ring) > maxMembers+1 || len(d.s.asked) > 16 {
		t.Errorf("%d members, %d gone, %d asked", len(d.s.members), len(d.s.gone), len(d.s.asked))
	}
}

// A node answers with something other than what it was asked for.
func TestWrongAnswers(t *testing.T) {
	simulate(t, func(t *testing.T, n *network) {
		a := n.start("a")
		b := n.start("b")
		b.share(extension("notes", "add"))
		b.Directory.mu.Lock()
		good := b.s.offered["notes"]
		lie := *good
		lie.raw = []byte(strings.Replace(string(good.raw), "add", "rm_", 1))
		b.s.offered["notes"] = &lie // under the digest of the other offer
		b.Directory.mu.Unlock()
		time.Sleep(5 * time.Second)
		if len(a.Places()) > 0 {
			t.Errorf("what has another digest is taken: %v", a.placeTexts())
		}
		if note := a.Nodes()[0].Note; !strings.Contains(note, "digest") {
			t.Errorf("the note is %q", note)
		}
		b.Directory.mu.Lock()
		b.s.offered["notes"] = good
		b.Directory.mu.Unlock()
		within(t, 15*time.Second, "the right bytes are taken", a.has("b.notes add"))
	})
}

// A node claims that others have restarted, or share something else.
func TestForgedEntries(t *testing.T) {
	simulate(t, func(t *testing.T, n *network) {
		nodes := several(n, "n", 6)
		within(t, 3*time.Second, "all agree", func() bool { return agree(nodes...) })
		liar := nodes[0]
		liar.Directory.mu.Lock()
		for i, victim := range nodes[1:3] {
			m := liar.s.members[victim.self.Node]
			e := *m.entry
			e.Seq += 1e6
			if i == 0 {
				e.Run, e.Started = wire.NewRun(), e.Started+1e6
			} else {
				e.Shares = []shared{{ID: "other", As: "mine", State: "ready", Digest: Digest(nil)}}
			}
			e.encode()
			liar.s.replace(m, &e, time.Now())
		}
		liar.Directory.mu.Unlock()
		late := several(n, "late", 3)
		for range 150 {
			time.Sleep(100 * time.Millisecond)
			for _, x := range nodes[1:] {
				if len(x.told()) > 0 {
					t.Fatalf("%s takes what a node says of others for true: lost %v", x.self.Node, x.told())
				}
			}
		}
		liar.kill()
		good := append(nodes[1:], late...)
		within(t, 10*time.Second, "those who are left agree", func() bool { return agree(good...) })
		for _, x := range late {
			for _, victim := range nodes[1:3] {
				if !x.Alive(victim.self) {
					t.Errorf("%s does not know %s", x.self.Node, victim.self.Node)
				}
			}
		}
	})
}

// BenchmarkChange measures one changed node of 1,000, with 50,000 tools in total.
func BenchmarkChange(b *testing.B) {
	d := New(Options{Self: wire.Address{Node: "a", Run: "bbbbbbbbbb"}, Sender: silent{}, MaxTools: 100_000})
	d.Connected(true)
	d.NotTaken(token(1))
	tools := make([]string, 10)
	for i := range tools {
		tools[i] = fmt.Sprintf("tool_%d", i)
	}
	share := func(node, x, version int) (shared, *offer) {
		s := extension(fmt.Sprintf("extension_%d_%d", node, x), tools...)
		s.Version = fmt.Sprint(version)
		o, err := encodeOffer(s.Offer, nil)
		if err != nil {
			b.Fatal(err)
		}
		return shared{ID: s.Extension, As: "mine", State: "ready", Digest: o.digest, Tools: 10}, o
	}
	entries := make([]*entry, 1000)
	for i := range entries {
		e := newEntry(&Options{Self: wire.Address{Node: fmt.Sprintf("n%d", i), Run: wire.NewRun()}}, time.Unix(1, 0))
		for x := range 5 {
			s, o := share(i, x, 0)
			d.s.known[o.digest] = o
			e.Shares = append(e.Shares, s)
		}
		e.encode()
		entries[i] = e
		d.Receive(e.Node, &wire.Head{Kind: wire.Here, Run: e.Run}, e.raw)
	}
	arrange := func() { d.update(func(s *state, now time.Time) { s.arrange(now) }) }
	arrange()
	if n := len(d.Places()); n != 5000 {
		b.Fatalf("%d places", n)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		e := *entries[7]
		s, o := share(7, 0, i+1)
		e.Shares = append([]shared{s}, e.Shares[1:]...)
		e.Seq = uint64(i + 2)
		e.encode()
		d.s.known[o.digest] = o
		d.Receive(e.Node, &wire.Head{Kind: wire.Here, Run: e.Run}, e.raw)
		arrange()
	}
}

// BenchmarkIdle measures one node of 1,000 in an idle second.
func BenchmarkIdle(b *testing.B) {
	d := New(Options{Self: wire.Address{Node: "a", Run: "bbbbbbbbbb"}, Sender: silent{}})
	d.Connected(true)
	d.NotTaken(token(1))
	var other *entry
	for i := range 999 {
		other = newEntry(&Options{Self: wire.Address{Node: fmt.Sprintf("n%d", i), Run: wire.NewRun()}}, time.Unix(1, 0))
		d.Receive(other.Node, &wire.Head{Kind: wire.Here, Run: other.Run}, other.raw)
	}
	now := time.Now()
	second := func() {
		now = now.Add(time.Second)
		d.update(func(s *state, _ time.Time) {
			s.look = time.Time{}
			s.tick(now)
			for _, q := range s.asked {
				h := &wire.Head{Kind: wire.Probed, Run: q.to.Run, Gossip: wire.Gossip{Seq: s.seq, Hash: s.hashText()}}
				s.receive(q.to, h, nil, nil, now)
			}
		})
		d.Receive(other.Node, &wire.Head{
			Kind:   wire.Probe,
			Run:    other.Run,
			Gossip: wire.Gossip{Seq: 1, Hash: d.s.hashText()},
		}, nil)
	}
	second() // warms the caches
	b.ReportAllocs()
	for b.Loop() {
		second()
	}
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "cores")
}

// Nodes that are only known from hearsay do not displace nodes that speak for themselves, and their loss is
// not logged.
func TestInventedNodesDisplaceNone(t *testing.T) {
	now := time.Unix(1000, 0)
	var s state
	s.init(&Options{Self: wire.Address{Node: "a", Run: wire.NewRun()}, Grace: time.Second}, now)
	of := func(name string) *entry {
		return newEntry(&Options{Self: wire.Address{Node: name, Run: wire.NewRun()}}, now)
	}
	for i := range maxMembers + 1 {
		s.learn(of(fmt.Sprint("none", i)), false, now)
	}
	if s.logs = nil; len(s.members) != maxMembers {
		t.Fatalf("%d nodes are known", len(s.members))
	}
	real := of("real")
	if s.learn(real, true, now); s.present(real.address()) == nil {
		t.Error("a node that speaks itself is kept out")
	}
	for _, m := range s.members {
		s.refused(m.address(), now)
		s.refused(m.address(), now.Add(time.Second))
	}
	said := 0
	for _, l := range s.logs {
		if l.level > slog.LevelDebug {
			said++
		}
	}
	if said != 1 {
		t.Errorf("%d lines, and one node was there", said)
	}
}
