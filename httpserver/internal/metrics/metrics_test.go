package metrics

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/exthost/exthost/status"
)

// ofCluster collects the metrics of a cluster alone.
type ofCluster struct{ *status.Cluster }

func (c ofCluster) Describe(descs chan<- *prometheus.Desc)   { Collector{}.Describe(descs) }
func (c ofCluster) Collect(metrics chan<- prometheus.Metric) { sink(metrics).cluster(c.Cluster) }

func TestCluster(t *testing.T) {
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
