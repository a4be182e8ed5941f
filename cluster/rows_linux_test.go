package cluster_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/peers"
	"github.com/exthost/exthost/protocol"
)

// An owner that is stopped with SIGSTOP loses its calls, and ends them when it continues, as nobody waits for
// them.
func TestStoppedOwnerLosesItsCalls(t *testing.T) {
	processtest.Leaks(t)
	s := startServers(t, 1)
	owner := startNode(t, s.urls(), "gpu1", peers.AsMine)
	front := open(t, join(t, s.urls(), "quick", peers.AsMine), false)
	awaitTool(t, front, "ext_gpu1_x_note", true)
	file := filepath.Join(t.TempDir(), "notes")
	outcome := waiting(t, front, "ext_gpu1_x_note", file)
	if err := owner.Cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := <-outcome; !isLost(err) {
		t.Errorf("%#v", err)
	}
	if err := owner.Cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the call is cancelled", func() bool { return slices.Contains(noted(t, file), "a cancelled") })
	eventually(t, "it takes calls again", func() bool {
		_, err := front.Call(within(t), "ext_gpu1_x_echo", map[string]any{"n": 1})
		return err == nil
	})
}

// The calls of a front that is killed are cancelled at their owners.
func TestCallsOfAKilledFrontAreCancelled(t *testing.T) {
	processtest.Leaks(t)
	s := startServers(t, 1)
	startNode(t, s.urls(), "quick", peers.AsMine)
	file := filepath.Join(t.TempDir(), "notes")
	front := spawn(t, fmt.Sprintf(`caller %s | ext_quick_x_note {"file":%q,"text":"a","wait":true}`,
		strings.Join(s.urls(), " "), file))
	eventually(t, "the call runs", func() bool { return slices.Contains(noted(t, file), "a") })
	front.Kill()
	eventually(t, "the call is cancelled", func() bool { return slices.Contains(noted(t, file), "a cancelled") })
}

// While all servers are unavailable for less than cluster.silence, calls continue and get their results.
// Afterwards they are lost, and new ones are refused at once. Local tools are not affected.
func TestAllServersAreUnavailable(t *testing.T) {
	processtest.Leaks(t)
	s := startServers(t, 2)
	startNode(t, s.urls(), "quick-owner", peers.AsMine)
	front := open(t, join(t, s.urls(), "quick", peers.AsMine), true)
	awaitTool(t, front, "ext_quick-owner_x_note", true)
	file := filepath.Join(t.TempDir(), "notes")
	outcome := waiting(t, front, "ext_quick-owner_x_note", file)
	for _, one := range s.all {
		one.Kill()
	}
	eventually(t, "the host knows", func() bool { return front.Status().Cluster.Server == "" })
	if _, err := front.Call(within(t), "ext_x_echo", map[string]any{"n": 1}); err != nil {
		t.Errorf("a tool of this host: %v", err)
	}
	began := time.Now()
	_, err := front.Call(within(t), "ext_quick-owner_x_echo", map[string]any{"n": 1})
	if protocol.KindOf(err) != protocol.NotReady {
		t.Errorf("a call of the other node, after %v: %v", time.Since(began), err)
	}
	if err := <-outcome; !isLost(err) {
		t.Errorf("%#v", err)
	}
	for i := range s.all {
		s.start(i)
	}
	eventually(t, "the call that was lost is cancelled",
		func() bool { return slices.Contains(noted(t, file), "a cancelled") })
	eventually(t, "calls go on", func() bool {
		_, err := front.Call(within(t), "ext_quick-owner_x_echo", map[string]any{"n": 1})
		return err == nil
	})
}

// A server that is stopped costs no call, and its buffered messages run nothing when it continues.
func TestStoppedServerCostsNoCall(t *testing.T) {
	processtest.Leaks(t)
	s := startServers(t, 3)
	urls := s.urls()
	startNode(t, urls[2:], "gpu1", peers.AsMine)
	front := open(t, join(t, urls[:2], "front", peers.AsMine), false)
	awaitTool(t, front, "ext_gpu1_x_note", true)
	i := slices.Index(urls, front.Status().Cluster.Server)
	if i < 0 {
		t.Fatalf("connected to %q", front.Status().Cluster.Server)
	}
	stopped, resumed := s.all[i].Cmd.Process, mark(t, urls[i], urls[2])
	if err := stopped.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "notes")
	var callers sync.WaitGroup
	for n := range 16 {
		callers.Go(func() {
			args := map[string]any{"file": file, "text": fmt.Sprint(n)}
			if _, err := front.Call(within(t), "ext_gpu1_x_note", args); err != nil {
				t.Error(err)
			}
		})
	}
	callers.Wait()
	if err := stopped.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	resumed()
	// after the messages that the server had buffered
	if _, err := front.Call(within(t), "ext_gpu1_x_echo", map[string]any{"n": 1}); err != nil {
		t.Error(err)
	}
	if ran := noted(t, file); len(ran) != 16 || len(slices.Compact(slices.Sorted(slices.Values(ran)))) != 16 {
		t.Errorf("ran: %q", ran)
	}
}

// A rolling restart of every node and server under load fails no call.
func TestRollingRestartFailsNoCall(t *testing.T) {
	processtest.Leaks(t)
	s := startServers(t, 3)
	nodes := []*processtest.Process{
		startNode(t, s.urls(), "n1", peers.AsReplicas),
		startNode(t, s.urls(), "n2", peers.AsReplicas),
	}
	front := open(t, join(t, s.urls(), "front", peers.AsReplicas), false)
	awaitNodes(t, front, 2)
	l := load(t, front, "ext_x_echo", 8)
	for i := range nodes {
		nodes[i].Stop(t)
		awaitNodes(t, front, 1)
		nodes[i] = startNode(t, s.urls(), fmt.Sprint("n", i+1), peers.AsReplicas)
		awaitNodes(t, front, 2)
		l.goesOn(100)
	}
	for i := range s.all {
		s.all[i].Stop(t)
		s.start(i)
		l.goesOn(100)
	}
	if failed := l.end(); len(failed) > 0 {
		t.Errorf("failed: %v", failed)
	}
}
