package cluster_test

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/cluster"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/peers"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// operatedBy returns a node that accepts orders of operators.
func operatedBy(t *testing.T, urls []string, name string, operators ...string) *cluster.Node {
	t.Helper()
	o := nodeOptions(node{Name: name, As: peers.AsMine, URLs: urls})
	o.Settings.Operators = operators
	n, err := cluster.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func callText(t *testing.T, h *exthost.Host, s *protocol.Session, tool string, arguments any) (string, error) {
	t.Helper()
	params, err := json.Marshal(map[string]any{"name": tool, "arguments": arguments})
	if err != nil {
		t.Fatal(err)
	}
	result, err := h.Do(within(t), &protocol.Call{Session: s, Method: protocol.MethodToolsCall, Params: params})
	return protocol.ToolResult(result).Text(), err
}

// The session that made a call can read its long result at the front. When the owner is gone, the error says
// so.
func TestLongResultIsReadAtItsOwner(t *testing.T) {
	processtest.Leaks(t)
	s := startServers(t, 1)
	capped := func(cfg *config.Config) {
		cfg.Plugins = []governance.Spec{
			{
				Name:     "cap",
				Category: governance.Content,
				Builtin:  "size_cap",
				Config:   map[string]any{"max_bytes": 2048, "preview_bytes": 100},
			},
		}
	}
	owner := open(t, operatedBy(t, s.urls(), "gpu1"), true, capped)
	open(t, operatedBy(t, s.urls(), "gpu2"), true, capped) // keeps the page tool listed without the owner
	web := open(t, operatedBy(t, s.urls(), "web"), false)
	awaitTool(t, web, "ext_gpu1_x_echo", true)
	awaitTool(t, web, "ext_gpu2_x_echo", true)
	awaitTool(t, web, "exthost_result_page", true)
	long := strings.Repeat("all of it. ", 1000)
	for name, session := range map[string]*protocol.Session{
		"named":     {ID: "s1", Caller: "ada"},
		"anonymous": {ID: "s2"},
	} {
		if err := web.Attach(t.Context(), session); err != nil {
			t.Fatal(err)
		}
		shown, err := callText(t, web, session, "ext_gpu1_x_echo", map[string]any{"text": long})
		at := regexp.MustCompile(`"handle":"(gpu1/[a-z0-9]+)"`).FindStringSubmatch(shown)
		if err != nil || at == nil {
			t.Fatalf("%s: %.600s, %v", name, shown, err)
		}
		page, err := callText(t, web, session, "exthost_result_page",
			map[string]any{"handle": at[1], "offset": 0, "limit": 64 << 10})
		if err != nil || !strings.Contains(page, long) {
			t.Errorf("%s: %.200s, %v", name, page, err)
		}
		page, err = callText(t, web, &protocol.Session{ID: "s3"}, "exthost_result_page",
			map[string]any{"handle": at[1]})
		if protocol.KindOf(err) != protocol.InvalidArguments {
			t.Errorf("another session reads what is %s: %.100s, %v", name, page, err)
		}
	}
	if err := owner.Close(); err != nil {
		t.Error(err)
	}
	eventually(t, "the owner has gone", func() bool { return len(web.Status().Cluster.Nodes) == 1 })
	_, err := web.Call(within(t), "exthost_result_page", map[string]any{"handle": "gpu1/x"})
	if protocol.KindOf(err) != protocol.NotReady ||
		!strings.Contains(err.Error(), "the result is kept by node gpu1, which is not there now") {
		t.Errorf("of an owner that has gone: %v", err)
	}
}

// Many requests wait at one node. Each front lists a bounded number, and two fronts that answer all of them
// at once give one answer to each.
func TestManyRequestsAreAnsweredOnce(t *testing.T) {
	processtest.Leaks(t)
	s := startServers(t, 3)
	open(t, operatedBy(t, s.urls(), "gpu1", "a", "b"), true, func(cfg *config.Config) {
		cfg.Plugins = []governance.Spec{
			{Name: "ask", Category: governance.Authorization, Builtin: "approval"},
		}
	})
	fronts := []*exthost.Host{
		open(t, operatedBy(t, s.urls(), "a"), false),
		open(t, operatedBy(t, s.urls(), "b"), false),
		open(t, operatedBy(t, s.urls(), "c"), false),
	}
	for _, h := range fronts {
		awaitTool(t, h, "ext_gpu1_x_echo", true)
	}
	const calls = 60
	outcomes := make(chan error, calls)
	for i := range calls {
		go func() {
			_, err := callText(t, fronts[i%2], &protocol.Session{Caller: fmt.Sprint("caller", i)}, "ext_gpu1_x_echo",
				map[string]any{"n": i})
			outcomes <- err
		}()
	}
	all := make([]status.Approvals, 3)
	for i, h := range fronts {
		eventually(t, "all requests are listed", func() bool {
			all[i] = h.Nodes().Approvals(within(t))
			return len(all[i].Requests) == calls
		})
	}
	if q := all[2].Requests[0]; !q.DeskOnly || q.Arguments != "" || q.Hash != "" {
		t.Errorf("a node that may not answer sees %+v", q)
	}
	id := all[2].Requests[0].ID
	if err := fronts[2].Nodes().Approve(within(t), id, "eve"); protocol.KindOf(err) != protocol.Rejected {
		t.Errorf("it answers: %v", err)
	}
	var answering sync.WaitGroup
	var given [2]int
	for i := range 2 {
		answering.Go(func() {
			for _, q := range all[i].Requests {
				var err error
				if n := fronts[i].Nodes(); i == 0 {
					err = n.Approve(within(t), q.ID, "ann")
				} else {
					err = n.Deny(within(t), q.ID, "bob", "")
				}
				switch {
				case err == nil:
					given[i]++
				case protocol.KindOf(err) != protocol.ToolNotFound || !strings.Contains(err.Error(), " already, by "):
					t.Errorf("%s: %v", q.ID, err)
				}
			}
		})
	}
	answering.Wait()
	approved := 0
	for range calls {
		if err := <-outcomes; err == nil {
			approved++
		} else if protocol.KindOf(err) != protocol.Rejected {
			t.Error(err)
		}
	}
	if given[0]+given[1] != calls || approved != given[0] {
		t.Errorf("%d approved and %d denied of %d, and %d calls went through", given[0], given[1], calls, approved)
	}
	eventually(t, "no request waits",
		func() bool { return len(fronts[2].Nodes().Approvals(within(t)).Requests) == 0 })
}

// An operator whose answer comes after the caller gave up, or after another answer, is told which answer counts.
func TestAnswersAfterTheCallerHasGone(t *testing.T) {
	processtest.Leaks(t)
	s := startServers(t, 1)
	owner := open(t, operatedBy(t, s.urls(), "gpu1", "a", "b"), true, func(cfg *config.Config) {
		cfg.Plugins = []governance.Spec{
			{Name: "ask", Category: governance.Authorization, Builtin: "approval"},
		}
	})
	a, b := open(t, operatedBy(t, s.urls(), "a"), false), open(t, operatedBy(t, s.urls(), "b"), false)
	awaitTool(t, a, "ext_gpu1_x_echo", true)
	ctx, giveUp := context.WithCancel(within(t))
	called := make(chan error, 1)
	go func() {
		_, err := a.Do(ctx, &protocol.Call{
			Session: &protocol.Session{Caller: "ada"},
			Method:  protocol.MethodToolsCall,
			Params:  json.RawMessage(`{"name":"ext_gpu1_x_echo","arguments":{}}`),
		})
		called <- err
	}()
	var id string
	eventually(t, "the request is listed", func() bool {
		for _, q := range b.Nodes().Approvals(within(t)).Requests {
			id = q.ID
		}
		return id != ""
	})
	giveUp()
	if err := <-called; protocol.KindOf(err) != protocol.Canceled {
		t.Errorf("the call: %v", err)
	}
	eventually(t, "its caller has gone", func() bool { return !owner.Admin().ApprovalRequests()[0].Waiting })
	at := map[string]exthost.Nodes{"a": a.Nodes(), "b": b.Nodes()}
	for _, tt := range []struct{ node, person, verb, told string }{
		{"a", "ann", "approve", ""}, {"b", "bob", "approve", "approved by ann at node a"}, {"b", "bob", "deny", ""},
		{"a", "ann", "approve", "was denied already, by bob at node b"},
		{"a", "ann", "deny", "was denied already, by bob at node b"},
	} {
		answer := at[tt.node].Approve
		if tt.verb == "deny" {
			answer = func(ctx context.Context, id, by string) error { return at[tt.node].Deny(ctx, id, by, "") }
		}
		switch err := answer(within(t), id, tt.person); {
		case tt.told == "" && err == nil:
		case tt.told == "" || protocol.KindOf(err) != protocol.ToolNotFound || !strings.Contains(err.Error(), tt.told):
			t.Errorf("%s %ss: %v, want %q", tt.person, tt.verb, err, tt.told)
		}
	}
}

// Operations are accepted beside the calls that wait for them, even if the node's limit of calls is reached,
// and beside a node that exceeds its share.
func TestOperatorsBesideABusyNode(t *testing.T) {
	processtest.Leaks(t)
	s := startServers(t, 1)
	o := nodeOptions(node{Name: "gpu1", As: peers.AsMine, URLs: s.urls(), MaxCalls: 1})
	o.Settings.Operators = []string{"web"}
	busy, err := cluster.New(o)
	if err != nil {
		t.Fatal(err)
	}
	open(t, busy, true, func(cfg *config.Config) {
		cfg.Plugins = []governance.Spec{{
			Name:     "ask",
			Category: governance.Authorization,
			Builtin:  "approval",
		},
			{
				Name:     "cap",
				Category: governance.Content,
				Builtin:  "size_cap",
				Config:   map[string]any{"max_bytes": 1 << 20},
			}}
	})
	web := open(t, operatedBy(t, s.urls(), "web"), false)
	greedy := openImproper(t, s.urls(), "greedy",
		func(context.Context, *peers.Operation) (json.RawMessage, error) { return nil, nil })
	awaitTool(t, web, "ext_gpu1_x_echo", true)
	eventually(t, "the node is there", func() bool { return len(greedy.Status().Nodes) == 2 })

	ctx, stop := context.WithCancel(within(t))
	const most = 32
	refused, over := make(chan error, 2*most), make(chan struct{}, 2*most)
	for range 2 * most {
		go func() {
			_, err := greedy.Operate(ctx, "gpu1", "results/page", json.RawMessage(`{"arguments":{"handle":"h"}}`))
			if ctx.Err() == nil {
				refused <- err
			}
			over <- struct{}{}
		}()
	}
	for range most {
		if err := <-refused; protocol.KindOf(err) != protocol.Overloaded {
			t.Fatal(err)
		}
	}
	called := make(chan error, 1)
	go func() {
		_, err := callText(t, web, &protocol.Session{Caller: "ada"}, "ext_gpu1_x_echo", struct{}{})
		called <- err
	}()
	var id string
	eventually(t, "all requests are listed", func() bool {
		list := web.Nodes().Approvals(within(t)).Requests
		for _, q := range list {
			if q.Node == "web" {
				id = q.ID
			}
		}
		return len(list) == most+1
	})
	if err := web.Nodes().Approve(within(t), id, "ann"); err != nil {
		t.Error(err)
	}
	if err := <-called; err != nil {
		t.Error(err)
	}
	stop()
	for range 2 * most {
		<-over
	}
}
