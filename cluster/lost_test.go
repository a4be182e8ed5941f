package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/cluster/internal/wire"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/peers"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// waiting makes a call that waits until it is cancelled. It returns once the call runs; the channel gets the outcome.
func waiting(t testing.TB, h *exthost.Host, tool, file string) <-chan error {
	t.Helper()
	outcome := make(chan error, 1)
	go func() {
		_, err := h.Call(context.Background(), tool, map[string]any{"file": file, "text": "a", "wait": true})
		outcome <- err
	}()
	eventually(t, "the call runs", func() bool { return slices.Contains(noted(t, file), "a") })
	return outcome
}

func isLost(err error) bool {
	e, _ := errors.AsType[*protocol.Error](err)
	return e != nil && e.Kind == protocol.NodeLost && e.Outcome == "unknown"
}

// A process that violates the protocol has the same outcome at a remote node as at the local one, and the
// error names the node.
func TestErrorsOfRemoteProcesses(t *testing.T) {
	urls := sharedServers(t)
	plugins := []plugin{{ID: "dies"}, {ID: "lies"}, {ID: "floods"}, {ID: "hangs", Runtime: `call_timeout = "200ms"`}}
	node{Name: "gpu1", As: peers.AsMine, URLs: urls, Plugins: plugins}.start(t)
	front := node{Name: "front", As: peers.AsMine, URLs: urls, Plugins: plugins}.open(t)
	for _, p := range plugins {
		tool, args := "abuse", map[string]any{"how": strings.TrimSuffix(p.ID, "s")}
		if p.ID == "dies" {
			tool, args = "die", nil
		}
		awaitTool(t, front, "ext_gpu1_"+p.ID+"_"+tool, true)
		_, err := front.Call(within(t), "ext_"+p.ID+"_"+tool, args)
		local, _ := errors.AsType[*protocol.Error](err)
		_, err = front.Call(within(t), "ext_gpu1_"+p.ID+"_"+tool, args)
		remote, _ := errors.AsType[*protocol.Error](err)
		if local == nil || remote == nil || local.Outcome != "unknown" {
			t.Errorf("%s: %#v local, %#v remote", p.ID, local, remote)
			continue
		}
		if remote.Kind != local.Kind || remote.Outcome != local.Outcome || remote.Code != local.Code ||
			remote.Message != "node gpu1: "+local.Message {
			t.Errorf("%s:\n%#v local\n%#v remote", p.ID, local, remote)
		}
		if remote.Extension != "gpu1."+p.ID || remote.Tool != "ext_gpu1_"+p.ID+"_"+tool {
			t.Errorf("%s: extension %q, tool %q", p.ID, remote.Extension, remote.Tool)
		}
	}
}

// A call whose owner is killed is retried at another node, if the operator and the tool allow it.
func TestCallIsRetriedAtAnotherNode(t *testing.T) {
	urls := sharedServers(t)
	owners := map[string]*processtest.Process{}
	for _, name := range []string{"n1", "n2"} {
		owners[name] = startNode(t, urls, name, peers.AsReplicas)
	}
	front := open(t, join(t, urls, "quick", peers.AsReplicas), false)
	awaitNodes(t, front, 2)
	file := filepath.Join(t.TempDir(), "notes")
	outcome := make(chan error, 1)
	go func() {
		_, err := front.Call(within(t), "ext_x_renote",
			map[string]any{"file": file, "text": "a", "wait": true, "once": true})
		outcome <- err
	}()
	eventually(t, "the call runs", func() bool { return len(noted(t, file)) == 1 })
	owners[busy(t, front)].Kill()
	if err := <-outcome; err != nil {
		t.Error(err)
	}
	// where nothing kills the child of a killed host, it may note that the call was cancelled
	got := slices.DeleteFunc(noted(t, file), func(entry string) bool { return entry == "a cancelled" })
	if !slices.Equal(got, []string{"a", "a"}) {
		t.Errorf("noted: %q", got)
	}
}

// busy returns the node with a call of the host in flight.
func busy(t testing.TB, h *exthost.Host) string {
	t.Helper()
	for _, one := range h.Status().Extensions[0].Instances {
		if one.InFlight > 0 {
			return one.Key
		}
	}
	t.Fatalf("no node has a call: %+v", h.Status().Extensions)
	return ""
}

// awaitNodes waits until n nodes have extension x.
func awaitNodes(t testing.TB, h *exthost.Host, n int) {
	t.Helper()
	eventually(t, fmt.Sprint(n, " nodes"), func() bool {
		all := h.Status().Extensions
		i := slices.IndexFunc(all, func(x status.Extension) bool { return x.ID == "x" })
		return i >= 0 && len(all[i].Nodes) == n
	})
}

// A call whose owner is disconnected goes to a replica. Without a replica it is refused after the grace
// period, and never runs.
func TestCallAvoidsADisconnectedOwner(t *testing.T) {
	processtest.Leaks(t)
	s := startServers(t, 1)
	n1, n2 := startNode(t, s.urls(), "n1", peers.AsReplicas), startNode(t, s.urls(), "n2", peers.AsReplicas)
	front := open(t, join(t, s.urls(), "quick", peers.AsReplicas), false)
	awaitNodes(t, front, 2)
	file := filepath.Join(t.TempDir(), "notes")
	var want []string
	n1.Kill()
	s.awaitGone("n1")
	for i := range 4 {
		want = append(want, fmt.Sprint(i))
		if _, err := front.Call(within(t), "ext_x_note", map[string]any{"file": file, "text": want[i]}); err != nil {
			t.Errorf("with a replica: %v", err)
		}
	}
	n2.Kill()
	s.awaitGone("n2")
	_, err := front.Call(within(t), "ext_x_note", map[string]any{"file": file, "text": "never"})
	if e, _ := errors.AsType[*protocol.Error](err); e == nil || e.Kind != protocol.NotReady || e.Outcome != "" {
		t.Errorf("without a replica: %#v", err)
	}
	if got := noted(t, file); !slices.Equal(got, want) {
		t.Errorf("noted: %q", got)
	}
}

// awaitGone waits until the first server has noticed that a node was killed. Until then it delivers messages
// to a connection without a reader, and the outcome of calls is unknown.
func (s *servers) awaitGone(node string) {
	s.t.Helper()
	conn, err := nats.Connect(s.urls()[0])
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	subjects := wire.Subjects{Cluster: inCluster}
	eventually(s.t, node+" has no connection", func() bool {
		_, err := conn.Request(subjects.To(wire.Address{Node: node, Run: wire.NameRun}, "test"), nil, quickGrace)
		return errors.Is(err, nats.ErrNoResponders)
	})
}

// A session with its own process loses the process when the process's node is killed: the running call is lost, and the
// next one starts a process at another node.
func TestSessionMovesToAnotherNode(t *testing.T) {
	urls := sharedServers(t)
	owners, own := map[string]*processtest.Process{}, []plugin{{Runtime: `instances = "per_session"`}}
	for _, name := range []string{"n1", "n2", "n3"} {
		owners[name] = node{Name: name, As: peers.AsReplicas, URLs: urls, Plugins: own}.start(t)
	}
	front := open(t, join(t, urls, "quick", peers.AsReplicas), false)
	awaitNodes(t, front, 3)
	s := &protocol.Session{ID: "s1", Caller: "ada"}
	if err := front.Attach(within(t), s); err != nil {
		t.Fatal(err)
	}
	first := stays(t, front, s)
	file, outcome := filepath.Join(t.TempDir(), "notes"), make(chan error, 1)
	args := fmt.Sprintf(`{"name":"ext_x_note","arguments":{"file":%q,"text":"a","wait":true}}`, file)
	go func() {
		_, err := front.Do(within(t),
			&protocol.Call{Session: s, Method: protocol.MethodToolsCall, Params: []byte(args)})
		outcome <- err
	}()
	eventually(t, "the call runs", func() bool { return len(noted(t, file)) == 1 })
	owners[busy(t, front)].Kill()
	err := <-outcome
	if !isLost(err) || !strings.Contains(err.Error(), "the next call begins another") {
		t.Errorf("%v", err)
	}
	if next := stays(t, front, s); next == first {
		t.Errorf("the same process: %s", next)
	}
}

// stays checks that a session stays at one process while other calls keep the nodes busy, and returns the process.
func stays(t testing.TB, front *exthost.Host, s *protocol.Session) (pid string) {
	t.Helper()
	dir := t.TempDir()
	for i := range 4 {
		now := callAs(t, front, s, "ext_x_pid", "{}")
		if pid == "" {
			pid = now
		}
		if now != pid {
			t.Errorf("another process: %s and %s", pid, now)
		}
		file := filepath.Join(dir, fmt.Sprint(i))
		outcome := make(chan error, 1)
		ctx, cancel := context.WithCancel(within(t))
		go func() {
			_, err := front.Call(ctx, "ext_x_note", map[string]any{"file": file, "text": "a", "wait": true})
			outcome <- err
		}()
		eventually(t, "the other call runs", func() bool { return len(noted(t, file)) == 1 })
		if now := callAs(t, front, s, "ext_x_pid", "{}"); now != pid {
			t.Errorf("another process: %s and %s", pid, now)
		}
		cancel()
		<-outcome
	}
	return pid
}

// callAs makes a call in a session, and returns the text of its result.
func callAs(t testing.TB, h *exthost.Host, s *protocol.Session, tool, args string) string {
	t.Helper()
	r, err := h.Do(within(t), &protocol.Call{
		Session: s,
		Method:  protocol.MethodToolsCall,
		Params:  fmt.Appendf(nil, `{"name":%q,"arguments":%s}`, tool, args),
	})
	if err != nil {
		t.Fatal(err)
	}
	return protocol.ToolResult(r).Text()
}

// Remote nodes see state changes of an extension even if its tools stay the same.
func TestStateAtAnotherNode(t *testing.T) {
	urls := sharedServers(t)
	once := []plugin{{Runtime: "[runtime.restart]\nmax_attempts = 0"}}
	h, err := openHost(join(t, urls, "n1", peers.AsReplicas), t.TempDir(), exe(t), once)
	owner := closed(t, h, err)
	front := open(t, join(t, urls, "front", peers.AsReplicas), false)
	awaitTool(t, front, "ext_x_die", true)
	if _, err := front.Call(within(t), "ext_x_die", nil); protocol.KindOf(err) != protocol.ChildExited {
		t.Fatal(err)
	}
	state := func(want, reason string) {
		t.Helper()
		eventually(t, want, func() bool {
			x := front.Status().Extensions[0]
			return x.State == want && strings.Contains(x.Reason, reason)
		})
	}
	state(status.StateNotReady, "exthost status of node n1")
	if _, err := front.Call(within(t), "ext_x_pid", nil); protocol.KindOf(err) != protocol.Failed ||
		!strings.Contains(err.Error(), "node n1") {
		t.Errorf("%v", err)
	}
	before, _ := out(front, "n1")
	node{Name: "n2", As: peers.AsReplicas, URLs: urls, Plugins: once}.start(t)
	awaitNodes(t, front, 2)
	state("ready", "")
	if _, err := front.Call(within(t), "ext_x_pid", nil); err != nil {
		t.Error(err)
	}
	if n, _ := out(front, "n1"); n != before {
		t.Error("the node that cannot start it was asked")
	}
	if err := owner.Admin().Restart(within(t), "x"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is ready again", func() bool {
		i := slices.IndexFunc(front.Status().Cluster.Nodes, func(n status.Node) bool { return n.Name == "n1" })
		return front.Status().Cluster.Nodes[i].Shares[0].State == "ready"
	})
}

// A node whose own process of a replica does not start does not offer the replica of another node.
func TestReplicaThatDoesNotStart(t *testing.T) {
	urls, dir := sharedServers(t), t.TempDir()
	startNode(t, urls, "n2", peers.AsReplicas)
	h, err := openHost(join(t, urls, "n1", peers.AsReplicas), dir, exe(t),
		[]plugin{{Script: "hang", Runtime: `start_timeout = "50ms"`}})
	n1 := closed(t, h, err)
	front := open(t, join(t, urls, "front", peers.AsReplicas), false)
	awaitTool(t, n1, "ext_x_pid", true)
	if err := (plugin{ID: "y"}).install(dir, exe(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := n1.Admin().Reload(within(t)); err != nil {
		t.Fatal(err)
	}
	awaitTool(t, front, "ext_y_pid", true)
	awaitTool(t, front, "ext_x_pid", true)
	for _, n := range front.Status().Cluster.Nodes {
		if n.Name == "n1" && len(n.Shares) != 1 {
			t.Errorf("n1 shares %+v", n.Shares)
		}
	}
	for _, h := range []*exthost.Host{n1, front} {
		if _, err := h.Call(within(t), "ext_x_pid", nil); err != nil {
			t.Error(err)
		}
	}
}
