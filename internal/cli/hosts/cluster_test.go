package hosts

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

func example(now time.Time) *status.Cluster {
	return &status.Cluster{
		Name:   "main",
		Node:   "web",
		Server: "tls://hub:7822",
		TLS:    true,
		RTT:    400 * time.Microsecond,
		Nodes: []status.Node{
			{Name: "gpu1", State: status.NodeReady, Version: "0.2.0", RTT: 620 * time.Microsecond, Tools: 3, Out: 1904,
				In: 31, Failed: 2,
				Shares: []status.Shared{{Extension: "search", As: "replicas"}, {Extension: "notes", As: "mine"}}},
			{
				Name:    "laptop\x1b",
				State:   status.NodeAway,
				Since:   now.Add(-12 * time.Second),
				Version: "0.1.0",
				Clock:   -3 * time.Second,
				Note:    "its connection ended",
			},
		},
	}
}

func TestClusterLines(t *testing.T) {
	now := time.Date(2026, 11, 26, 0, 0, 0, 0, time.UTC)
	got := strings.Join(ClusterLines(example(now), now, console.Layout{}), "\n")
	want := `cluster main: this is web, 3 nodes, over tls://hub:7822 (400µs, TLS)
NODE          STATE     VERSION  RTT    TOOLS  OUT/IN   FAILED  SHARES
gpu1          ready     0.2.0    620µs  3      1904/31  2       search (replicas), notes
laptop\u001b  away 12s  0.1.0    -      0      0/0      0       its connection ended`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	away := ClusterLines(&status.Cluster{Name: "main", Node: "web", Reason: "dial tcp: refused"}, now, console.Layout{})
	if diff := cmp.Diff([]string{"cluster main: this is web, not connected: dial tcp: refused"}, away); diff != "" {
		t.Error(diff)
	}
}

func TestClusterProblems(t *testing.T) {
	now := time.Date(2026, 11, 26, 0, 0, 0, 0, time.UTC)
	s := status.Status{
		Version: "0.2.0",
		Cluster: example(now),
		Diagnostics: []protocol.Diagnostic{
			{Code: "replica_differs", Extension: "search", Message: "tool q differs"},
			{Code: "other", Message: "not about it"},
		},
	}
	found := ClusterProblems(s)
	for i, want := range []string{
		"node laptop",
		"runs exthost 0.1.0",
		"differs by 3s",
		"its connection ended",
		"tool q differs",
	} {
		if i >= len(found) || !strings.Contains(found[i], want) {
			t.Errorf("no %q at %d of %q", want, i, found)
		}
	}
	if len(found) != 5 {
		t.Errorf("%q", found)
	}
	s.Cluster = &status.Cluster{Name: "main", Reason: "refused"}
	s.Diagnostics = nil
	if found = ClusterProblems(s); len(found) != 1 || !strings.Contains(found[0], "not connected") {
		t.Errorf("%q", found)
	}
}
