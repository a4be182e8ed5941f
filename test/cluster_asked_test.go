package test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/peers"
	"github.com/exthost/exthost/protocol"
)

// accepting is a client that accepts every question, and counts them.
type accepting struct{ asked *atomic.Int64 }

func (a accepting) Call(_ context.Context, method string, _ json.RawMessage) (json.RawMessage, error) {
	if method != protocol.MethodElicit {
		return nil, protocol.Errorf(protocol.ToolNotFound, "not served")
	}
	a.asked.Add(1)
	return json.RawMessage(`{"action":"accept"}`), nil
}

func (accepting) Notify(context.Context, string, json.RawMessage) error { return nil }

// A client of another node is asked if the node with the policy lets it approve, and trusts that node with its
// approvals. Any other node that names such a client waits for an operator.
func TestClientsOfOtherNodesApprove(t *testing.T) {
	processtest.Leaks(t)
	for _, tt := range []struct {
		name      string
		operators []string
		caller    string
		approves  []protocol.Risk
		asked     bool
	}{
		{"trusted", []string{"web"}, "laptop", []protocol.Risk{protocol.RiskWrite}, true},
		{"a node without the right", []string{"desk"}, "laptop", []protocol.Risk{protocol.RiskWrite}, false},
		{"a client without the right", []string{"web"}, "laptop", []protocol.Risk{protocol.RiskRead}, false},
		{"a client that is not named here", []string{"web"}, "tablet", []protocol.Risk{protocol.RiskWrite}, false},
		{"a client without a name", []string{"web"}, "", []protocol.Risk{protocol.RiskWrite}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWeb()
			f := hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", ""))
			cfg := f.Config()
			cfg.Cluster.Operators = tt.operators
			cfg.Server.Clients = map[string]config.Client{"laptop": {Approves: tt.approves}}
			cfg.Plugins = []governance.Spec{{
				Name:     "ask",
				Builtin:  "approval",
				Category: governance.Authorization,
				Match:    governance.Match{Tools: []string{"ext_x_greet"}},
				Config:   map[string]any{"where": "client"},
			}}
			owner := f.OpenWith(cfg, exthost.Options{Cluster: w.node("gpu1", peers.AsMine)})
			web := hosttest.NewFolder(t).Open(exthost.Options{Cluster: w.node("web", peers.AsMine)})
			awaitTool(t, web, "ext_gpu1_x_greet", true)
			var asked atomic.Int64
			done := make(chan error, 1)
			go func() {
				_, err := web.Do(hosttest.Deadline(t), &protocol.Call{
					Session: &protocol.Session{Caller: tt.caller, Capabilities: json.RawMessage(`{"elicitation":{}}`)},
					Method:  protocol.MethodToolsCall,
					Client:  accepting{&asked},
					Params:  json.RawMessage(`{"name":"ext_gpu1_x_greet","arguments":{"name":"Ada"}}`),
				})
				done <- err
			}()
			if !tt.asked {
				q := awaitRequests(t, owner, 1)[0]
				if q.AskedIn != "" {
					t.Errorf("asked in %q", q.AskedIn)
				}
				if err := owner.Admin().Deny(q.ID, "ann", ""); err != nil {
					t.Error(err)
				}
			}
			err := receive(t, done)
			if tt.asked && err != nil || !tt.asked && !strings.Contains(fmt.Sprint(err), "not approved by ann") {
				t.Error(err)
			}
			if (asked.Load() == 1) != tt.asked {
				t.Errorf("the client was asked %d times", asked.Load())
			}
		})
	}
}
