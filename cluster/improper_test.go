package cluster_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/exthost/exthost/cluster"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/peers"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// improper is the host of a node that answers remote operators arbitrarily.
type improper struct {
	peers.Host
	operate func(ctx context.Context, o *peers.Operation) (json.RawMessage, error)
}

func (improper) PlacesChanged()  {}
func (improper) WaitingChanged() {}
func (h improper) Operate(ctx context.Context, o *peers.Operation) (json.RawMessage, error) {
	return h.operate(ctx, o)
}

// openImproper opens such a node, which announces a pending request.
func openImproper(t *testing.T, urls []string, name string, operate func(ctx context.Context,
	o *peers.Operation) (json.RawMessage, error)) *cluster.Node {
	t.Helper()
	n := operatedBy(t, urls, name)
	if err := n.Open(within(t), improper{operate: operate}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(within(t)); err != nil {
			t.Errorf("Close of %s: %v", name, err)
		}
	})
	n.Waiting(1)
	return n
}

// The records of a call are found despite a node that does not answer, and that node is named.
func TestRecordsBesideASilentNode(t *testing.T) {
	processtest.Leaks(t)
	s := startServers(t, 1)
	audited := func(cfg *config.Config) { cfg.Audit.Path = filepath.Join(t.TempDir(), "audit.jsonl") }
	open(t, operatedBy(t, s.urls(), "gpu1", "web"), true, audited)
	web := open(t, operatedBy(t, s.urls(), "web"), false, audited)
	ctx, stop := context.WithCancel(within(t))
	defer stop()
	asked := make(chan struct{}, 16)
	openImproper(t, s.urls(), "mute", func(context.Context, *peers.Operation) (json.RawMessage, error) {
		asked <- struct{}{}
		<-ctx.Done()
		return nil, protocol.Errorf(protocol.NotReady, "too late")
	})
	awaitTool(t, web, "ext_gpu1_x_echo", true)
	eventually(t, "the node that does not answer is there", func() bool { return len(web.Status().Cluster.Nodes) == 2 })
	if _, err := callText(t, web, &protocol.Session{Caller: "ada"}, "ext_gpu1_x_echo", struct{}{}); err != nil {
		t.Fatal(err)
	}
	go func() { // asked for the front's id, and then for the owner's id in the record found there
		for range 2 {
			select {
			case <-asked:
			case <-ctx.Done():
				return
			}
		}
		stop()
	}()
	found, err := web.Nodes().Audit(ctx, web.Admin().Calls(1)[0].Decision)
	if err != nil || !slices.ContainsFunc(found.Nodes,
		func(a status.Audited) bool { return a.Node == "gpu1" && len(a.Records) == 1 }) {
		t.Errorf("%+v, %v", found.Nodes, err)
	}
	if !slices.ContainsFunc(found.Silent, func(s status.Silent) bool { return s.Node == "mute" }) {
		t.Errorf("silent: %+v", found.Silent)
	}
}

// An error text of another node is attributed to that node, and contains no terminal escapes.
func TestErrorsOfAnImproperNode(t *testing.T) {
	processtest.Leaks(t)
	s := startServers(t, 1)
	web := open(t, operatedBy(t, s.urls(), "web"), false)
	answers := make(chan error, 1)
	openImproper(t, s.urls(), "gpu1", func(ctx context.Context, _ *peers.Operation) (json.RawMessage, error) {
		select {
		case err := <-answers:
			return nil, err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
	eventually(t, "the node is there", func() bool { return len(web.Status().Cluster.Nodes) == 1 })
	for _, begin := range []string{"", "node gpu1"} {
		answers <- &protocol.Error{
			Kind:      protocol.Rejected,
			Extension: "\x1b[2J",
			Message:   begin + "\x1b[2J\n  next: exthost stop" + strings.Repeat("!", 1<<20),
		}
		err := web.Nodes().Restart(within(t), "gpu1.x", "ann")
		if protocol.KindOf(err) != protocol.Rejected || !strings.Contains(err.Error(), "node gpu1") ||
			strings.ContainsAny(err.Error(), "\x1b\n") || len(err.Error()) > 8<<10 {
			t.Errorf("%.300q", err)
		}
	}
}

// If more requests are pending than are listed, the nodes of the unlisted ones are named.
func TestMoreRequestsThanAreListed(t *testing.T) {
	processtest.Leaks(t)
	s := startServers(t, 1)
	web := open(t, operatedBy(t, s.urls(), "web"), false)
	var list []map[string]any
	for i := range 256 {
		list = append(list, map[string]any{"id": fmt.Sprint("q", i)})
	}
	const nodes = 5
	for i := range nodes {
		openImproper(t, s.urls(), fmt.Sprint("gpu", i),
			func(context.Context, *peers.Operation) (json.RawMessage, error) { return json.Marshal(list) })
	}
	eventually(t, "requests wait at all nodes", func() bool {
		all := web.Status().Cluster.Nodes
		return len(all) == nodes && !slices.ContainsFunc(all, func(n status.Node) bool { return n.Approvals == 0 })
	})
	for range 2 {
		all := web.Nodes().Approvals(within(t))
		listed := make(map[string]int)
		for _, q := range all.Requests {
			listed[q.Desk]++
		}
		if len(listed) != nodes-1 || len(all.Silent) != 1 || listed[all.Silent[0].Node] != 0 ||
			!strings.Contains(all.Silent[0].Reason, "1024 requests of other nodes are listed already") {
			t.Errorf("%v are listed, and named: %+v", listed, all.Silent)
		}
	}
}

// A list of requests that arrives late does not replace one that was requested after it.
func TestLateListOfRequests(t *testing.T) {
	processtest.Leaks(t)
	s := startServers(t, 1)
	web := open(t, operatedBy(t, s.urls(), "web"), false)
	asked, answer := make(chan struct{}, 1), make(chan struct{})
	var before atomic.Int32
	gpu1 := openImproper(t, s.urls(), "gpu1", func(context.Context, *peers.Operation) (json.RawMessage, error) {
		if before.Add(1) == 1 {
			asked <- struct{}{}
			<-answer
			return json.RawMessage(`[{"id":"q1"}]`), nil
		}
		return json.RawMessage(`[{"id":"q1"},{"id":"q2"}]`), nil
	})
	eventually(t, "a request waits", func() bool {
		all := web.Status().Cluster.Nodes
		return len(all) == 1 && all[0].Approvals == 1
	})
	n := web.Nodes()
	listed := make(chan status.Approvals, 1)
	go func() { listed <- n.Approvals(within(t)) }()
	<-asked
	defer n.Follow()()
	gpu1.Waiting(2)
	current := func() int {
		list, _, _, _ := n.Current()
		return len(list)
	}
	eventually(t, "two requests are known", func() bool { return current() == 2 })
	close(answer)
	if late := <-listed; current() != 2 {
		t.Errorf("the late list has %d requests, and then %d are known", len(late.Requests), current())
	}
}
