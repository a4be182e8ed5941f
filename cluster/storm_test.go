package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/internal/testing/stormtest"
	"github.com/exthost/exthost/peers"
	"github.com/exthost/exthost/protocol"
)

// Servers, nodes and the processes of their extensions are killed at random while 64 callers call replicas. No call
// runs twice, no call that was reported as not run has run, each result belongs to its own execution, and no call
// hangs. EXTHOST_STORM_TIME sets the duration, such as 10m.
func TestClusterStorm(t *testing.T) {
	processtest.Leaks(t)
	seed, err := strconv.ParseUint(os.Getenv("EXTHOST_STORM_SEED"), 10, 64)
	if err != nil {
		seed = rand.Uint64()
	}
	t.Logf("EXTHOST_STORM_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	s := startServers(t, 3)
	nodes := make([]*processtest.Process, 3)
	start := func(i int) { nodes[i] = startNode(t, s.urls(), fmt.Sprint("n", i+1), peers.AsReplicas) }
	for i := range nodes {
		start(i)
	}
	front := open(t, join(t, s.urls(), "front", peers.AsReplicas), false)
	awaitTool(t, front, "ext_x_note", true)
	file := filepath.Join(t.TempDir(), "notes")

	type outcome struct {
		text, result string
		err          error
	}
	var mu sync.Mutex
	var outcomes []outcome
	var callers sync.WaitGroup
	var stop atomic.Bool
	var number atomic.Uint64
	for range 64 {
		callers.Go(func() {
			for !stop.Load() {
				n := number.Add(1)
				o := outcome{text: fmt.Sprint("c", n)}
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				args := map[string]any{"file": file, "text": o.text}
				if n%500 == 0 {
					args = map[string]any{"file": file, "text": o.text, "die": true}
				}
				r, err := front.Call(ctx, "ext_x_note", args)
				cancel()
				o.result, o.err = r.Text(), err
				mu.Lock()
				outcomes = append(outcomes, o)
				mu.Unlock()
				if err != nil {
					// a caller that does not wait only fails more often
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	killed := map[string]int{}
	length := stormtest.Sized(3*time.Second, time.Minute)
	if d, err := time.ParseDuration(os.Getenv("EXTHOST_STORM_TIME")); err == nil {
		length = d
	}
	for end, n := time.Now().Add(length), 0; time.Now().Before(end); n++ {
		i := random.IntN(3)
		time.Sleep(time.Duration(100+random.IntN(400)) * time.Millisecond) // the rhythm of the storm
		if random.IntN(2) == 0 {
			s.all[i].Kill()
			s.start(i)
			killed["servers"]++
		} else {
			nodes[i].Kill()
			start(i)
			killed["nodes"]++
		}
	}
	stop.Store(true)
	waited := make(chan struct{})
	go func() { callers.Wait(); close(waited) }()
	select {
	case <-waited:
	case <-time.After(patience):
		t.Fatal("calls hang")
	}
	executed := make(map[string]int)
	for _, text := range noted(t, file) {
		executed[text]++
	}
	var results, unknown, unknownRan, unsent int
	kinds := make(map[protocol.Kind]int)
	for _, o := range outcomes {
		runs := executed[o.text]
		e, _ := errors.AsType[*protocol.Error](o.err)
		switch {
		case runs > 1:
			t.Errorf("%s ran %d times: %q, %v", o.text, runs, o.result, o.err)
		case o.err == nil && (runs != 1 || o.result != "noted "+o.text):
			t.Errorf("%s ran %d times and returned %q", o.text, runs, o.result)
		case o.err == nil:
			results++
		case e == nil:
			t.Errorf("%s: %v", o.text, o.err)
		case e.Outcome == "" && runs != 0:
			t.Errorf("%s was said not to have run, and did: %v", o.text, o.err)
		case e.Outcome == "":
			unsent++
		default:
			if unknown++; runs == 1 {
				unknownRan++
			}
		}
		if e != nil {
			kinds[e.Kind]++
		}
	}
	t.Logf("killed %v; %d calls: %d results, %d unknown (%d had run), %d said not to have run; %v", killed,
		len(outcomes), results, unknown, unknownRan, unsent, kinds)
	if results == 0 {
		t.Error("no call succeeded")
	}
	for _, n := range front.Status().Cluster.Nodes {
		t.Logf("%s %s: %d out, %d failed", n.Name, n.State, n.Out, n.Failed)
	}
}
