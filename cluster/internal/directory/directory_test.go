package directory

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/exthost/exthost/cluster/internal/wire"
	"github.com/exthost/exthost/peers"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

func TestPlaces(t *testing.T) {
	simulate(t, func(t *testing.T, n *network) {
		a := n.start("a")
		a.share(extension("notes", "add"))
		if err := a.Join(t.Context()); err != nil {
			t.Fatal(err)
		}
		b := n.start("b", func(o *Options) { o.Use = func(node, id string) bool { return id != "secret" } })
		replica := extension("web", "get")
		replica.As = peers.AsReplicas
		b.share(replica)
		within(t, time.Second, "each knows the other's",
			func() bool { return a.has("web get")() && b.has("a.notes add")() })
		before := b.Places()[0]

		a.share(extension("notes", "add"), extension("secret", "see"), extension("clock", "now"))
		within(t, time.Second, "an extension is added", b.has("a.notes add", "a.clock now"))
		if b.Places()[0] != before {
			t.Error("a place that has not changed is another one")
		}
		a.share(extension("notes", "add", "list"))
		within(t, time.Second, "the tools change", b.has("a.notes add list"))
		if b.Places()[0].Run != a.self.Run {
			t.Error("the place names another run")
		}
		time.Sleep(time.Second)
		if b.changed() < 2 || b.changed() > 4 {
			t.Errorf("%d changes were told, want 2 to 4", b.changed())
		}
		idle := extension("notes", "add", "list")
		idle.State = "failed"
		a.share(idle)
		within(t, time.Second, "the state changes",
			func() bool { p := b.Places(); return len(p) == 1 && p[0].State == "failed" })

		a.SetOwn(Own{Leaving: true, Shares: []Share{idle}})
		within(t, time.Second, "the node leaves", b.has("a.notes add list leaving"))
		if s := b.Nodes()[0]; s.State != status.NodeLeaving || s.Tools != 2 || s.Version != "1.2.3" || s.RTT == 0 {
			t.Errorf("the status is %+v", s)
		}
		a.stop()
		within(t, 400*time.Millisecond, "it says goodbye", b.has())
		if len(b.Nodes()) != 0 || b.Alive(a.self) || !slices.Equal(b.told(), []wire.Address{a.self}) {
			t.Errorf("after its goodbye it is there: %v, lost %v", b.Nodes(), b.told())
		}
	})
}

// Descriptors may be longer than a message.
func TestOffersLongerThanAMessage(t *testing.T) {
	simulate(t, func(t *testing.T, n *network) {
		nodes := several(n, "n", 2)
		big := extension("notes", "add")
		raw := `{"name":"add","description":"` + strings.Repeat("x", 900<<10) + `"}`
		big.Tools[0].Raw = []byte(raw)
		nodes[0].share(big)
		within(t, 2*time.Second, "all of it has come", func() bool {
			p := nodes[1].Places()
			return len(p) == 1 && len(p[0].Tools) == 1 && string(p[0].Tools[0].Raw) == raw
		})
	})
}

func TestKilledNodeIsLost(t *testing.T) {
	simulate(t, func(t *testing.T, n *network) {
		nodes := several(n, "n", 5)
		within(t, 3*time.Second, "all agree", func() bool { return agree(nodes...) })
		within(t, time.Second, "the places are known", func() bool { return len(nodes[1].Places()) == 4 })
		dead := nodes[0]
		dead.kill()
		took := within(t, 5*time.Second, "all know of the death", func() bool { return agree(nodes[1:]...) })
		t.Logf("known by all after %v", took)
		time.Sleep(time.Second)
		for _, x := range nodes[1:] {
			if p := x.Places()[0]; p.Node != "n0" || !p.Leaving {
				t.Errorf("its place is %+v, want it listed as leaving", p)
			}
			if s := x.Nodes()[0]; s.State != status.NodeAway {
				t.Errorf("its state is %+v", s)
			}
			if !slices.Equal(x.told(), []wire.Address{dead.self}) {
				t.Errorf("lost: %v", x.told())
			}
		}
		time.Sleep(31 * time.Second)
		for _, x := range nodes[1:] {
			if len(x.Places()) != 3 || len(x.Nodes()) != 3 {
				t.Errorf("after 30 s it is still there: %v", x.placeTexts())
			}
		}
	})
}

// A node that was killed restarts at once.
func TestRestartedNodeReplacesItsRun(t *testing.T) {
	simulate(t, func(t *testing.T, n *network) {
		nodes := several(n, "n", 3)
		within(t, 3*time.Second, "all agree", func() bool { return agree(nodes...) })
		old := nodes[0]
		old.kill()
		nodes[0] = n.start("n0")
		nodes[0].share(extension("other", "do"))
		if err := nodes[0].Join(t.Context()); err != nil {
			t.Fatal(err)
		}
		within(t, time.Second, "the new run is in the place of the old one",
			nodes[1].has("n0.other do", "n2.notes add list"))
		if !slices.Equal(nodes[1].told(), []wire.Address{old.self}) || nodes[1].Alive(old.self) ||
			!nodes[1].Alive(nodes[0].self) {
			t.Errorf("the old run is there; lost: %v", nodes[1].told())
		}
		within(t, 3*time.Second, "all agree again", func() bool { return agree(nodes...) })
	})
}

// The new run of a node may think that it started before the old one.
func TestRestartWithAnOldClock(t *testing.T) {
	simulate(t, func(t *testing.T, n *network) {
		nodes := several(n, "n", 4)
		within(t, 3*time.Second, "all agree", func() bool { return agree(nodes...) })
		nodes[0].kill()
		nodes[0] = n.start("n0")
		nodes[0].Directory.mu.Lock()
		s := &nodes[0].s
		s.rehash(s.mine.sum, time.Now())
		s.mine.Started -= 1e6
		s.mine.encode()
		s.rehash(s.mine.sum, time.Now())
		nodes[0].Directory.mu.Unlock()
		nodes[0].share(extension("other", "do"))
		within(t, 8*time.Second, "the new run is known", func() bool { return agree(nodes...) })
		within(t, time.Second, "and its place", nodes[1].has("n0.other do", "n2.notes add list", "n3.notes add list"))
	})
}

func TestNameHasOneHolder(t *testing.T) {
	simulate(t, func(t *testing.T, n *network) {
		nodes := several(n, "n", 3)
		within(t, 3*time.Second, "all agree", func() bool { return agree(nodes...) })
		second := n.start("n0")
		second.share(extension("other", "do"))
		err := second.Join(t.Context())
		if e, ok := err.(*protocol.Error); !ok || e.Kind != protocol.ConfigInvalid ||
			!strings.Contains(e.Message, "1.2.3") || !strings.Contains(e.Message, "2000-01-01 00:00:00") {
			t.Fatalf("the second of a name starts: %v", err)
		}
		time.Sleep(20 * time.Second)
		if !agree(nodes...) || second.Fault() == "" {
			t.Error("the second one is heard")
		}
		nodes[0].stop() // frees the name
		within(t, 7*time.Second, "the second one joins", func() bool { return agree(append(nodes[1:], second)...) })
		if second.Fault() != "" {
			t.Error(second.Fault())
		}
	})
}

// A run may be told of a connection before it can send.
func TestConnectedBeforeItCanSend(t *testing.T) {
	simulate(t, func(t *testing.T, n *network) {
		nodes := several(n, "n", 3)
		within(t, 3*time.Second, "all agree", func() bool { return agree(nodes...) })
		n.mu.Lock()
		n.early = true
		n.mu.Unlock()
		second := n.start("n0")
		time.Sleep(3 * time.Second)
		n.mu.Lock()
		n.early = false
		n.mu.Unlock()
		if err := second.Join(t.Context()); err == nil {
			t.Error("it has not asked whether another run has its name")
		}
	})
}

// A node stops answering while its connection stays, and comes back.
func TestSilentNodeIsLostAndComesBack(t *testing.T) {
	simulate(t, func(t *testing.T, n *network) {
		nodes := several(n, "n", 4)
		within(t, 3*time.Second, "all agree", func() bool { return agree(nodes...) })
		stopped := nodes[3]
		stopped.pause(true)
		n.mu.Lock()
		n.lose = func(from, _ string, _ string) bool { return from == "n3" } // its goroutines continue
		n.mu.Unlock()
		took := within(t, 16*time.Second, "all find it lost", func() bool { return agree(nodes[:3]...) })
		if took < 9*time.Second {
			t.Errorf("it was lost after %v, before it had been silent for 10 s", took)
		}
		n.mu.Lock()
		n.lose = nil
		n.mu.Unlock()
		stopped.pause(false)
		within(t, 5*time.Second, "it is back", func() bool { return agree(nodes...) })
	})
}

// Every announcement and every tenth other message is lost.
func TestLostMessages(t *testing.T) {
	simulate(t, func(t *testing.T, n *network) {
		count := 0
		n.lose = func(_, _ string, kind string) bool { count++; return kind == wire.Here || count%10 == 0 }
		nodes := several(n, "n", 20)
		took := within(t, time.Minute, "all agree", func() bool { return agree(nodes...) })
		t.Logf("after %v", took)
		within(t, 15*time.Second, "all places are known", func() bool {
			return !slices.ContainsFunc(nodes, func(x *node) bool { return len(x.Places()) != 19 })
		})
	})
}

// A node reports that others are lost, although they are alive.
func TestFalseReportsOfLoss(t *testing.T) {
	simulate(t, func(t *testing.T, n *network) {
		nodes := several(n, "n", 10)
		within(t, 3*time.Second, "all agree", func() bool { return agree(nodes...) })
		for _, victim := range nodes[1:] {
			raw, _ := wire.Encode(&wire.Head{
				Kind:   wire.Lost,
				Run:    nodes[0].self.Run,
				Gossip: wire.Gossip{Node: victim.self.Node, Of: victim.self.Run},
			}, nil)
			if err := nodes[0].Broadcast(raw); err != nil {
				t.Fatal(err)
			}
		}
		for range 100 {
			time.Sleep(100 * time.Millisecond)
			if !agree(nodes...) {
				t.Fatal("a node was believed that others are lost")
			}
		}
		for _, x := range nodes {
			if len(x.told()) > 0 {
				t.Errorf("lost: %v", x.told())
			}
		}
	})
}

// A network splits and reunites, before and after the halves have forgotten each other.
func TestSplitNetworkReunites(t *testing.T) {
	for _, lasts := range []time.Duration{6 * time.Second, 50 * time.Second} {
		t.Run(lasts.String(), func(t *testing.T) {
			simulate(t, func(t *testing.T, n *network) {
				left, right := several(n, "l", 5), several(n, "r", 5)
				all := append(slices.Clone(left), right...)
				within(t, 3*time.Second, "all agree", func() bool { return agree(all...) })
				n.mu.Lock()
				n.cut = func(a, b string) bool { return a[0] != b[0] }
				n.mu.Unlock()
				t.Log(within(t, 20*time.Second, "each half is by itself",
					func() bool { return agree(left...) && agree(right...) }))
				time.Sleep(lasts)
				right[0].share(extension("other", "do"))
				time.Sleep(time.Second)
				n.mu.Lock()
				n.cut = nil
				n.mu.Unlock()
				took := within(t, 5*time.Second, "they find each other", func() bool { return agree(all...) })
				t.Logf("one again after %v", took)
				within(t, time.Second, "and know the change",
					func() bool { return slices.Contains(left[0].placeTexts(), "r0.other do") })
			})
		})
	}
}

// A node loses its connection, for a short and for a long time.
func TestDisconnectedNode(t *testing.T) {
	simulate(t, func(t *testing.T, n *network) {
		nodes := several(n, "n", 3)
		within(t, 3*time.Second, "all agree", func() bool { return agree(nodes...) })
		within(t, time.Second, "the places are known", func() bool { return len(nodes[0].Places()) == 2 })
		n.mu.Lock()
		n.cut = func(a, b string) bool { return a == "n0" || b == "n0" }
		n.mu.Unlock()
		nodes[0].Connected(false)
		time.Sleep(8 * time.Second)
		if len(nodes[0].told()) > 0 || !nodes[0].Alive(nodes[1].self) {
			t.Error("a node without a connection judges others")
		}
		time.Sleep(4 * time.Second)
		if len(nodes[0].told()) != 2 || !nodes[0].has("n1.notes add list leaving", "n2.notes add list leaving")() {
			t.Errorf("after 12 s without a connection: lost %v, places %v", nodes[0].told(), nodes[0].placeTexts())
		}
		n.mu.Lock()
		n.cut = nil
		n.mu.Unlock()
		nodes[0].Connected(true)
		within(t, 5*time.Second, "all agree again", func() bool { return agree(nodes...) })
		within(t, time.Second, "the places are back", nodes[0].has("n1.notes add list", "n2.notes add list"))
	})
}

func TestIncompatibleVersions(t *testing.T) {
	simulate(t, func(t *testing.T, n *network) {
		a := n.start("a")
		b := n.start("b")
		b.Directory.mu.Lock()
		b.s.rehash(b.s.mine.sum, time.Now())
		b.s.mine.Requires = []string{"teleport"}
		b.s.mine.encode()
		b.s.rehash(b.s.mine.sum, time.Now())
		b.Directory.mu.Unlock()
		b.share(extension("notes", "add"))
		within(t, 3*time.Second, "they agree", func() bool { return agree(a, b) })
		time.Sleep(time.Second)
		if s := a.Nodes(); len(s) != 1 || !strings.Contains(s[0].Note, "teleport") || len(a.Places()) > 0 {
			t.Errorf("a node that requires what is not known: %+v, %v", s, a.placeTexts())
		}
	})
}

func TestMaxTools(t *testing.T) {
	simulate(t, func(t *testing.T, n *network) {
		a := n.start("a", func(o *Options) { o.MaxTools = 5 })
		nodes := append(several(n, "n", 3), a)
		within(t, 3*time.Second, "they agree", func() bool { return agree(nodes...) })
		within(t, time.Second, "two have places", a.has("n0.notes add list", "n1.notes add list"))
		if s := a.Nodes(); !strings.Contains(s[2].Note, "max_tools") {
			t.Errorf("nothing is said of the third: %+v", s[2])
		}
	})
}
