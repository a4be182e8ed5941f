package test

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/audit"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/peers"
	"github.com/exthost/exthost/protocol"
)

// origins records the direction, method and node of every exchange.
type origins struct {
	mu   sync.Mutex
	seen []string
}

func (o *origins) Decide(_ context.Context, flow governance.Flow, x *governance.Exchange) (governance.Decision, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if flow == governance.Request {
		o.seen = append(o.seen, x.Direction()+" "+x.Method+" "+x.Node)
	}
	return governance.Decision{}, nil
}

// Each node applies its own policies. A denial of the owner is returned with its node and policy, and the
// audit logs of both nodes contain the call under related ids.
func TestOwnerGoverns(t *testing.T) {
	processtest.Leaks(t)
	w := newWeb()
	gpu := hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", ""))
	cfg, logs, origins := gpu.Config(), t.TempDir(), &origins{}
	cfg.Audit.Path = filepath.Join(logs, "gpu1")
	cfg.Plugins = []governance.Spec{
		{Name: "machine", Builtin: "access", Category: governance.Authorization,
			Config: map[string]any{"rules": []any{
				map[string]any{
					"effect": "deny",
					"nodes":  []any{"laptop"},
					"tools":  []any{"ext_x_greet"},
					"reason": "no laptops",
				}}}},
		{Name: "strangers", Builtin: "rate_limit", Category: governance.RateLimiting,
			Match:  governance.Match{Nodes: []string{"?*"}, Tools: []string{"ext_x_echo"}},
			Config: map[string]any{"limits": []any{map[string]any{"calls": 1, "window": "24h", "per": []any{"node"}}}}},
	}
	owner := gpu.OpenWith(cfg, exthost.Options{
		Cluster:  w.node("gpu1", peers.AsMine),
		Policies: []governance.Member{member("origins", governance.Authorization, origins)},
	})
	fronts := make(map[string]*exthost.Host)
	for _, name := range []string{"web", "laptop"} {
		f := hosttest.NewFolder(t)
		cfg := f.Config()
		cfg.Audit.Path = filepath.Join(logs, name)
		fronts[name] = f.OpenWith(cfg, exthost.Options{Cluster: w.node(name, peers.AsMine)})
		awaitTool(t, fronts[name], "ext_gpu1_x_greet", true)
	}
	call := func(h *exthost.Host, tool, arguments string) error {
		_, err := h.Do(hosttest.Deadline(t), &protocol.Call{
			Session: &protocol.Session{Caller: "ada"},
			Method:  protocol.MethodToolsCall,
			Client:  hosttest.NewRecorder(),
			Params: json.RawMessage(`{"name":"` + tool + `","arguments":` + arguments +
				`,"_meta":{"progressToken":1}}`),
		})
		return err
	}
	for name, err := range map[string]error{
		"here": errors.Join(call(owner, "ext_x_greet", `{"name":"Ada"}`),
			call(owner, "ext_x_echo", `{"n":1}`), call(owner, "ext_x_echo", `{"n":1}`)),
		"web": errors.Join(call(fronts["web"], "ext_gpu1_x_greet", `{"name":"Ada"}`),
			call(fronts["web"], "ext_gpu1_x_echo", `{"n":1}`), call(fronts["web"], "ext_gpu1_x_work", `{}`)),
		"the limit is of each node": call(fronts["laptop"], "ext_gpu1_x_echo", `{"n":1}`),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, tt := range []struct{ front, tool, arguments, message, policy string }{
		{"laptop", "ext_gpu1_x_greet", `{"name":"Ada"}`, "node gpu1: policy machine: no laptops", "machine"},
		{"web", "ext_gpu1_x_echo", `{"n":1}`,
			"node gpu1: policy strangers: at most 1 call a day for each node; try again in ", "strangers"},
	} {
		err := call(fronts[tt.front], tt.tool, tt.arguments)
		e, _ := errors.AsType[*protocol.Error](err)
		if e == nil || e.Kind != protocol.Rejected || e.Extension != "gpu1.x" || e.Tool != tt.tool || e.Outcome != "" ||
			!strings.HasPrefix(e.Message, tt.message) {
			t.Errorf("%s: %#v", tt.front, err)
			continue
		}
		var data governance.Refusal
		if err := json.Unmarshal(e.Data, &data); err != nil || data.Node != "gpu1" || data.Policy != tt.policy ||
			data.Executed {
			t.Errorf("%s: %s, %v", tt.front, e.Data, err)
		}
		if trace, err := owner.Admin().Trace(data.DecisionID); err != nil || trace.Node != tt.front ||
			trace.Caller != "ada" || trace.Origin == "" || trace.Sent {
			t.Errorf("%s: %+v, %v", tt.front, trace, err)
		}
	}
	for _, want := range []string{
		"to_extension tools/call ",
		"to_extension tools/call web",
		"to_extension tools/call laptop",
		"to_caller notifications/progress web",
	} {
		if !slices.Contains(origins.seen, want) {
			t.Errorf("policies of the owner did not see %q in %q", want, origins.seen)
		}
	}
	// completes their logs
	for _, h := range []*exthost.Host{fronts["web"], fronts["laptop"], owner} {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}
	joined := 0
	for name := range fronts {
		for _, r := range recordsOf(t, filepath.Join(logs, name), audit.Query{}) {
			for _, there := range recordsOf(t, filepath.Join(logs, "gpu1"), audit.Query{ID: r.ID, Node: name}) {
				joined++
				if there.Outcome != r.Outcome || there.Caller != r.Caller ||
					there.Tool != "ext"+strings.TrimPrefix(r.Tool, "ext_gpu1") {
					t.Errorf("%s has %+v, gpu1 has %+v", name, r, there)
				}
			}
		}
	}
	if joined != 6 {
		t.Errorf("%d records of the fronts have one of the owner, of 6", joined)
	}
}

// recordsOf returns the records of tool calls in an audit log that q selects.
func recordsOf(t *testing.T, path string, q audit.Query) (list []audit.Record) {
	t.Helper()
	for r, err := range audit.Read(hosttest.Deadline(t), path, q) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Method == protocol.MethodToolsCall {
			list = append(list, r)
		}
	}
	return list
}
