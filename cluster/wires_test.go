package cluster_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/cluster/internal/wire"
	"github.com/exthost/exthost/internal/testing/natstest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/peers"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// mark sends a message to a stopped server, and returns a function that waits until another server has
// received it.
func mark(t testing.TB, stopped, other string) (heard func()) {
	t.Helper()
	var conns []*nats.Conn
	for _, url := range []string{stopped, other} {
		c, err := nats.Connect(url)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		conns = append(conns, c)
	}
	got := make(chan *nats.Msg, 1)
	_, err := conns[1].ChanSubscribe("mark", got)
	if err == nil {
		err = conns[1].FlushTimeout(patience)
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		// its routes may have to reconnect, which loses messages
		eventually(t, "the server goes on", func() bool {
			if err := conns[0].Publish("mark", nil); err != nil {
				t.Fatal(err)
			}
			return len(got) > 0
		})
	}
}

// In a split network, each side serves what it has. Afterwards both sides reunite.
func TestSplitNetworkReunites(t *testing.T) {
	processtest.Leaks(t)
	free := processtest.FreePorts(t, 4)
	way := newProxy(t, net.JoinHostPort("127.0.0.1", free[3]), nil)
	_, between, _ := net.SplitHostPort(way.address())
	natstest.Server{Port: free[1], RoutesPort: free[3]}.Spawn(t)
	natstest.Server{Port: free[0], RoutesPort: free[2], Routes: []string{between}}.Spawn(t)
	var fronts []*exthost.Host
	for i, side := range []string{"left", "right"} {
		urls := []string{"nats://127.0.0.1:" + free[i]}
		startNode(t, urls, side, peers.AsMine)
		fronts = append(fronts, open(t, join(t, urls, "quick-"+side, peers.AsMine), false))
	}
	both := func() bool {
		for _, h := range fronts {
			for _, side := range []string{"left", "right"} {
				if _, err := h.Call(within(t), "ext_"+side+"_x_echo", map[string]any{"n": 1}); err != nil {
					return false
				}
			}
			nodes := h.Status().Cluster.Nodes
			if len(nodes) != 3 ||
				slices.ContainsFunc(nodes, func(n status.Node) bool { return n.State != status.NodeReady }) {
				return false
			}
		}
		return true
	}
	eventually(t, "all is one", both)
	way.cutOff(true)
	for i, h := range fronts {
		own, other := []string{"left", "right"}[i], []string{"left", "right"}[1-i]
		eventually(t, "the other side is away", func() bool {
			away := 0
			for _, n := range h.Status().Cluster.Nodes {
				if n.State == status.NodeAway {
					away++
				}
			}
			return away == 2
		})
		if _, err := h.Call(within(t), "ext_"+own+"_x_echo", map[string]any{"n": 1}); err != nil {
			t.Errorf("its own side: %v", err)
		}
		_, err := h.Call(within(t), "ext_"+other+"_x_echo", map[string]any{"n": 1})
		if protocol.KindOf(err) != protocol.NotReady {
			t.Errorf("the other side: %v", err)
		}
	}
	way.cutOff(false)
	eventually(t, "all is one again", both)
}

// outcomes makes calls that each note their text once, n at a time, and checks them: a call with a result ran
// once, a call without an outcome never ran, and none ran twice. With all, every call must succeed.
func outcomes(t *testing.T, front *exthost.Host, tool string, callers, each int, all bool) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "notes")
	var mu sync.Mutex
	var work sync.WaitGroup
	failed := make(map[string]error)
	for c := range callers {
		work.Go(func() {
			for n := range each {
				text := fmt.Sprint(c, ".", n)
				if _, err := front.Call(within(t), tool, map[string]any{"file": file, "text": text}); err != nil {
					mu.Lock()
					failed[text] = err
					mu.Unlock()
				}
			}
		})
	}
	work.Wait()
	ran := make(map[string]int)
	for _, text := range noted(t, file) {
		ran[text]++
	}
	for c := range callers {
		for n := range each {
			text := fmt.Sprint(c, ".", n)
			e, _ := errors.AsType[*protocol.Error](failed[text])
			switch {
			case failed[text] != nil && (all || e == nil):
				t.Errorf("%s: %v", text, failed[text])
			case ran[text] > 1, failed[text] == nil && ran[text] != 1, e != nil && e.Outcome == "" && ran[text] > 0:
				t.Errorf("%s ran %d times: %v", text, ran[text], failed[text])
			}
		}
	}
}

// A connection breaks in the middle of a call. What the node did not receive is retried or refused, and
// nothing runs twice.
func TestConnectionBreaksDuringACall(t *testing.T) {
	urls := sharedServers(t)
	startNode(t, urls, "gpu1", peers.AsMine)
	var calls atomic.Int64
	way := newProxy(t, urls[0], func(c crossing) int {
		if c.up && c.head.Kind == wire.Call && slices.Contains([]int64{8, 20, 40}, calls.Add(1)) {
			return cut
		}
		return 1
	})
	front := open(t, join(t, []string{way.url()}, "front", peers.AsMine), false)
	awaitTool(t, front, "ext_gpu1_x_note", true)
	outcomes(t, front, "ext_gpu1_x_note", 8, 40, false) // at most eight per message
	if n := calls.Load(); n < 40 {
		t.Errorf("%d messages with calls went out", n)
	}
}

// Lost and duplicated messages cost no call: each has one result.
func TestLostMessagesCostNoCall(t *testing.T) {
	urls := sharedServers(t)
	startNode(t, urls, "gpu1", peers.AsMine)
	kinds := []string{wire.Call, wire.Result, wire.Pulse, wire.Pulsed, wire.Cancel}
	for name, pass := range map[string]func(nth int) int{
		"lost":    func(nth int) int { return min(1, nth/5) }, // the first four
		"doubled": func(int) int { return 2 },
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			seen := make(map[string]int)
			way := newProxy(t, urls[0], func(c crossing) int {
				if !slices.Contains(kinds, c.head.Kind) {
					return 1
				}
				mu.Lock()
				defer mu.Unlock()
				seen[c.head.Kind]++
				return pass(seen[c.head.Kind])
			})
			front := open(t, join(t, []string{way.url()}, "front", peers.AsMine), false)
			awaitTool(t, front, "ext_gpu1_x_note", true)
			outcomes(t, front, "ext_gpu1_x_note", 8, 20, true)
			file, till, outcome := filepath.Join(t.TempDir(), "notes"), filepath.Join(t.TempDir(),
				"till"), make(chan error, 1)
			go func() {
				_, err := front.Call(within(t), "ext_gpu1_x_note",
					map[string]any{"file": file, "text": "a", "till": till})
				outcome <- err
			}()
			eventually(t, "enough of each kind", func() bool {
				mu.Lock()
				defer mu.Unlock()
				return !slices.ContainsFunc(kinds[:4], func(kind string) bool { return seen[kind] < 6 })
			})
			if err := os.WriteFile(till, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := <-outcome; err != nil || !slices.Equal(noted(t, file), []string{"a"}) {
				t.Errorf("a longer call: %v, ran %q", err, noted(t, file))
			}
		})
	}
}

// Replaying the bytes of a call does nothing: neither while its front is present, nor later, nor at the next
// run of its owner.
func TestReplayedCallDoesNothing(t *testing.T) {
	urls := sharedServers(t)
	owner := startNode(t, urls, "gpu1", peers.AsMine)
	var mu sync.Mutex
	var calls []crossing
	way := newProxy(t, urls[0], func(c crossing) int {
		if c.up && c.head.Kind == wire.Call {
			mu.Lock()
			defer mu.Unlock()
			calls = append(calls, c)
		}
		return 1
	})
	front := open(t, join(t, []string{way.url()}, "front", peers.AsMine), false)
	other := open(t, join(t, urls[:1], "other", peers.AsMine), false)
	awaitTool(t, front, "ext_gpu1_x_note", true)
	awaitTool(t, other, "ext_gpu1_x_note", true)
	file := filepath.Join(t.TempDir(), "notes")
	if _, err := front.Call(within(t), "ext_gpu1_x_note", map[string]any{"file": file, "text": "a"}); err != nil {
		t.Fatal(err)
	}
	forger, err := nats.Connect(urls[0])
	if err != nil {
		t.Fatal(err)
	}
	defer forger.Close()
	again := func(when string) {
		t.Helper()
		mu.Lock()
		defer mu.Unlock()
		for _, c := range calls {
			if err := forger.Publish(c.subject, c.body()); err != nil {
				t.Fatal(err)
			}
		}
		if err := forger.FlushTimeout(patience); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the owner answers", func() bool { // ordered after the replay on the same server
			_, err := other.Call(within(t), "ext_gpu1_x_note", map[string]any{"file": file + when, "text": "b"})
			return err == nil
		})
		if ran := noted(t, file); !slices.Equal(ran, []string{"a"}) {
			t.Errorf("%s: ran %q", when, ran)
		}
	}
	again("at once")
	if err := front.Close(); err != nil {
		t.Error(err)
	}
	eventually(t, "the front has gone", func() bool { return len(other.Status().Cluster.Nodes) == 1 })
	again("after the front")
	owner.Stop(t)
	startNode(t, urls, "gpu1", peers.AsMine)
	again("to the next run")
}
