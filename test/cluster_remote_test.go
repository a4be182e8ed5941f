package test

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/peers"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// web connects the hosts of one process like a cluster.
type web struct {
	mu    sync.Mutex
	nodes map[string]*webNode
}

// webNode is the node of one host.
type webNode struct {
	web  *web
	name string
	as   string // how all extensions are shared

	mu     sync.Mutex
	host   peers.Host
	offers []peers.Offer
	refuse error // error of every incoming call; nil: the host answers
	away   int   // incoming calls that fail with ErrAway first
	calls  int   // incoming calls

	operators []string // nodes whose operators may give orders
	waiting   int      // pending approval requests
	old       bool     // it does not support operations
}

var _ peers.Cluster = (*webNode)(nil)

func newWeb() *web { return &web{nodes: make(map[string]*webNode)} }

func (w *web) node(name, as string) *webNode {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := &webNode{web: w, name: name, as: as}
	w.nodes[name] = n
	return n
}

func (w *web) except(name string) (list []*webNode) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range w.nodes {
		if n.name != name {
			list = append(list, n)
		}
	}
	slices.SortFunc(list, func(a, b *webNode) int { return cmp.Compare(a.name, b.name) })
	return list
}

func (n *webNode) tell() {
	for _, o := range n.web.except(n.name) {
		o.mu.Lock()
		h := o.host
		o.mu.Unlock()
		if h != nil {
			h.PlacesChanged()
		}
	}
}

func (n *webNode) Open(_ context.Context, h peers.Host) error {
	n.mu.Lock()
	n.host = h
	n.mu.Unlock()
	h.PlacesChanged()
	n.tell()
	return nil
}

func (n *webNode) Offer(list []peers.Offer) {
	n.mu.Lock()
	n.offers = list
	n.mu.Unlock()
	n.tell()
}

func (n *webNode) SharedAs(string) string { return n.as }

func (n *webNode) Places() (list []*peers.Place) {
	for _, o := range n.web.except(n.name) {
		o.mu.Lock()
		if o.host != nil {
			for _, offer := range o.offers {
				p := &peers.Place{Node: o.name, Run: "run", As: o.as, Offer: offer, Digests: make(map[string]string)}
				for _, t := range offer.Tools {
					sum := sha256.Sum256(t.Raw)
					p.Digests[t.Name] = hex.EncodeToString(sum[:])
				}
				list = append(list, p)
			}
		}
		o.mu.Unlock()
	}
	return list
}

func (n *webNode) Call(ctx context.Context, c *peers.Call) (json.RawMessage, error) {
	n.mu.Lock()
	own := n.host
	n.mu.Unlock()
	n.web.mu.Lock()
	to := n.web.nodes[c.Place.Node]
	n.web.mu.Unlock()
	to.mu.Lock()
	h, refuse := to.host, to.refuse
	to.calls++
	if to.away > 0 {
		to.away--
		refuse = protocol.Errorf(protocol.NotReady, "it did not get the call: %w", peers.ErrAway)
	}
	to.mu.Unlock()
	if refuse != nil {
		return nil, refuse
	}
	s := &protocol.Session{Node: n.name}
	if c.Session != nil {
		s.Caller, s.Version = c.Session.Caller, c.Session.Version
		if c.Session.ID != "" && own.IfAttached(c.Session, func() {}) {
			s.ID = peers.GuestID(n.name, "run", c.Place.Extension, c.Session.ID)
		}
	}
	return h.Do(ctx, &protocol.Call{
		Session:   s,
		Extension: c.Place.Extension,
		Method:    c.Method,
		Params:    c.Params,
		Notify:    c.Notify,
		Client:    c.Client,
		Origin:    c.Origin,
	})
}

func (n *webNode) EndSession(*protocol.Session) {}

func (n *webNode) Status() *status.Cluster {
	s := &status.Cluster{Name: "web", Node: n.name}
	for _, o := range n.web.except(n.name) {
		o.mu.Lock()
		if o.host != nil {
			node := status.Node{Name: o.name, State: status.NodeReady, Approvals: o.waiting}
			for _, x := range o.offers {
				node.Shares = append(node.Shares, status.Shared{Extension: x.Extension, As: o.as, State: x.State})
			}
			s.Nodes = append(s.Nodes, node)
		}
		o.mu.Unlock()
	}
	return s
}

func (n *webNode) Operate(ctx context.Context, node, method string, params json.RawMessage) (json.RawMessage, error) {
	n.web.mu.Lock()
	to := n.web.nodes[node]
	n.web.mu.Unlock()
	if to == nil {
		return nil, protocol.Errorf(protocol.NotReady, "node %s is away, leaving or not in the cluster", node)
	}
	to.mu.Lock()
	h, old, refuse, trusted := to.host, to.old, to.refuse, slices.Contains(to.operators, n.name)
	to.mu.Unlock()
	switch {
	case h == nil:
		return nil, protocol.Errorf(protocol.NotReady, "node %s is away", node)
	case old:
		return nil, protocol.Errorf(protocol.RequirementMissing, "not supported by node %s (exthost 0.0.9)", node)
	case refuse != nil:
		return nil, refuse
	}
	return h.Operate(ctx, &peers.Operation{Node: n.name, Run: "run", Operator: trusted, Method: method, Params: params})
}

func (n *webNode) Waiting(requests int) {
	n.mu.Lock()
	n.waiting = requests
	n.mu.Unlock()
	for _, o := range n.web.except(n.name) {
		o.mu.Lock()
		h := o.host
		o.mu.Unlock()
		if h != nil {
			h.WaitingChanged()
		}
	}
}

func (n *webNode) Close(context.Context) error {
	n.mu.Lock()
	n.host = nil
	n.mu.Unlock()
	n.tell()
	return nil
}

// set makes the node refuse calls, and returns how many it got since the last set.
func (n *webNode) set(refuse error) (calls int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	calls, n.calls, n.refuse = n.calls, 0, refuse
	return calls
}

// awaitTool waits until a host lists a tool, or no longer lists it.
func awaitTool(t *testing.T, h *exthost.Host, name string, listed bool) {
	t.Helper()
	hosttest.Eventually(t, name, func() bool { return slices.Contains(hosttest.Names(h), name) == listed })
}

// The extension of a remote node is listed with the node's name, can be called, and disappears with the node.
func TestExtensionOfAnotherNode(t *testing.T) {
	processtest.Leaks(t)
	w := newWeb()
	gpu := hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", "")).Open(exthost.Options{
		Cluster: w.node("gpu1", peers.AsMine),
	})
	front := hosttest.NewFolder(t).Open(exthost.Options{Cluster: w.node("web", peers.AsMine)})
	awaitTool(t, front, "ext_gpu1_x_greet", true)
	result, err := front.Call(hosttest.Deadline(t), "ext_gpu1_x_greet", map[string]any{"name": "Ada"})
	if err != nil || result.Text() != "Hello, Ada!" {
		t.Fatalf("%s, %v", result, err)
	}
	_, err = front.Call(hosttest.Deadline(t), "ext_gpu1_x_greet", map[string]any{"name": 1})
	if protocol.KindOf(err) != protocol.InvalidArguments {
		t.Errorf("arguments that do not fit: %v", err)
	}
	client := hosttest.NewRecorder()
	if _, err := front.Do(hosttest.Deadline(t), &protocol.Call{
		Method: protocol.MethodToolsCall,
		Client: client,
		Params: json.RawMessage(`{"name":"ext_gpu1_x_work","arguments":{},"_meta":{"progressToken":7}}`),
	}); err != nil {
		t.Error(err)
	}
	if heard := client.Told(); len(heard) != 4 || !strings.Contains(heard[0], `"progressToken":7`) {
		t.Errorf("the caller was told %q", heard)
	}
	if x := hosttest.StatusOf(t, front, "gpu1.x"); x.State != "ready" || !slices.Equal(x.Nodes, []string{"gpu1"}) ||
		x.Calls != 2 {
		t.Errorf("%+v", x)
	}
	_, err = front.Call(hosttest.Deadline(t), "ext_gpu1_x_die", nil)
	if e, _ := errors.AsType[*protocol.Error](err); e == nil || e.Kind != protocol.ChildExited ||
		e.Extension != "gpu1.x" {
		t.Errorf("a process that died there: %#v", err)
	}
	if err := gpu.Close(); err != nil {
		t.Error(err)
	}
	awaitTool(t, front, "ext_gpu1_x_greet", false)
}

// A call of a replica goes to this host first, then to the next node if one refuses it. Each refusing node is
// asked once, and the refusal that ends first is returned.
func TestReplicas(t *testing.T) {
	processtest.Leaks(t)
	w := newWeb()
	a, b := w.node("a", peers.AsReplicas), w.node("b", peers.AsReplicas)
	hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", "")).Open(exthost.Options{Cluster: a})
	hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", "")).Open(exthost.Options{Cluster: b})
	front := hosttest.NewFolder(t).Open(exthost.Options{Cluster: w.node("front", peers.AsReplicas)})
	awaitTool(t, front, "ext_x_greet", true)
	hosttest.Eventually(t, "both nodes", func() bool { return len(hosttest.StatusOf(t, front, "x").Nodes) == 2 })
	a.set(nil)
	b.set(&protocol.Error{Kind: protocol.Overloaded, Message: "full"})
	for range 4 {
		if err := hosttest.Greet(t, front, "Ada"); err != nil {
			t.Fatal(err)
		}
	}
	if n := a.set(&protocol.Error{Kind: protocol.BreakerOpen, Message: "open", RetryAfter: 5e9}); n != 4 {
		t.Errorf("a had %d calls of 4", n)
	}
	b.set(&protocol.Error{Kind: protocol.Overloaded, Message: "full", RetryAfter: 2e9})
	err := hosttest.Greet(t, front, "Ada")
	if e, _ := errors.AsType[*protocol.Error](err); e == nil || e.RetryAfter != 2e9 {
		t.Errorf("both refuse: %v", err)
	}
	if n, m := a.set(nil), b.set(nil); n != 1 || m != 1 {
		t.Errorf("a was asked %d times and b %d times", n, m)
	}
	a.set(&protocol.Error{Kind: protocol.Rejected, Message: "the node's policy p denies it"})
	b.set(&protocol.Error{Kind: protocol.Rejected, Message: "the node's policy p denies it"})
	if err := hosttest.Greet(t, front, "Ada"); protocol.KindOf(err) != protocol.Rejected || a.set(nil)+b.set(nil) != 1 {
		t.Errorf("a denial is the answer: %v", err)
	}

	own := hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", "")).Open(exthost.Options{
		Cluster: w.node("own", peers.AsReplicas),
	})
	hosttest.Eventually(t, "both nodes beside its own",
		func() bool { return len(hosttest.StatusOf(t, own, "x").Nodes) == 2 })
	a.set(nil)
	b.set(nil)
	if err := hosttest.Greet(t, own, "Ada"); err != nil {
		t.Fatal(err)
	}
	if n := a.set(nil) + b.set(nil); n != 0 {
		t.Errorf("a call that this host can serve went to another, %d times", n)
	}
}

// Requests about a task reach the node that created it, even if other nodes have a task with the same id.
func TestTasksStayAtTheirNodes(t *testing.T) {
	processtest.Leaks(t)
	w := newWeb()
	a, b := w.node("a", peers.AsReplicas), w.node("b", peers.AsReplicas)
	for _, n := range []*webNode{a, b} {
		hosttest.NewFolder(t).Add("newer", hosttest.Plays("tasks newer", "protocol = \"mcp\"\n")).Open(exthost.Options{
			Cluster: n,
		})
	}
	front := hosttest.NewFolder(t).Open(exthost.Options{Cluster: w.node("front", peers.AsReplicas)})
	awaitTool(t, front, "ext_newer_later", true)
	hosttest.Eventually(t, "both nodes", func() bool { return len(hosttest.StatusOf(t, front, "newer").Nodes) == 2 })
	begin := `{"name":"ext_newer_later","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}`
	visit := func(caller string) *protocol.Session {
		return &protocol.Session{Caller: caller, Version: protocol.MCP20260728, Capabilities: json.RawMessage(`{}`)}
	}
	at := map[string]*webNode{"alice": a, "bob": b}
	for caller, node := range at {
		for _, other := range at {
			other.set(nil)
			if other != node {
				other.set(&protocol.Error{Kind: protocol.Overloaded, Message: "full"})
			}
		}
		if result, err := doAs(t, front, visit(caller), "", "tools/call", begin); err != nil ||
			!strings.Contains(string(result), `"t1"`) {
			t.Fatalf("%s, %v", result, err)
		}
	}
	for caller, node := range at {
		a.set(nil)
		b.set(nil)
		for _, extension := range []string{"", "newer"} {
			if result, err := doAs(t, front, visit(caller), extension, "tasks/get", `{"taskId":"t1"}`); err != nil ||
				!strings.Contains(string(result), `"t1"`) {
				t.Errorf("the task of %s at %q: %s, %v", caller, extension, result, err)
			}
		}
		if n := node.set(nil); n != 2 {
			t.Errorf("the node of %s was asked %d times", caller, n)
		}
	}
}

// A call is retried at nodes that are briefly away, each of them in turn.
func TestNodesAreAwayForAMoment(t *testing.T) {
	processtest.Leaks(t)
	w := newWeb()
	a, b := w.node("a", peers.AsReplicas), w.node("b", peers.AsReplicas)
	hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", "")).Open(exthost.Options{Cluster: a})
	hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", "")).Open(exthost.Options{Cluster: b})
	front := hosttest.NewFolder(t).Open(exthost.Options{Cluster: w.node("front", peers.AsReplicas)})
	awaitTool(t, front, "ext_x_greet", true)
	hosttest.Eventually(t, "both nodes", func() bool { return len(hosttest.StatusOf(t, front, "x").Nodes) == 2 })
	a.set(nil)
	b.set(nil)
	a.away, b.away = 2, 3
	if err := hosttest.Greet(t, front, "Ada"); err != nil {
		t.Error(err)
	}
	if n, m := a.set(nil), b.set(nil); n != 3 || m != 2 {
		t.Errorf("a was asked %d times and b %d times", n, m)
	}
	a.away = 1 << 30
	b.away = 1 << 30
	if err := hosttest.Greet(t, front, "Ada"); protocol.KindOf(err) != protocol.NotReady {
		t.Errorf("nodes that do not come back: %v", err)
	}
}

// A node whose tool differs from what callers were shown gets no calls of it.
func TestReplicaDiffers(t *testing.T) {
	processtest.Leaks(t)
	w := newWeb()
	a := w.node("a", peers.AsReplicas)
	hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", "")).Open(exthost.Options{Cluster: a})
	f := hosttest.NewFolder(t).Add("x", "[capabilities]\ntools = [\"greet\"]\n[transport]\nscript = \"x.sh\"\n")
	f.Write("x/x.sh", strings.Replace(answersPID, `"pid"`, `"greet"`, 1))
	own := f.Open(exthost.Options{Cluster: w.node("own", peers.AsReplicas)})
	hosttest.Eventually(t, "the other node", func() bool { return len(hosttest.StatusOf(t, own, "x").Nodes) == 1 })
	found := own.Status().Diagnostics
	if !slices.ContainsFunc(found, func(d protocol.Diagnostic) bool {
		return d.Code == "replica_differs" && strings.Contains(d.Message, "node a")
	}) {
		t.Errorf("no diagnostic in %v", found)
	}
	awaitTool(t, own, "ext_x_echo", true) // only the other node has it
	result, err := own.Call(hosttest.Deadline(t), "ext_x_echo", map[string]any{"n": 1})
	if err != nil || a.set(nil) != 1 {
		t.Errorf("%s, %v", result, err)
	}
	if result, err = own.Call(hosttest.Deadline(t), "ext_x_greet", nil); err != nil || a.set(nil) != 0 {
		t.Errorf("%s, %v", result, err)
	}
}
