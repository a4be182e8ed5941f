//go:build !slim

package httpserver

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/hooks"
	"github.com/exthost/exthost/status"
)

// scrape returns the lines of /metrics by name and labels.
func scrape(t *testing.T, h *exthost.Host) map[string]string {
	t.Helper()
	w := httptest.NewRecorder()
	Metrics(h).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	lines := make(map[string]string)
	for line := range strings.Lines(w.Body.String()) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "} "); ok {
			lines[name+"}"] = value
		} else if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && name != "#" {
			lines[name] = value
		}
	}
	return lines
}

func TestMetrics(t *testing.T) {
	h := openKit(t, exthost.Options{
		Policies: []governance.Member{
			{
				Spec: governance.Spec{
					Name:     "weekday",
					Category: governance.Authorization,
					Flows:    []governance.Flow{governance.Request},
				},
				Policy: weekday("_fail"),
			},
			{
				Spec:   governance.Spec{Name: "trial", Category: governance.Validation, Mode: governance.ModeShadow},
				Policy: weekday("_die"),
			},
		},
		Hooks: []hooks.Handler{
			{
				Name:  "watch",
				Point: hooks.AfterToolCall,
				Run:   func(context.Context, *hooks.Event) (*hooks.Reply, error) { return nil, nil },
			},
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for e := range h.Admin().Events(ctx) {
		if e.Kind == status.EventApprovals { // the listener is registered
			for _, tool := range []string{"say", "say", "grumble", "die", "fail", "not_there"} {
				_, _ = h.Call(ctx, "ext_kit_"+tool, map[string]int{"n": 1})
			}
			break
		}
	}
	got := scrape(t, h)
	for line, want := range map[string]string{
		`exthost_calls_total{extension="kit",outcome="ok",tool="ext_kit_say"}`:                  "2",
		`exthost_calls_total{extension="kit",outcome="child_exited",tool="ext_kit_die"}`:        "1",
		`exthost_calls_total{extension="kit",outcome="extension_error",tool="ext_kit_grumble"}`: "1",
		`exthost_calls_total{extension="kit",outcome="rejected",tool="ext_kit_fail"}`:           "1",
		`exthost_calls_total{extension="",outcome="tool_not_found",tool=""}`:                    "1",
		`exthost_call_duration_seconds_count{extension="kit"}`:                                  "4",
		`exthost_call_duration_seconds_bucket{extension="kit",le="+Inf"}`:                       "4",
		`exthost_call_duration_seconds_bucket{extension="kit",le="134.217728"}`:                 "4",
		`exthost_extension_state{extension="kit",state="ready"}`:                                "1",
		`exthost_extension_state{extension="kit",state="failed"}`:                               "0",
		`exthost_extension_state{extension="lost",state="skipped"}`:                             "1",
		`exthost_calls_in_flight{extension="kit"}`:                                              "0",
		`exthost_tools{extension="kit"}`:                                                        "5",
		`exthost_breakers{breaker="ext:exec:kit",extension="kit",state="closed"}`:               "1",
		`exthost_sessions`:        "0",
		`exthost_event_listeners`: "0",
		`exthost_hook_runs_total{extension="",outcome="continue",point="after_tool_call"}`:                            "2",
		`exthost_hook_duration_seconds_count{point="after_tool_call"}`:                                                "2",
		`exthost_policy_duration_seconds_count{flow="request",policy="weekday"}`:                                      "5",
		`exthost_policy_duration_seconds_count{flow="request",policy="trial"}`:                                        "4",
		`exthost_policy_decisions_total{category="authorization",flow="request",outcome="rejected",policy="weekday"}`: "1",
		`exthost_policy_decisions_total{category="authorization",flow="request",outcome="continue",policy="weekday"}`: "4",
		`exthost_policy_decisions_total{category="validation",flow="request",outcome="continue",policy="trial"}`:      "4",
		`exthost_policy_shadowed_total{flow="request",policy="trial"}`:                                                "1",
		`exthost_policy_rejections_total{code="no_fail",flow="request",policy="weekday"}`:                             "1",
		`exthost_policy_rejections_total{code="other",flow="request",policy="trial"}`:                                 "1",
		`exthost_payload_bytes_total{direction="sent",extension="kit"}`:                                               fmt.Sprint(2*len(`{"name":"say","arguments":{"n":1}}`) + len(`{"name":"grumble","arguments":{"n":1}}`) + len(`{"name":"die","arguments":{"n":1}}`)),
	} {
		if got[line] != want {
			t.Errorf("%s %q, want %s", line, got[line], want)
		}
	}
	if n := got[`exthost_handshake_duration_seconds_count{extension="kit"}`]; n == "" || n == "0" {
		t.Errorf("%q starts were timed", n)
	}
	for name, value := range got {
		if strings.HasPrefix(name, "exthost_") && strings.Contains(name, "not_there") {
			t.Errorf("a caller made up the label of %s %s", name, value)
		}
	}
	problems, err := testutil.CollectAndLint(collector{Host: h})
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	r := prometheus.NewPedanticRegistry()
	if err := r.Register(collector{Host: h}); err != nil {
		t.Error(err)
	}
	if _, err := r.Gather(); err != nil {
		t.Error(err)
	}
}

// ofCluster collects the metrics of a cluster alone.
type ofCluster struct{ *status.Cluster }

func (c ofCluster) Describe(descs chan<- *prometheus.Desc)   { collector{}.Describe(descs) }
func (c ofCluster) Collect(metrics chan<- prometheus.Metric) { sink(metrics).cluster(c.Cluster) }

func TestMetricsOfACluster(t *testing.T) {
	c := ofCluster{&status.Cluster{
		Name:   "main",
		Node:   "gpu1",
		Server: "tls://n1:7822",
		RTT:    500 * time.Microsecond,
		Nodes: []status.Node{
			{Name: "laptop", State: status.NodeAway},
			{Name: "n1", State: status.NodeReady, RTT: 250 * time.Millisecond, Out: 9, In: 4, Failed: 2},
		},
	}}
	want := `
# HELP exthost_cluster_calls_total Calls to a node by outcome: answered by the extension, or failed
# TYPE exthost_cluster_calls_total counter
exthost_cluster_calls_total{node="laptop",outcome="answered"} 0
exthost_cluster_calls_total{node="laptop",outcome="failed"} 0
exthost_cluster_calls_total{node="n1",outcome="answered"} 7
exthost_cluster_calls_total{node="n1",outcome="failed"} 2
# HELP exthost_cluster_connected 1 while the host is connected to a server of its cluster
# TYPE exthost_cluster_connected gauge
exthost_cluster_connected 1
# HELP exthost_cluster_nodes Other nodes of the cluster by state
# TYPE exthost_cluster_nodes gauge
exthost_cluster_nodes{state="away"} 1
exthost_cluster_nodes{state="leaving"} 0
exthost_cluster_nodes{state="ready"} 1
# HELP exthost_cluster_received_calls_total Calls from a node
# TYPE exthost_cluster_received_calls_total counter
exthost_cluster_received_calls_total{node="laptop"} 0
exthost_cluster_received_calls_total{node="n1"} 4
# HELP exthost_cluster_rtt_seconds To a node and back; with an empty node, to the server
# TYPE exthost_cluster_rtt_seconds gauge
exthost_cluster_rtt_seconds{node=""} 0.0005
exthost_cluster_rtt_seconds{node="n1"} 0.25
`
	if err := testutil.CollectAndCompare(c, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	if problems, err := testutil.CollectAndLint(c); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}
