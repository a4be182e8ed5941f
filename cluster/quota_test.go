//go:build !slim

package cluster_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/cluster"
	"github.com/exthost/exthost/cluster/hub"
	"github.com/exthost/exthost/config"
	settings "github.com/exthost/exthost/config/cluster"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/protocol"
)

// limited returns a configuration with a cluster-wide limit of calls per day.
func limited(calls int, required bool) func(*config.Config) {
	return func(c *config.Config) {
		c.Plugins = append(c.Plugins, governance.Spec{
			Name:     "all",
			Category: governance.RateLimiting,
			Builtin:  "rate_limit",
			Required: new(required),
			Config: map[string]any{
				"scope":  "cluster",
				"limits": []any{map[string]any{"calls": calls, "window": "100000h", "per": []any{"tool"}}},
			},
		})
	}
}

// hubOf opens a hub with counters, and returns a function that joins nodes to it.
func hubOf(t *testing.T) (o hub.Options, close func(), join func(name string) *cluster.Node) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "cluster")
	address := "127.0.0.1:" + processtest.FreePorts(t, 1)[0]
	f, err := hub.Init(dir, "main", []string{"tls://" + address})
	if err != nil {
		t.Fatal(err)
	}
	o = hub.Options{Dir: dir, Listen: address, Store: filepath.Join(t.TempDir(), "counters"), Log: logger()}
	join = func(name string) *cluster.Node {
		t.Helper()
		text, err := f.Invite(name)
		if err != nil {
			t.Fatal(err)
		}
		m := settings.Default()
		m.Join = filepath.Join(t.TempDir(), name+".creds")
		if err := os.WriteFile(m.Join, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		n, err := cluster.New(cluster.Options{Settings: m, Version: "0.0.1", Log: logger()})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return o, openHub(t, o), join
}

func openHub(t *testing.T, o hub.Options) (close func()) {
	t.Helper()
	h, err := hub.Open(within(t), o)
	if err != nil {
		t.Fatal(err)
	}
	closed := false
	close = func() {
		if closed {
			return
		}
		closed = true
		if err := h.Close(within(t)); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(close)
	return close
}

// callOwn calls the local tool of a host, and returns the error of a policy.
func callOwn(t *testing.T, h *exthost.Host) *protocol.Error {
	t.Helper()
	_, err := h.Call(within(t), "ext_x_echo", json.RawMessage(`{}`))
	e, ok := errors.AsType[*protocol.Error](err)
	if err != nil && !ok {
		t.Fatal(err)
	}
	return e
}

// untilCounted calls until the hub's counters can be reached.
func untilCounted(t *testing.T, h *exthost.Host) {
	t.Helper()
	eventually(t, "the counters are reached", func() bool {
		e := callOwn(t, h)
		if e != nil && e.Kind != protocol.GovernanceUnavailable {
			t.Fatal(e)
		}
		return e == nil
	})
}

// A policy of scope cluster limits two hosts together, and each host continues with its lease while the hub
// is unavailable.
func TestScopeCluster(t *testing.T) {
	processtest.Leaks(t)
	o, end, join := hubOf(t)
	a, b := open(t, join("a"), true, limited(40, true)), open(t, join("b"), true, limited(40, true))
	eventually(t, "they know each other",
		func() bool { return len(a.Status().Cluster.Nodes) == 1 && len(b.Status().Cluster.Nodes) == 1 })
	untilCounted(t, a)
	untilCounted(t, b)
	end()
	held := 0
	var e *protocol.Error
	for ; held < 40; held++ {
		if e = callOwn(t, a); e != nil {
			break
		}
	}
	// the size of a lease is 40 / (8 x 2) = 2, or 5 while the node knew no other
	if held >= 5 || e == nil || e.Kind != protocol.GovernanceUnavailable {
		t.Errorf("%d calls passed without a hub, and then: %v", held, e)
	}
	if p := a.Status().Policies[0]; p.State == "ready" || !strings.Contains(p.Reason, "its counters are not reached") {
		t.Errorf("the status says %q, %q", p.State, p.Reason)
	}
	openHub(t, o)
	used := 2 + held
	for hosts := []*exthost.Host{a, b}; len(hosts) > 0; {
		switch e := callOwn(t, hosts[0]); {
		case e == nil:
			used++
		case e.Kind == protocol.Rejected:
			if !strings.Contains(e.Message, "at most 40 calls") || e.RetryAfter <= 0 {
				t.Errorf("%v, %v", e, e.RetryAfter)
			}
			hosts = hosts[1:]
		case e.Kind != protocol.GovernanceUnavailable:
			t.Fatal(e)
		}
		if len(hosts) == 2 {
			hosts[0], hosts[1] = hosts[1], hosts[0]
		}
	}
	if used != 40 {
		t.Errorf("%d calls of 40 passed", used)
	}
	if p := a.Status().Policies[0]; p.State != "ready" || len(p.Diagnostics) > 0 {
		t.Errorf("the status says %q, %q, %v", p.State, p.Reason, p.Diagnostics)
	}
}

// Without counters, a policy that is not required allows calls. Nodes with different limits are told so.
func TestScopeClusterOptional(t *testing.T) {
	processtest.Leaks(t)
	_, end, join := hubOf(t)
	a, b := open(t, join("a"), true, limited(400, false)), open(t, join("b"), true, limited(8, false))
	count := func(h *exthost.Host) (n int) {
		for n < 1000 && callOwn(t, h) == nil {
			n++
		}
		return n
	}
	eventually(t, "both are counted", func() bool { return count(b) == 0 })
	eventually(t, "the smaller limit is that of both", func() bool { return count(a) == 0 })
	p := a.Status().Policies[0]
	if len(p.Diagnostics) != 1 || p.Diagnostics[0].Code != "quota_differs" ||
		!strings.Contains(p.Diagnostics[0].Message, "node b lets 8 through") {
		t.Errorf("%+v", p.Diagnostics)
	}
	end()
	c := open(t, join("c"), true, limited(400, false))
	if n := count(c); n != 1000 {
		t.Errorf("%d calls pass without a hub", n)
	}
}

// A host without a cluster refuses the configuration.
func TestScopeClusterAlone(t *testing.T) {
	processtest.Leaks(t)
	h, err := openHost(nil, t.TempDir(), exe(t), x, limited(1, true))
	if protocol.KindOf(err) != protocol.ConfigInvalid ||
		!strings.Contains(fmt.Sprint(err), "state cluster.join, or scope: node") {
		t.Errorf("%v", err)
	}
	if h != nil {
		_ = h.Close()
	}
	file := filepath.Join(t.TempDir(), "host.yaml")
	text := "plugins:\n- name: all\n  category: rate_limiting\n  builtin: rate_limit\n  config:\n    scope: " +
		"cluster\n    limits: [{calls: 1}]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(config.LoadOptions{File: file, Dir: t.TempDir(), UserDir: "none", SystemDir: "none"})
	if err != nil {
		t.Fatal(err)
	}
	diags := cfg.Warnings
	if len(diags) != 1 || !strings.Contains(diags[0].String(), "host.yaml:6") ||
		!strings.Contains(diags[0].Message, "no host starts that is in none") || diags[0].Level != protocol.LevelWarn ||
		diags[0].Code != string(protocol.ConfigInvalid) {
		t.Errorf("%v", diags)
	}
}
