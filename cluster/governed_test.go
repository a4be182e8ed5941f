package cluster_test

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"testing"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/audit"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/peers"
	"github.com/exthost/exthost/protocol"
)

// A call that a policy of the owner denies is rejected and does not run at any replica. Both audit logs contain the
// call, and the owner's log names the record in the front's log.
func TestOwnerDenies(t *testing.T) {
	processtest.Leaks(t)
	s, logs := startServers(t, 1), t.TempDir()
	audited := func(name string, plugins ...governance.Spec) func(*config.Config) {
		return func(cfg *config.Config) { cfg.Audit.Path, cfg.Plugins = filepath.Join(logs, name), plugins }
	}
	machine := governance.Spec{
		Name:     "machine",
		Builtin:  "access",
		Category: governance.Authorization,
		Config: map[string]any{"rules": []any{
			map[string]any{
				"effect": "deny",
				"nodes":  []any{"web"},
				"tools":  []any{"ext_x_note"},
				"reason": "this machine notes nothing",
			}}},
	}
	owners := map[string]*exthost.Host{}
	for _, name := range []string{"a", "b"} {
		owners[name] = open(t, join(t, s.urls(), name, peers.AsReplicas), true, audited(name, machine))
	}
	web := open(t, join(t, s.urls(), "web", peers.AsReplicas), false, audited("web"))
	eventually(t, "both owners", func() bool {
		x := web.Status().Extensions
		return len(x) == 1 && len(x[0].Nodes) == 2
	})
	file := filepath.Join(t.TempDir(), "notes")
	args, _ := json.Marshal(map[string]any{
		"name":      "ext_x_note",
		"arguments": map[string]any{"file": file, "text": "a"},
	})
	_, err := web.Do(within(t),
		&protocol.Call{Session: &protocol.Session{Caller: "ada"}, Method: protocol.MethodToolsCall, Params: args})
	e, _ := errors.AsType[*protocol.Error](err)
	if e == nil || e.Kind != protocol.Rejected || e.Outcome != "" || e.Tool != "ext_x_note" {
		t.Fatalf("%#v", err)
	}
	var refusal governance.Refusal
	if err := json.Unmarshal(e.Data, &refusal); err != nil || owners[refusal.Node] == nil ||
		refusal.Policy != "machine" {
		t.Fatalf("%s, %v", e.Data, err)
	}
	if want := "node " + refusal.Node + ": policy machine: this machine notes nothing"; e.Message != want {
		t.Errorf("%q, want %q", e.Message, want)
	}
	sent := uint64(0)
	for _, n := range web.Status().Cluster.Nodes {
		sent += n.Out
	}
	if ran := noted(t, file); len(ran) != 0 || sent != 1 {
		t.Errorf("%d calls went to owners, and %q ran", sent, ran)
	}
	for _, h := range append([]*exthost.Host{web}, owners["a"], owners["b"]) {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}
	front := calls(t, filepath.Join(logs, "web"), audit.Query{Caller: "ada"})
	if len(front) != 1 || front[0].Outcome != audit.Denied {
		t.Fatalf("the front has %+v", front)
	}
	owner := calls(t, filepath.Join(logs, refusal.Node), audit.Query{ID: front[0].ID})
	if len(owner) != 1 || owner[0].Origin != front[0].ID || owner[0].ID != refusal.DecisionID ||
		owner[0].Node != "web" || owner[0].Caller != "ada" || owner[0].Outcome != audit.Denied {
		t.Errorf("%s has %+v", refusal.Node, owner)
	}
}

// calls returns the tool calls in an audit log.
func calls(t *testing.T, path string, q audit.Query) (list []audit.Record) {
	t.Helper()
	for r, err := range audit.Read(within(t), path, q) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Method == protocol.MethodToolsCall {
			list = append(list, r)
		}
	}
	return list
}
