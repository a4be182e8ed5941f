package cluster_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/cluster"
	"github.com/exthost/exthost/cluster/internal/wire"
	"github.com/exthost/exthost/internal/testing/natstest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/internal/testing/stormtest"
	"github.com/exthost/exthost/peers"
	"github.com/exthost/exthost/protocol"
)

// echo calls a tool that returns text, and returns an error if the result lacks the text.
func echo(t testing.TB, h *exthost.Host, tool string, text []byte) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*patience) // bodies of many MiB pass together
	defer cancel()
	r, err := h.Do(ctx, &protocol.Call{
		Method: protocol.MethodToolsCall,
		Params: bytes.Join([][]byte{[]byte(`{"name":"` + tool + `","arguments":{"text":"`), text, []byte(`"}}`)}, nil),
	})
	if err == nil && !bytes.Contains(r, text) {
		err = errors.New("the text did not come back")
	}
	return err
}

// Sixteen long bodies travel in each direction to a node that reads slowly. A small result waits for no more
// bytes than the node may have granted to all bodies together: 4 MiB shared by those that had begun at each grant,
// and at most 1 MiB each.
func TestSmallResultsPassLongBodies(t *testing.T) {
	urls := sharedServers(t)
	const bodies, rounds, most = 16, 2, 1 << 20
	granted := most // for everything else that passes
	for n := range bodies {
		granted += min(most, 4<<20/(n+1))
	}
	size := stormtest.Sized(2<<20, 15<<20)
	node{Name: "gpu1", As: peers.AsMine, URLs: urls[1:2], Plugins: []plugin{{}, {ID: "other"}}}.start(t)
	var mu sync.Mutex // guards what follows
	more := sync.NewCond(&mu)
	passed, allowed := 0, bodies*size/4
	way := newProxy(t, urls[0], func(c crossing) int {
		if !c.up {
			mu.Lock()
			defer mu.Unlock()
			for passed >= allowed {
				more.Wait()
			}
			passed += len(c.raw)
		}
		return 1
	})
	allow := func(n int) {
		mu.Lock()
		defer mu.Unlock()
		allowed = n
		more.Broadcast()
	}
	t.Cleanup(func() { allow(math.MaxInt) }) // lets the proxy end
	front := open(t, join(t, []string{way.url()}, "front", peers.AsMine), false)
	awaitTool(t, front, "ext_gpu1_x_echo", true)
	awaitTool(t, front, "ext_gpu1_other_echo", true)
	small := smallResults(t, urls[0], "front")
	var callers sync.WaitGroup
	var over atomic.Int64
	for i := range bodies {
		callers.Go(func() {
			if err := echo(t, front, "ext_gpu1_x_echo", bytes.Repeat([]byte{byte('a' + i)}, size)); err != nil {
				t.Errorf("body %d: %v", i, err)
			}
			over.Add(1)
		})
	}
	for round := range rounds {
		eventually(t, "the node reads no more", func() bool { mu.Lock(); defer mu.Unlock(); return passed >= allowed })
		outcome := make(chan error, 1)
		go func() { outcome <- echo(t, front, "ext_gpu1_other_echo", []byte("small")) }()
		<-small // its result is on the way
		allow(bodies*size/4 + (round+1)*granted)
		if err := <-outcome; err != nil {
			t.Fatalf("a small call: %v", err)
		}
	}
	if n := over.Load(); n == bodies {
		t.Error("the long bodies were there before")
	}
	allow(math.MaxInt)
	callers.Wait()
}

// smallResults returns a channel that gets a value for each result to a node that is sent in one message.
func smallResults(t testing.TB, server, node string) <-chan struct{} {
	t.Helper()
	c, err := nats.Connect(server)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	heard := make(chan struct{}, 1024)
	if _, err = c.Subscribe(wire.Subjects{Cluster: inCluster}.ToRun(wire.Address{Node: node, Run: "*"}),
		func(m *nats.Msg) {
			if h, _, err := wire.Decode(m.Data); err == nil && h.Kind == wire.Result && h.Body == 0 {
				heard <- struct{}{}
			}
		}); err == nil {
		err = c.FlushTimeout(patience)
	}
	if err != nil {
		t.Fatal(err)
	}
	return heard
}

// A body that is longer than a message is sent in parts. One that exceeds the receiver's maximum is not sent.
func TestLongestBody(t *testing.T) {
	processtest.Leaks(t)
	server := natstest.Server{Port: processtest.FreePorts(t, 1)[0], MaxPayload: 65536}
	server.Spawn(t)
	urls := []string{server.URL()}
	startNode(t, urls, "gpu1", peers.AsMine)
	front := open(t, join(t, urls, "front", peers.AsMine), false)
	awaitTool(t, front, "ext_gpu1_x_echo", true)
	if err := echo(t, front, "ext_gpu1_x_echo", bytes.Repeat([]byte("x"), 1<<20)); err != nil {
		t.Error(err)
	}
	file := filepath.Join(t.TempDir(), "notes")
	args, _ := json.Marshal(map[string]any{"file": file, "text": strings.Repeat("x", 17<<20)})
	_, err := front.Call(within(t), "ext_gpu1_x_note", json.RawMessage(args))
	if e, _ := errors.AsType[*protocol.Error](err); e == nil || e.Kind != protocol.LineTooLong || e.Outcome != "" {
		t.Errorf("a call that is too long: %#v", err)
	}
	if ran := noted(t, file); len(ran) > 0 {
		t.Error("it ran")
	}
	o := nodeOptions(node{Name: "narrow", As: peers.AsMine, URLs: urls})
	o.MaxBody = 1 << 20
	n, err := cluster.New(o)
	if err != nil {
		t.Fatal(err)
	}
	narrow := open(t, n, false)
	awaitTool(t, narrow, "ext_gpu1_x_echo", true)
	err = echo(t, narrow, "ext_gpu1_x_echo", bytes.Repeat([]byte("x"), 1<<20))
	if e, _ := errors.AsType[*protocol.Error](err); e == nil || e.Kind != protocol.LineTooLong ||
		e.Outcome != "unknown" {
		t.Errorf("a result that is too long: %#v", err)
	}
	if err := echo(t, narrow, "ext_gpu1_x_echo", []byte("x")); err != nil {
		t.Errorf("the next call: %v", err)
	}
}
