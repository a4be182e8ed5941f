package exthost_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/approval"
	"github.com/exthost/exthost/governance/audit"
	"github.com/exthost/exthost/internal/process/processtest"
	"github.com/exthost/exthost/peers"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// askingNode is a node gpu1 whose policy asks a person about each ext_x_echo, and its audit log.
func askingNode(t *testing.T, w *web, operators ...string) (owner *exthost.Host, log string) {
	t.Helper()
	f := newFolder(t).add("x", child("sdk", ""))
	cfg := f.config()
	cfg.Audit.Path = filepath.Join(t.TempDir(), "gpu1")
	cfg.Plugins = []governance.Spec{{Name: "ask", Builtin: "approval", Category: governance.Authorization, Required: true,
		Match: governance.Match{Tools: []string{"ext_x_echo"}}}}
	n := w.node("gpu1", peers.AsMine)
	n.operators = operators
	return f.openWith(cfg, exthost.Options{Cluster: n}), cfg.Audit.Path
}

// front is a node without extensions of its own.
func front(t *testing.T, w *web, name string) *exthost.Host {
	t.Helper()
	h := newFolder(t).open(exthost.Options{Cluster: w.node(name, peers.AsMine)})
	awaitTool(t, h, "ext_gpu1_x_echo", true)
	return h
}

// echo calls the tool that waits for an approval, and returns where its error comes.
func echo(t *testing.T, h *exthost.Host, tool string) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := h.Do(deadline(t), &protocol.Call{Session: &protocol.Session{Caller: "ada"}, Method: protocol.MethodToolsCall,
			Params: json.RawMessage(`{"name":"` + tool + `","arguments":{"n":1}}`)})
		done <- err
	}()
	return done
}

// awaitRequests waits until a host lists so many approval requests of all nodes.
func awaitRequests(t *testing.T, h *exthost.Host, n int) (list []approval.Request) {
	t.Helper()
	eventually(t, fmt.Sprint(n, " approval requests"), func() bool {
		list = exthost.NodesOf(h).Approvals(deadline(t)).Requests
		return len(list) == n
	})
	return list
}

// An approval request is listed at every node, and answered from those that the node names.
func TestApprovalOfAnotherNode(t *testing.T) {
	processtest.Leaks(t)
	w := newWeb()
	owner, log := askingNode(t, w, "web")
	web, laptop := front(t, w, "web"), front(t, w, "laptop")

	ctx, stop := context.WithCancel(deadline(t))
	defer stop()
	heard := make(chan []approval.Request, 64)
	var listener sync.WaitGroup
	defer listener.Wait()
	defer stop()
	listener.Go(func() {
		for e := range web.Admin().Events(ctx, status.EventApprovals) {
			heard <- *e.Approvals
		}
	})

	called := echo(t, laptop, "ext_gpu1_x_echo")
	q := awaitRequests(t, web, 1)[0]
	if q.Desk != "gpu1" || !strings.HasPrefix(q.ID, "gpu1/") || q.DeskOnly || q.Node != "laptop" || q.Caller != "ada" || q.Arguments != `{"n":1}` {
		t.Errorf("web sees %+v", q)
	}
	for seen := []approval.Request(nil); len(seen) != 1; {
		select {
		case seen = <-heard:
		case <-ctx.Done():
			t.Fatal("the request of another node was no event")
		}
	}
	if q := awaitRequests(t, laptop, 1)[0]; !q.DeskOnly || q.Arguments == "" {
		t.Errorf("laptop, whose caller it is, sees %+v", q)
	}
	if q := awaitRequests(t, owner, 1)[0]; q.Desk != "" || strings.Contains(q.ID, "/") {
		t.Errorf("gpu1 sees %+v", q)
	}
	err := exthost.NodesOf(laptop).Approve(deadline(t), q.ID, "eve")
	if protocol.KindOf(err) != protocol.Rejected || !strings.Contains(err.Error(), "node gpu1 takes no orders of node laptop: name it in cluster.operators there") {
		t.Errorf("a node that is not named answers: %v", err)
	}
	if err := exthost.NodesOf(web).Approve(deadline(t), q.ID, "bob\x1b[31m"); err != nil {
		t.Fatal(err)
	}
	if err := <-called; err != nil {
		t.Error(err)
	}
	if err := exthost.NodesOf(web).Deny(deadline(t), q.ID, "bob", ""); protocol.KindOf(err) != protocol.ToolNotFound || !strings.Contains(err.Error(), `was approved already, by bob\x1b[31m at node web`) {
		t.Errorf("a second answer: %v", err)
	}
	awaitRequests(t, web, 0)

	called = echo(t, laptop, "ext_gpu1_x_echo")
	q = awaitRequests(t, web, 1)[0]
	if err := exthost.NodesOf(web).Deny(deadline(t), q.ID, "bob", "not today"); err != nil {
		t.Error(err)
	}
	if err := <-called; protocol.KindOf(err) != protocol.Rejected || !strings.Contains(err.Error(), "by bob at node web: not today") {
		t.Errorf("the caller is told %v", err)
	}
	if err := owner.Close(); err != nil {
		t.Error(err)
	}
	var records []string
	for r, err := range audit.Read(deadline(t), log, audit.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(r.Method, "exthost/") {
			records = append(records, strings.TrimSpace(fmt.Sprintf("%s %s %s %s %s", r.Node, r.Method, r.Outcome, r.Code, r.ApprovedBy)))
		}
	}
	if want := []string{"laptop exthost/approvals/approve denied not_an_operator", `web exthost/approvals/approve ok  bob\x1b[31m at node web`,
		"web exthost/approvals/deny failed", "web exthost/approvals/deny ok  bob at node web"}; !slices.Equal(records, want) {
		t.Errorf("the log has %q", records)
	}
}

// Of two nodes that answer at once, one does; the other is told who did.
func TestTwoNodesAnswer(t *testing.T) {
	processtest.Leaks(t)
	w := newWeb()
	askingNode(t, w, "web", "laptop")
	fronts := []*exthost.Host{front(t, w, "web"), front(t, w, "laptop")}
	for range 20 {
		called := echo(t, fronts[0], "ext_gpu1_x_echo")
		var ids [2]string
		for i, h := range fronts {
			ids[i] = awaitRequests(t, h, 1)[0].ID
		}
		var answers [2]error
		var answering sync.WaitGroup
		answering.Go(func() { answers[0] = exthost.NodesOf(fronts[0]).Approve(deadline(t), ids[0], "ann") })
		answering.Go(func() { answers[1] = exthost.NodesOf(fronts[1]).Deny(deadline(t), ids[1], "bob", "") })
		answering.Wait()
		err := <-called
		switch {
		case answers[0] == nil && err == nil && answers[1] != nil && strings.Contains(answers[1].Error(), "was approved already, by ann at node web"):
		case answers[1] == nil && protocol.KindOf(err) == protocol.Rejected && answers[0] != nil && strings.Contains(answers[0].Error(), "was denied already, by bob at node laptop"):
		default:
			t.Fatalf("approve: %v, deny: %v, the call: %v", answers[0], answers[1], err)
		}
	}
}

// An answer is bound to the call that the person was shown, and nobody but the operators of the
// nodes that are named gives one, whatever they say of themselves.
func TestHostileOperations(t *testing.T) {
	processtest.Leaks(t)
	w := newWeb()
	owner, _ := askingNode(t, w, "web")
	web := front(t, w, "web")
	called := echo(t, web, "ext_gpu1_x_echo")
	q := awaitRequests(t, owner, 1)[0]
	n := w.nodes["gpu1"].host
	operate := func(node, method, params string) error {
		_, err := n.Operate(deadline(t), &peers.Operation{Node: node, Run: "run", Operator: node == "web", Method: method, Params: json.RawMessage(params)})
		return err
	}
	right := fmt.Sprintf(`{"id":%q,"hash":%q,"by":"bob"}`, q.ID, q.Hash)
	for name, tt := range map[string]struct {
		node, method, params string
		kind                 protocol.Kind
	}{
		"not named":             {"eve", "approvals/approve", right, protocol.Rejected},
		"a forged name":         {"web ", "approvals/approve", right, protocol.Rejected},
		"in upper case":         {"WEB", "approvals/approve", right, protocol.Rejected},
		"another digest":        {"web", "approvals/approve", strings.Replace(right, q.Hash, strings.Repeat("0", 64), 1), protocol.DescriptorChanged},
		"no digest":             {"web", "approvals/approve", fmt.Sprintf(`{"id":%q,"by":"bob"}`, q.ID), protocol.DescriptorChanged},
		"another request":       {"web", "approvals/approve", `{"id":"zzzz\u001b[2J","hash":"","by":"bob"}`, protocol.ToolNotFound},
		"not an object":         {"web", "approvals/approve", `["x"]`, protocol.InvalidArguments},
		"unknown":               {"web", "approvals/approve-all", `{}`, protocol.ToolNotFound},
		"restart not named":     {"eve", "extensions/restart", `{"id":"x"}`, protocol.Rejected},
		"disable not named":     {"eve", "extensions/disable", `{"id":"x"}`, protocol.Rejected},
		"reload not named":      {"eve", "extensions/reload", `{}`, protocol.Rejected},
		"a place of the others": {"web", "extensions/restart", `{"id":"gpu1.x"}`, protocol.ToolNotFound},
		"a page of nobody":      {"eve", "results/page", `{"arguments":{"handle":"../x"}}`, protocol.InvalidArguments},
	} {
		if err := operate(tt.node, tt.method, tt.params); protocol.KindOf(err) != tt.kind {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := owner.Do(deadline(t), &protocol.Call{Extension: "exthost/node", Method: "approvals/approve", Params: json.RawMessage(right)}); protocol.KindOf(err) != protocol.ToolNotFound {
		t.Errorf("by the way of calls: %v", err)
	}
	if len(awaitRequests(t, owner, 1)) != 1 {
		t.Error("the request was answered")
	}
	if err := operate("web", "approvals/approve", right); err != nil {
		t.Error(err)
	}
	if err := <-called; err != nil {
		t.Error(err)
	}
}

// liar is a node that answers each operation with the same bytes.
type liar struct {
	peers.Cluster
	answer string
}

func (l *liar) Status() *status.Cluster {
	s := l.Cluster.Status()
	s.Nodes = append(s.Nodes, status.Node{Name: "liar", State: status.NodeReady, Approvals: 10_000})
	return s
}

func (l *liar) Operate(ctx context.Context, node, method string, params json.RawMessage) (json.RawMessage, error) {
	if node == "liar" {
		return json.RawMessage(l.answer), nil
	}
	return l.Cluster.Operate(ctx, node, method, params)
}

// What a node says of its requests is bounded, and steers no terminal.
func TestNodeThatFloodsItsRequests(t *testing.T) {
	processtest.Leaks(t)
	var many []approval.Request
	for i := range 10_000 {
		many = append(many, approval.Request{ID: fmt.Sprint("q", i), Tool: "rm\x1b[2J\u202e", Caller: strings.Repeat("a", 300+i), Node: "n\n1", Arguments: `{"x":"` + "\x07", Since: time.Unix(int64(i), 0)})
	}
	many[0].ID, many[1].ID = "../../x", "q\x1b"
	text := func(v any) string {
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	l := &liar{Cluster: newWeb().node("web", peers.AsMine)}
	h := newFolder(t).open(exthost.Options{Cluster: l})
	for name, tt := range map[string]struct {
		answer string
		shown  int
	}{
		"10,000 requests":     {text(many[:2000]), 256},
		"too many bytes":      {text(many), 0},
		"no list":             {`{"approvals":1}`, 0},
		"ids that are a path": {text(many[:2]), 0},
		"empty":               {`[]`, 0},
	} {
		l.answer = tt.answer
		all := exthost.NodesOf(h).Approvals(deadline(t))
		if len(all.Requests) != tt.shown || len(all.Silent) > 1 {
			t.Errorf("%s: %d shown, silent %v", name, len(all.Requests), all.Silent)
		}
		for _, q := range all.Requests {
			if q.Desk != "liar" || len(q.Caller) > 600 || strings.ContainsAny(q.Tool+q.Node+q.Arguments, "\x1b\n\x07\u202e") {
				t.Fatalf("%s: %+v", name, q)
			}
		}
	}
}

// An extension of another node is restarted, disabled and reloaded from here where that node allows it.
func TestOperateExtensionOfAnotherNode(t *testing.T) {
	processtest.Leaks(t)
	w := newWeb()
	owner, _ := askingNode(t, w, "web")
	web, laptop := front(t, w, "web"), front(t, w, "laptop")
	if _, err := web.Call(deadline(t), "ext_gpu1_x_greet", map[string]any{"name": "Ada"}); err != nil {
		t.Fatal(err)
	}
	before := statusOf(t, owner, "x").Instances[0].PID
	if err := exthost.NodesOf(web).Restart(deadline(t), "gpu1.x", "bob"); err != nil {
		t.Fatal(err)
	}
	if after := statusOf(t, owner, "x").Instances[0].PID; after == before {
		t.Error("the extension runs as before")
	}
	for name, tt := range map[string]struct {
		err  error
		kind protocol.Kind
		text string
	}{
		"not named":       {exthost.NodesOf(laptop).Restart(deadline(t), "gpu1.x", "eve"), protocol.Rejected, "node gpu1 takes no orders of node laptop: name it in cluster.operators there, or give the command there: exthost restart x"},
		"no such":         {exthost.NodesOf(web).Restart(deadline(t), "gpu1.y", "bob"), protocol.ToolNotFound, "node gpu1: "},
		"without a node":  {exthost.NodesOf(web).Restart(deadline(t), "x", "bob"), protocol.InvalidArguments, "x is not at this node; it is at gpu1: exthost restart gpu1.x"},
		"nowhere":         {exthost.NodesOf(web).Restart(deadline(t), "z", "bob"), protocol.ToolNotFound, ""},
		"disable":         {exthost.NodesOf(web).Disable(deadline(t), "gpu1.x", "bob"), protocol.ConfigInvalid, "node gpu1: the configuration of this host is not to be changed from here"},
		"by its own name": {exthost.NodesOf(owner).Restart(deadline(t), "gpu1.x", "bob"), "", ""},
	} {
		if (tt.kind == "") != (tt.err == nil) || tt.err != nil && (protocol.KindOf(tt.err) != tt.kind || !strings.Contains(tt.err.Error(), tt.text)) {
			t.Errorf("%s: %v", name, tt.err)
		}
	}
	if change, err := exthost.NodesOf(web).Reload(deadline(t), "gpu1.x", "bob"); err != nil || !change.Empty() {
		t.Errorf("%+v, %v", change, err)
	}
	w.nodes["gpu1"].old = true
	if err := exthost.NodesOf(web).Restart(deadline(t), "gpu1.x", "bob"); protocol.KindOf(err) != protocol.RequirementMissing || !strings.Contains(err.Error(), "not supported by node gpu1 (exthost 0.0.9)") {
		t.Errorf("an older node: %v", err)
	}
	w.nodes["gpu1"].old = false
}
