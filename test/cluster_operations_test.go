package test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/approval"
	"github.com/exthost/exthost/governance/audit"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/peers"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// askingNode returns a node gpu1 whose policy requires approval for ext_x_echo, and its audit log.
func askingNode(t *testing.T, w *web, operators ...string) (owner *exthost.Host, log string) {
	t.Helper()
	f := hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", ""))
	cfg := f.Config()
	cfg.Audit.Path = filepath.Join(t.TempDir(), "gpu1")
	cfg.Plugins = []governance.Spec{{Name: "ask", Builtin: "approval", Category: governance.Authorization,
		Match: governance.Match{Tools: []string{"ext_x_echo"}}}}
	n := w.node("gpu1", peers.AsMine)
	n.operators = operators
	return f.OpenWith(cfg, exthost.Options{Cluster: n}), cfg.Audit.Path
}

// front returns a node without own extensions.
func front(t *testing.T, w *web, name string) *exthost.Host {
	t.Helper()
	h := hosttest.NewFolder(t).Open(exthost.Options{Cluster: w.node(name, peers.AsMine)})
	awaitTool(t, h, "ext_gpu1_x_echo", true)
	return h
}

// echo calls the tool that requires approval, and returns a channel for its error.
func echo(t *testing.T, h *exthost.Host, tool string) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := h.Do(hosttest.Deadline(t), &protocol.Call{
			Session: &protocol.Session{Caller: "ada"},
			Method:  protocol.MethodToolsCall,
			Params:  json.RawMessage(`{"name":"` + tool + `","arguments":{"n":1}}`),
		})
		done <- err
	}()
	return done
}

// awaitRequests waits until a host lists n approval requests of all nodes.
func awaitRequests(t *testing.T, h *exthost.Host, n int) (list []approval.Request) {
	t.Helper()
	hosttest.Eventually(t, fmt.Sprint(n, " approval requests"), func() bool {
		list = h.Nodes().Approvals(hosttest.Deadline(t)).Requests
		return len(list) == n
	})
	return list
}

// An approval request is listed at every node, and can be answered from the nodes that its owner allows.
func TestApprovalOfAnotherNode(t *testing.T) {
	processtest.Leaks(t)
	w := newWeb()
	owner, log := askingNode(t, w, "web")
	web, laptop := front(t, w, "web"), front(t, w, "laptop")

	ctx, stop := context.WithCancel(hosttest.Deadline(t))
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
	if q.Desk != "gpu1" || !strings.HasPrefix(q.ID, "gpu1/") || q.DeskOnly || q.Node != "laptop" || q.Caller != "ada" ||
		q.Arguments != `{"n":1}` {
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
	err := laptop.Nodes().Approve(hosttest.Deadline(t), q.ID, "eve")
	if protocol.KindOf(err) != protocol.Rejected ||
		!strings.Contains(err.Error(), "node gpu1 takes no orders of node laptop: name it in cluster.operators there") {
		t.Errorf("a node that is not named answers: %v", err)
	}
	if err := web.Nodes().Approve(hosttest.Deadline(t), q.ID, "bob\x1b[31m"); err != nil {
		t.Fatal(err)
	}
	if err := <-called; err != nil {
		t.Error(err)
	}
	err = web.Nodes().Deny(hosttest.Deadline(t), q.ID, "bob", "")
	if protocol.KindOf(err) != protocol.ToolNotFound ||
		!strings.Contains(err.Error(), `was approved already, by bob\x1b[31m at node web`) {
		t.Errorf("a second answer: %v", err)
	}
	awaitRequests(t, web, 0)

	called = echo(t, laptop, "ext_gpu1_x_echo")
	q = awaitRequests(t, web, 1)[0]
	if err := web.Nodes().Deny(hosttest.Deadline(t), q.ID, "bob", "not today"); err != nil {
		t.Error(err)
	}
	if err := <-called; protocol.KindOf(err) != protocol.Rejected ||
		!strings.Contains(err.Error(), "by bob at node web: not today") {
		t.Errorf("the caller is told %v", err)
	}
	if err := owner.Close(); err != nil {
		t.Error(err)
	}
	var records []string
	for r, err := range audit.Read(hosttest.Deadline(t), log, audit.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(r.Method, "exthost/") {
			records = append(records,
				strings.TrimSpace(fmt.Sprintf("%s %s %s %s %s", r.Node, r.Method, r.Outcome, r.Code, r.ApprovedBy)))
		}
	}
	if want := []string{"laptop exthost/approvals/approve denied not_an_operator",
		`web exthost/approvals/approve ok  bob\x1b[31m at node web`,
		"web exthost/approvals/deny failed",
		"web exthost/approvals/deny ok  bob at node web"}; !slices.Equal(records, want) {
		t.Errorf("the log has %q", records)
	}
}

// If two nodes answer at once, one answer counts, and the other node is told whose.
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
		answering.Go(func() { answers[0] = fronts[0].Nodes().Approve(hosttest.Deadline(t), ids[0], "ann") })
		answering.Go(func() { answers[1] = fronts[1].Nodes().Deny(hosttest.Deadline(t), ids[1], "bob", "") })
		answering.Wait()
		err := <-called
		switch {
		case answers[0] == nil && err == nil && answers[1] != nil &&
			strings.Contains(answers[1].Error(), "was approved already, by ann at node web"):
		case answers[1] == nil && protocol.KindOf(err) == protocol.Rejected && answers[0] != nil &&
			strings.Contains(answers[0].Error(), "was denied already, by bob at node laptop"):
		default:
			t.Fatalf("approve: %v, deny: %v, the call: %v", answers[0], answers[1], err)
		}
	}
}

// An answer is bound to the call that the person was shown. Only operators of allowed nodes can give one,
// whatever a node claims.
func TestHostileOperations(t *testing.T) {
	processtest.Leaks(t)
	w := newWeb()
	owner, _ := askingNode(t, w, "web")
	web := front(t, w, "web")
	called := echo(t, web, "ext_gpu1_x_echo")
	q := awaitRequests(t, owner, 1)[0]
	n := w.nodes["gpu1"].host
	operate := func(node, method, params string) error {
		_, err := n.Operate(hosttest.Deadline(t),
			&peers.Operation{
				Node:     node,
				Run:      "run",
				Operator: node == "web",
				Method:   method,
				Params:   json.RawMessage(params),
			})
		return err
	}
	right := fmt.Sprintf(`{"id":%q,"hash":%q,"by":"bob"}`, q.ID, q.Hash)
	for name, tt := range map[string]struct {
		node, method, params string
		kind                 protocol.Kind
	}{
		"not named":     {"eve", "approvals/approve", right, protocol.Rejected},
		"a forged name": {"web ", "approvals/approve", right, protocol.Rejected},
		"in upper case": {"WEB", "approvals/approve", right, protocol.Rejected},
		"another digest": {"web", "approvals/approve",
			strings.Replace(right, q.Hash, strings.Repeat("0", 64), 1), protocol.DescriptorChanged},
		"no digest": {"web", "approvals/approve", fmt.Sprintf(`{"id":%q,"by":"bob"}`, q.ID),
			protocol.DescriptorChanged},
		"another request": {"web", "approvals/approve", `{"id":"zzzz\u001b[2J","hash":"","by":"bob"}`,
			protocol.ToolNotFound},
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
	if _, err := owner.Do(hosttest.Deadline(t),
		&protocol.Call{
			Extension: "exthost/node",
			Method:    "approvals/approve",
			Params:    json.RawMessage(right),
		}); protocol.KindOf(err) != protocol.ToolNotFound {
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

// A node's list of requests is bounded, and contains no terminal escapes.
func TestNodeThatFloodsItsRequests(t *testing.T) {
	processtest.Leaks(t)
	var many []approval.Request
	for i := range 10_000 {
		many = append(many, approval.Request{
			ID:        fmt.Sprint("q", i),
			Tool:      "rm\x1b[2J\u202e",
			Caller:    strings.Repeat("a", 300+i),
			Node:      "n\n1",
			Arguments: `{"x":"` + "\x07",
			Since:     time.Unix(int64(i), 0),
		})
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
	h := hosttest.NewFolder(t).Open(exthost.Options{Cluster: l})
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
		all := h.Nodes().Approvals(hosttest.Deadline(t))
		if len(all.Requests) != tt.shown || len(all.Silent) > 1 {
			t.Errorf("%s: %d shown, silent %v", name, len(all.Requests), all.Silent)
		}
		for _, q := range all.Requests {
			if q.Desk != "liar" || len(q.Caller) > 600 ||
				strings.ContainsAny(q.Tool+q.Node+q.Arguments, "\x1b\n\x07\u202e") {
				t.Fatalf("%s: %+v", name, q)
			}
		}
	}
}

// An answer is refused if the node lists another call under the id by now, or if the id does not identify
// what was shown.
func TestAnswerIsToWhatWasShown(t *testing.T) {
	processtest.Leaks(t)
	l := &liar{
		Cluster: newWeb().node("web", peers.AsMine),
		answer:  `[{"id":"q1","tool":"read","arguments":"{}","hash":"1"}]`,
	}
	n := hosttest.NewFolder(t).Open(exthost.Options{Cluster: l}).Nodes()
	shown := n.Approvals(hosttest.Deadline(t)).Requests[0].ID
	l.answer = `[{"id":"q1","tool":"rm","arguments":"{}","hash":"1"}]`
	n.Approvals(hosttest.Deadline(t)) // another person lists them
	if err := n.Approve(hosttest.Deadline(t), shown, "ann"); protocol.KindOf(err) != protocol.DescriptorChanged {
		t.Errorf("another call was approved: %v", err)
	}
	if err := n.Deny(hosttest.Deadline(t), "liar/q1", "ann", ""); protocol.KindOf(err) != protocol.InvalidArguments {
		t.Errorf("an id without a mark: %v", err)
	}
}

// A remote extension can be restarted, disabled and reloaded if its node allows it.
func TestOperateExtensionOfAnotherNode(t *testing.T) {
	processtest.Leaks(t)
	w := newWeb()
	owner, _ := askingNode(t, w, "web")
	web, laptop := front(t, w, "web"), front(t, w, "laptop")
	if _, err := web.Call(hosttest.Deadline(t), "ext_gpu1_x_greet", map[string]any{"name": "Ada"}); err != nil {
		t.Fatal(err)
	}
	before := hosttest.StatusOf(t, owner, "x").Instances[0].PID
	if err := web.Nodes().Restart(hosttest.Deadline(t), "gpu1.x", "bob"); err != nil {
		t.Fatal(err)
	}
	if after := hosttest.StatusOf(t, owner, "x").Instances[0].PID; after == before {
		t.Error("the extension runs as before")
	}
	for name, tt := range map[string]struct {
		err  error
		kind protocol.Kind
		text string
	}{
		"not named": {laptop.Nodes().Restart(hosttest.Deadline(t), "gpu1.x", "eve"), protocol.Rejected,
			"node gpu1 takes no orders of node laptop: name it in cluster.operators there, or give the command " +
				"there: exthost restart x"},
		"no such": {web.Nodes().Restart(hosttest.Deadline(t), "gpu1.y", "bob"), protocol.ToolNotFound,
			"node gpu1: "},
		"without a node": {web.Nodes().Restart(hosttest.Deadline(t), "x", "bob"), protocol.InvalidArguments,
			"x is not at this node; it is at gpu1: exthost restart gpu1.x"},
		"nowhere": {web.Nodes().Restart(hosttest.Deadline(t), "z", "bob"), protocol.ToolNotFound, ""},
		"disable": {web.Nodes().Disable(hosttest.Deadline(t), "gpu1.x", "bob"), protocol.ConfigInvalid,
			"node gpu1: the configuration of this host is not to be changed from here"},
		"by its own name": {owner.Nodes().Restart(hosttest.Deadline(t), "gpu1.x", "bob"), "", ""},
	} {
		if (tt.kind == "") != (tt.err == nil) ||
			tt.err != nil && (protocol.KindOf(tt.err) != tt.kind || !strings.Contains(tt.err.Error(), tt.text)) {
			t.Errorf("%s: %v", name, tt.err)
		}
	}
	if change, err := web.Nodes().Reload(hosttest.Deadline(t), "gpu1.x", "bob"); err != nil ||
		!change.Empty() {
		t.Errorf("%+v, %v", change, err)
	}
	for id, kind := range map[string]protocol.Kind{
		"gpu1.":  protocol.InvalidArguments,
		"gpu1.y": protocol.ToolNotFound,
	} {
		if change, err := web.Nodes().Reload(hosttest.Deadline(t), id, "bob"); protocol.KindOf(err) != kind ||
			!strings.Contains(err.Error(), "node gpu1") {
			t.Errorf("%s: %+v, %v", id, change, err)
		}
	}
	w.nodes["gpu1"].old = true
	err := web.Nodes().Restart(hosttest.Deadline(t), "gpu1.x", "bob")
	if protocol.KindOf(err) != protocol.RequirementMissing ||
		!strings.Contains(err.Error(), "not supported by node gpu1 (exthost 0.0.9)") {
		t.Errorf("an older node: %v", err)
	}
	w.nodes["gpu1"].old = false
}

// A call goes to the node that the operator names, and its record contains that node.
func TestCallAtNode(t *testing.T) {
	processtest.Leaks(t)
	w := newWeb()
	hosts := make(map[string]*exthost.Host)
	for _, name := range []string{"a", "b"} {
		hosts[name] = hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", "")).Open(exthost.Options{
			Cluster: w.node(name, peers.AsReplicas),
		})
	}
	hosttest.NewFolder(t).Add("y", hosttest.Child("sdk", "")).Open(exthost.Options{
		Cluster: w.node("c", peers.AsReplicas),
	})
	web := hosttest.NewFolder(t).Open(exthost.Options{Cluster: w.node("web", peers.AsReplicas)})
	hosttest.Eventually(t, "all nodes", func() bool {
		return len(hosttest.StatusOf(t, hosts["a"], "x").Nodes) == 1 &&
			slices.Contains(hosttest.Names(web), "ext_y_greet") && len(hosttest.StatusOf(t, web, "x").Nodes) == 2
	})
	having := func(h *exthost.Host, tool string) []string {
		e, _ := h.Tools().Lookup(tool)
		return h.Nodes().Having()(e)
	}
	if got := having(web, "ext_x_greet"); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("web: %q", got)
	}
	if got := having(hosts["b"], "ext_x_greet"); !slices.Equal(got, []string{"b", "a"}) {
		t.Errorf("b: %q", got)
	}
	call := func(h *exthost.Host, node, tool string) (string, error) {
		_, err := h.Do(hosttest.Deadline(t),
			&protocol.Call{
				Method: protocol.MethodToolsCall,
				Node:   node,
				Params: json.RawMessage(`{"name":"` + tool + `","arguments":{"name":"Ada"}}`),
			})
		past := h.Admin().Calls(1)
		return past[0].Node, err
	}
	for _, tt := range []struct {
		from, node, at string
		refusal        string
	}{
		{"web", "a", "a", ""}, {"web", "b", "b", ""}, {"web", "b", "b", ""}, {"a", "b", "b", ""}, {"a", "a", "", ""},
		{"a", "", "", ""},
		{"web", "c", "", "node c does not have tool greet of x, as it is listed here; these do: a, b"},
		{"a", "nobody", "", "these do: a, b"},
	} {
		h := web
		if tt.from != "web" {
			h = hosts[tt.from]
		}
		at, err := call(h, tt.node, "ext_x_greet")
		if at != tt.at || (err != nil) != (tt.refusal != "") ||
			err != nil && (protocol.KindOf(err) != protocol.ToolNotFound ||
				!strings.Contains(err.Error(), tt.refusal)) {
			t.Errorf("from %s at %q: %q, %v", tt.from, tt.node, at, err)
		}
	}
	alone := hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", "")).Open(exthost.Options{})
	if _, err := call(alone, "a", "ext_x_greet"); protocol.KindOf(err) != protocol.ToolNotFound ||
		!strings.Contains(err.Error(), "this host alone has it") {
		t.Errorf("without a cluster: %v", err)
	}
}

// The records of a call are found at all nodes by any of its ids.
func TestRecordsOfACall(t *testing.T) {
	processtest.Leaks(t)
	w := newWeb()
	askingNode(t, w)
	audited := func(name string, operators ...string) *exthost.Host {
		f := hosttest.NewFolder(t)
		cfg := f.Config()
		cfg.Audit.Path = filepath.Join(t.TempDir(), name)
		n := w.node(name, peers.AsMine)
		n.operators = operators
		h := f.OpenWith(cfg, exthost.Options{Cluster: n})
		awaitTool(t, h, "ext_gpu1_x_greet", true)
		return h
	}
	web, laptop := audited("web", "laptop"), audited("laptop")
	for range 3 {
		if _, err := web.Do(hosttest.Deadline(t), &protocol.Call{
			Session: &protocol.Session{Caller: "ada"},
			Method:  protocol.MethodToolsCall,
			Params:  json.RawMessage(`{"name":"ext_gpu1_x_greet","arguments":{"name":"Ada"}}`),
		}); err != nil {
			t.Fatal(err)
		}
	}
	id := web.Admin().Traces(1)[0].ID
	find := func(h *exthost.Host, id string) (text string) {
		found, err := h.Nodes().Audit(hosttest.Deadline(t), id)
		if err != nil {
			return err.Error()
		}
		for _, n := range found.Nodes {
			text += n.Node
			for _, r := range n.Records {
				text += fmt.Sprintf(" %s %s from %q;", r.Tool, r.Outcome, r.Node)
			}
			text += "\n"
		}
		for _, s := range found.Silent {
			text += "silent " + s.Node + ": " + s.Reason + "\n"
		}
		return text
	}
	var there string
	hosttest.Eventually(t, "both records", func() bool {
		found, err := web.Nodes().Audit(hosttest.Deadline(t), id)
		if err != nil {
			t.Fatal(err)
		}
		ready := len(found.Nodes) == 2 && found.Nodes[1].Records[0].Outcome == audit.OK &&
			found.Nodes[0].Records[0].Outcome == audit.OK
		if ready {
			there = found.Nodes[1].Records[0].ID
		}
		return ready
	})
	both := "web ext_gpu1_x_greet ok from \"\";\ngpu1 ext_x_greet ok from \"web\";\n"
	for name, tt := range map[string]struct {
		h    *exthost.Host
		id   string
		want string
	}{
		"by the front's id": {web, id, both},
		"by the owner's id": {web, there, both},
		"from a third node": {laptop, id,
			"web ext_gpu1_x_greet ok from \"\";\nsilent gpu1: it shows node laptop the calls of its own callers " +
				"alone; to show all, name it in cluster.operators there\n"},
		"an id that is none": {web, "../x", `"../x" is no id of a decision (invalid_arguments)`},
		"an id of no call":   {web, "d-0000", ""},
	} {
		if got := find(tt.h, tt.id); got != tt.want {
			t.Errorf("%s:\n%s, want\n%s", name, got, tt.want)
		}
	}
	w.nodes["gpu1"].set(protocol.Errorf(protocol.NodeLost, "gone\x1b[2J"))
	if got := find(web, id); !strings.Contains(got, `silent gpu1: gone\x1b[2J`) {
		t.Errorf("a node that is lost: %s", got)
	}
	w.nodes["gpu1"].set(nil)
}

// Only the caller of a call can read its long result at the front.
func TestPagesOfAnotherNode(t *testing.T) {
	processtest.Leaks(t)
	w := newWeb()
	f := hosttest.NewFolder(t).Add("x", leakyCapabilities+hosttest.Plays("leaky", ""))
	cfg := f.Config()
	cfg.Plugins = []governance.Spec{cuts}
	n := w.node("gpu1", peers.AsMine)
	owner := f.OpenWith(cfg, exthost.Options{Cluster: n})
	web := hosttest.NewFolder(t).Open(exthost.Options{Cluster: w.node("web", peers.AsMine)})
	awaitTool(t, web, "ext_gpu1_x_dump", true)
	awaitTool(t, web, "exthost_result_page", true)
	call := func(h *exthost.Host, s *protocol.Session, tool, arguments string) (string, error) {
		result, err := h.Do(hosttest.Deadline(t),
			&protocol.Call{
				Session: s,
				Method:  protocol.MethodToolsCall,
				Params:  json.RawMessage(`{"name":"` + tool + `","arguments":` + arguments + `}`),
			})
		return protocol.ToolResult(result).Text(), err
	}
	for name, s := range map[string]*protocol.Session{
		"named":        {ID: "s1", Caller: "ada"},
		"anonymous":    {ID: "s2"},
		"not attached": {ID: "s4"},
	} {
		if name != "not attached" {
			if err := web.Attach(t.Context(), s); err != nil {
				t.Fatal(err)
			}
		}
		shown, err := call(web, s, "ext_gpu1_x_dump", `{}`)
		at := regexp.MustCompile(`"handle":"(gpu1/[a-z0-9]+)","offset":(\d+)`).FindStringSubmatch(shown)
		if err != nil || at == nil {
			t.Fatalf("%s: %.600s, %v", name, shown, err)
		}
		page := fmt.Sprintf(`{"handle":%q,"offset":%s}`, at[1], at[2])
		text, err := call(web, s, "exthost_result_page", page)
		if err != nil || !strings.Contains(text, "go on with offset") && !strings.Contains(text, "this is the end") {
			t.Errorf("%s: %.200s, %v", name, text, err)
		}
		for who, other := range map[string]*protocol.Session{
			"another caller":  {ID: "s3", Caller: "eve"},
			"another session": {ID: "s3"},
		} {
			if name == "not attached" && other.Caller == "" {
				continue // the owner cannot tell them apart
			}
			text, err := call(web, other, "exthost_result_page", page)
			if protocol.KindOf(err) != protocol.InvalidArguments {
				t.Errorf("%s reads what is %s: %.100s, %v", who, name, text, err)
			}
		}
		if text, err := call(owner, s, "exthost_result_page", page); protocol.KindOf(err) != protocol.InvalidArguments {
			t.Errorf("a caller of the owner reads what is %s: %.100s, %v", name, text, err)
		}
		_, err = call(web, s, "exthost_result_page", strings.Replace(page, "gpu1/", "nowhere/", 1))
		if protocol.KindOf(err) != protocol.NotReady ||
			!strings.Contains(err.Error(), "the result is kept by node nowhere") {
			t.Errorf("at a node that is not there: %v", err)
		}
	}
}
