package cluster_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/exthost/exthost/cluster/internal/wire"
	"github.com/exthost/exthost/peers"
	"github.com/exthost/exthost/status"
)

// rawNode is a node of another version. Its messages, entry and offer have members that no version knows.
type rawNode struct {
	conn     *nats.Conn
	subjects wire.Subjects
	self     wire.Address
	requires []string
	seq      int

	mu    sync.Mutex // guards what follows
	offer []byte
	entry []byte

	results chan []byte // of its own calls
}

// newRawNode joins a node that shares extension y with one tool, and requires some features.
func newRawNode(t testing.TB, server, name string, requires ...string) *rawNode {
	t.Helper()
	conn, err := nats.Connect(server)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	s := &rawNode{
		conn:     conn,
		subjects: wire.Subjects{Cluster: inCluster},
		self:     wire.Address{Node: name, Run: wire.NewRun()},
		results:  make(chan []byte, 1),
	}
	s.requires = requires
	s.offer, s.entry = s.describe(`{"id":"y","protocol":"native","future":[1]}`,
		`{"name":"greet","inputSchema":{"type":"object"},"future":1}`)
	for _, subject := range s.subjects.Subscribe(name) {
		if _, err := conn.Subscribe(subject, s.received); err != nil {
			t.Fatal(err)
		}
	}
	s.here()
	ctx, stop := context.WithCancel(context.Background())
	var beats sync.WaitGroup
	beats.Go(func() { s.beat(ctx) })
	t.Cleanup(func() {
		stop()
		beats.Wait()
	})
	return s
}

// beat repeats the entry until ctx ends, as nodes do: a server forwards nothing to another that has not yet told it of
// its subscribers.
func (s *rawNode) beat(ctx context.Context) {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.here()
		case <-ctx.Done():
			return
		}
	}
}

// here sends the entry to all nodes.
func (s *rawNode) here() {
	s.mu.Lock()
	entry := s.entry
	s.mu.Unlock()
	s.say(s.subjects.All(s.self.Node), map[string]any{"k": wire.Here}, entry)
}

// share changes what the node shares.
func (s *rawNode) share(head string, tools ...string) {
	offer, entry := s.describe(head, tools...)
	s.mu.Lock()
	s.offer, s.entry = offer, entry
	s.mu.Unlock()
	s.here()
}

// describe returns an offer and the entry with it.
func (s *rawNode) describe(head string, tools ...string) (offer, entry []byte) {
	s.seq++
	offer = []byte(head + "\n" + strings.Join(tools, "\n"))
	entry, _ = json.Marshal(map[string]any{
		"node":     s.self.Node,
		"run":      s.self.Run,
		"started":  1,
		"seq":      s.seq,
		"version":  "0.0.0",
		"wire":     []string{wire.Major, "exthost.2"},
		"requires": s.requires,
		"max_body": 16 << 20,
		"future":   map[string]any{"a": 1},
		"shares": []any{
			map[string]any{
				"id":     "y",
				"as":     "mine",
				"state":  "ready",
				"digest": fmt.Sprintf("%x", sha256.Sum256(offer)),
				"tools":  len(tools),
				"future": 1,
			},
		},
	})
	return offer, entry
}

func (s *rawNode) say(subject string, head map[string]any, body []byte) {
	all := map[string]any{"run": s.self.Run, "future": map[string]any{"b": []int{1}}}
	maps.Copy(all, head)
	text, _ := json.Marshal(all)
	_ = s.conn.Publish(subject, append(append(text, '\n'), body...)) // the test may be over
}

func (s *rawNode) received(m *nats.Msg) {
	from, _ := s.subjects.From(m.Subject)
	h, body, err := wire.Decode(m.Data)
	if err != nil || from == "" || from == s.self.Node {
		return
	}
	s.mu.Lock()
	offer, entry := s.offer, s.entry
	s.mu.Unlock()
	to := s.subjects.To(wire.Address{Node: from, Run: h.Run}, s.self.Node)
	switch h.Kind {
	case wire.Probe:
		s.say(to, map[string]any{"k": "future", "n": 7}, body)
		s.say(to, map[string]any{"k": wire.Probed, "seq": h.Seq, "hash": h.Hash}, nil)
	case wire.Want:
		head, answer := map[string]any{"k": wire.Have, "seq": h.Seq, "last": true}, entry
		switch {
		case len(h.Names) == 0:
			head["hash"], answer = h.Hash, nil
		case len(h.Names[0]) == 64:
			at := min(int(h.At), len(offer)) // empty for another offer
			head["at"], head["size"], answer = at, len(offer), offer[at:min(at+100<<10, len(offer))]
		}
		s.say(to, head, answer)
	case wire.Call:
		s.say(to, map[string]any{"k": wire.Result, "n": h.N},
			[]byte(`{"content":[{"type":"text","text":"hello"}],"future":1}`))
	case wire.Result:
		s.results <- body
		s.say(to, map[string]any{"k": wire.Pulse, "low": h.N + 1, "done": []uint64{h.N}}, nil)
	}
}

// Nodes of other versions with the same wire format work together by the features that both know. A node that requires
// an unknown feature is left out, and the status says why.
func TestOtherVersionsOfTheWire(t *testing.T) {
	urls := sharedServers(t)
	front := open(t, join(t, urls, "front", peers.AsMine), true)
	older := newRawNode(t, urls[0], "older")
	newRawNode(t, urls[1], "newer", "teleport")
	awaitTool(t, front, "ext_older_y_greet", true)
	if r, err := front.Call(within(t), "ext_older_y_greet", nil); err != nil || r.Text() != "hello" {
		t.Errorf("%s, %v", r, err)
	}
	var note string
	eventually(t, "both are known", func() bool {
		nodes := front.Status().Cluster.Nodes
		i := slices.IndexFunc(nodes, func(n status.Node) bool { return n.Name == "newer" })
		if i >= 0 {
			note = nodes[i].Note
		}
		return len(nodes) == 2 && note != ""
	})
	if !strings.Contains(note, "teleport") || !strings.Contains(note, "update exthost here") {
		t.Errorf("the note: %q", note)
	}
	if _, ok := front.Tools().Lookup("ext_newer_y_greet"); ok {
		t.Error("a node that requires what is not known is listed")
	}
	awaitTool(t, front, "ext_x_pid", true)
	older.say(older.subjects.To(wire.Address{Node: "front", Run: runOf(t, older, "front")}, "older"),
		map[string]any{"k": wire.Call, "n": 1, "ext": "x", "m": "tools/call"},
		[]byte(`{"name":"echo","arguments":{"n":1},"future":1}`))
	select {
	case r := <-older.results:
		if !strings.Contains(string(r), `{"n":1}`) {
			t.Errorf("its call: %s", r)
		}
	case <-within(t).Done():
		t.Error("its call has no result")
	}
}

// runOf returns the run of a node that has sent a message.
func runOf(t testing.TB, s *rawNode, node string) (run string) {
	t.Helper()
	heard := make(chan string, 64)
	sub, err := s.conn.Subscribe(s.subjects.ToRun(s.self), func(m *nats.Msg) {
		from, _ := s.subjects.From(m.Subject)
		if h, _, err := wire.Decode(m.Data); err == nil && from == node {
			select {
			case heard <- h.Run:
			default:
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Unsubscribe()
	select {
	case run = <-heard: // nodes probe each other
	case <-within(t).Done():
		t.Fatal("nothing is heard")
	}
	return run
}
