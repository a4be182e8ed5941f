package cluster_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/peers"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// replicas starts nodes n1 and n2 with the same extensions, except for what change does to n1, and opens two
// fronts.
func replicas(t *testing.T, each node, change func(*node)) (owners []*processtest.Process, front, other *exthost.Host) {
	t.Helper()
	each.URLs, each.As = sharedServers(t), peers.AsReplicas
	first := each
	first.Plugins = slices.Clone(each.Plugins)
	if change != nil {
		change(&first)
	}
	first.Name, each.Name = "n1", "n2"
	owners = []*processtest.Process{first.start(t), each.start(t)}
	front = open(t, join(t, each.URLs, "front", peers.AsReplicas), false)
	other = open(t, join(t, each.URLs, "other", peers.AsReplicas), false)
	awaitNodes(t, front, 2)
	awaitNodes(t, other, 2)
	return owners, front, other
}

// out returns the number of calls to a node, and of those without a result.
func out(h *exthost.Host, name string) (calls, failed uint64) {
	for _, n := range h.Status().Cluster.Nodes {
		if n.Name == name {
			return n.Out, n.Failed
		}
	}
	return 0, 0
}

// triedFirst checks that a call of the front went to n1, which refused it, and then to n2.
func triedFirst(t *testing.T, front *exthost.Host) {
	t.Helper()
	calls, failed := out(front, "n1")
	if next, lost := out(front, "n2"); calls != 1 || failed != 1 || next != 1 || lost != 0 {
		t.Errorf("n1 had %d calls and refused %d; n2 had %d and refused %d", calls, failed, next, lost)
	}
}

// A node at its limit of calls is skipped. When all are, the call is refused.
func TestOverloadedNodeIsSkipped(t *testing.T) {
	_, front, other := replicas(t, node{Plugins: x, MaxCalls: 1}, nil)
	dir := t.TempDir()
	var outcomes []<-chan error
	till := filepath.Join(dir, "till")
	occupy := func() {
		file, outcome := filepath.Join(dir, fmt.Sprint(len(outcomes))), make(chan error, 1)
		go func() {
			_, err := other.Call(within(t), "ext_x_note", map[string]any{"file": file, "text": "a", "till": till})
			outcome <- err
		}()
		outcomes = append(outcomes, outcome)
		eventually(t, "the call runs", func() bool { return len(noted(t, file)) == 1 })
	}
	occupy()
	file := filepath.Join(dir, "notes")
	if _, err := front.Call(within(t), "ext_x_note", map[string]any{"file": file, "text": "a"}); err != nil {
		t.Error(err)
	}
	triedFirst(t, front)
	occupy()
	_, err := front.Call(within(t), "ext_x_note", map[string]any{"file": file, "text": "b"})
	if e, _ := errors.AsType[*protocol.Error](err); e == nil || e.Kind != protocol.Overloaded || e.Outcome != "" {
		t.Errorf("all are busy: %#v", err)
	}
	if ran := noted(t, file); !slices.Equal(ran, []string{"a"}) {
		t.Errorf("ran: %q", ran)
	}
	if err := os.WriteFile(till, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, outcome := range outcomes {
		if err := <-outcome; err != nil {
			t.Error(err)
		}
	}
}

// A node with an open breaker is skipped. When all are open, the error says when the first one closes.
func TestNodeWithOpenBreakerIsSkipped(t *testing.T) {
	_, front, other := replicas(t, node{Plugins: []plugin{{Runtime: `call_timeout = "300ms"`}}}, nil)
	hang := func() error {
		_, err := other.Call(within(t), "ext_x_abuse", map[string]any{"how": "hang"})
		return err
	}
	for calls := uint64(0); calls == 0; calls, _ = out(other, "n2") {
		if err := hang(); protocol.KindOf(err) != protocol.CallTimeout {
			t.Fatal(err)
		}
	}
	eventually(t, "a call of the next", func() bool { // may take 300 ms
		_, err := front.Call(within(t), "ext_x_pid", nil)
		return err == nil
	})
	if calls, failed := out(front, "n1"); calls == 0 || calls != failed {
		t.Errorf("n1 had %d calls and refused %d", calls, failed)
	}
	var err error
	for protocol.KindOf(err) != protocol.BreakerOpen {
		if err = hang(); err == nil {
			t.Fatal("a call that hangs has a result")
		}
	}
	_, err = front.Call(within(t), "ext_x_pid", nil)
	if e, _ := errors.AsType[*protocol.Error](err); e == nil || e.Kind != protocol.BreakerOpen || e.Outcome != "" ||
		e.RetryAfter <= 0 {
		t.Errorf("both are open: %#v", err)
	}
}

// A draining node finishes its calls and accepts no more.
func TestDrainingNodeFinishesItsCalls(t *testing.T) {
	owners, front, other := replicas(t, node{Plugins: x}, nil)
	file, till, outcome := filepath.Join(t.TempDir(), "notes"), filepath.Join(t.TempDir(), "till"), make(chan error, 1)
	go func() {
		_, err := other.Call(within(t), "ext_x_note", map[string]any{"file": file, "text": "a", "till": till})
		outcome <- err
	}()
	eventually(t, "the call runs", func() bool { return len(noted(t, file)) == 1 })
	stopped := make(chan struct{})
	go func() { owners[0].Stop(t); close(stopped) }()
	leaves := func() bool {
		return slices.ContainsFunc(front.Status().Cluster.Nodes,
			func(n status.Node) bool { return n.Name == "n1" && n.State == status.NodeLeaving })
	}
	for left := false; !left; { // before and after the front has heard of it
		left = leaves()
		if _, err := front.Call(within(t), "ext_x_echo", map[string]any{"n": 1}); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(till, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := <-outcome; err != nil {
		t.Errorf("the call that ran: %v", err)
	}
	<-stopped
}

// A node that cannot start the extension is skipped.
func TestNodeThatCannotStartIsSkipped(t *testing.T) {
	const tool = "[transport]\nkind = \"exec\"\ncmd = [\"EXE\"]\nenv = { EXTHOST_TEST_SCRIPT = \"eof; out hello\" " +
		"}\n[[tools]]\nname = \"hello\"\ndescription = \"Says hello.\"\n"
	program := filepath.Join(t.TempDir(), "program")
	if err := os.Symlink(exe(t), program); err != nil {
		t.Fatal(err)
	}
	_, front, _ := replicas(t, node{Plugins: []plugin{{Manifest: tool}}}, func(n *node) {
		n.Plugins[0].Manifest = strings.ReplaceAll(tool, "EXE", program)
	})
	if err := os.Remove(program); err != nil {
		t.Fatal(err)
	}
	if r, err := front.Call(within(t), "ext_x_hello", nil); err != nil || strings.TrimSpace(r.Text()) != "hello" {
		t.Errorf("%s, %v", r, err)
	}
	triedFirst(t, front)
}
