package hosts

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/status"
)

// clusterDrop are the columns that a narrow terminal leaves out, in this order.
var clusterDrop = []string{"VERSION", "RTT", "FAILED", "OUT/IN", "TOOLS"}

// ClusterSummary describes the cluster in one line.
func ClusterSummary(c *status.Cluster) string {
	text := fmt.Sprintf("cluster %s: this is %s", c.Name, c.Node)
	switch {
	case c.Server == "":
		text += ", not connected: " + c.Reason
	case c.Reason != "":
		text += ", not heard: " + c.Reason
	default:
		text += fmt.Sprintf(", %s, over %s (%s)", console.Plural(len(c.Nodes)+1, "node"), c.Server, connection(c))
	}
	return text
}

// ClusterLines returns [ClusterSummary], and the nodes as a table.
func ClusterLines(c *status.Cluster, now time.Time, layout console.Layout) []string {
	lines := console.Wrap(console.Safe(ClusterSummary(c)), layout.Width)
	if len(c.Nodes) == 0 {
		return lines
	}
	rows := [][]string{{"NODE", "STATE", "VERSION", "RTT", "TOOLS", "OUT/IN", "FAILED", "SHARES"}}
	for _, n := range c.Nodes {
		rows = append(rows, []string{
			n.Name,
			nodeState(&n, now),
			n.Version,
			roundTrip(n.RTT),
			fmt.Sprint(n.Tools),
			fmt.Sprintf("%d/%d", n.Out, n.In),
			fmt.Sprint(n.Failed),
			shares(&n),
		})
	}
	layout.Fold, layout.Drop = true, clusterDrop
	return append(lines, layout.Grid(rows)...)
}

// connection describes the connection to the NATS server.
func connection(c *status.Cluster) string {
	security := "no TLS"
	if c.TLS {
		security = "TLS"
	}
	if c.RTT == 0 {
		return security
	}
	return roundTrip(c.RTT) + ", " + security
}

func roundTrip(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return d.Round(10 * time.Microsecond).String()
}

func nodeState(n *status.Node, now time.Time) string {
	if n.State == status.NodeReady {
		return n.State
	}
	return n.State + " " + console.Span(now.Sub(n.Since).Truncate(time.Second))
}

// shares lists what a node shares, with replicas marked, and adds the node's problem.
func shares(n *status.Node) string {
	var list []string
	for _, s := range n.Shares {
		text := s.Extension
		if s.As != "mine" {
			text += " (" + s.As + ")"
		}
		list = append(list, text)
	}
	text := strings.Join(list, ", ")
	switch {
	case n.Note != "" && text != "":
		return text + "; " + n.Note
	case n.Note != "":
		return n.Note
	}
	return cmp.Or(text, "-")
}

// clockBound is the largest difference from a node's clock that is not reported. Clocks matter for the times in
// invitations and audit logs.
const clockBound = 2 * time.Second

// ClusterProblems lists the problems of a host's cluster.
func ClusterProblems(s status.Status) (found []string) {
	c := s.Cluster
	switch {
	case c.Server == "":
		found = append(found, fmt.Sprintf("this host is not connected to cluster %s: %s; calls of other nodes' tools "+
			"fail, and its own tools go on", c.Name, c.Reason))
	case c.Reason != "":
		found = append(found, "this host is not heard: "+c.Reason)
	case !c.TLS:
		found = append(found, fmt.Sprintf("the connection to %s has no TLS: who is on the way reads calls and results",
			c.Server))
	}
	for _, n := range c.Nodes {
		if n.State != status.NodeReady {
			found = append(found,
				fmt.Sprintf("node %s is %s since %s; exthost status there says more", n.Name, n.State,
					console.Stamp(n.Since)))
		}
		if n.Version != "" && n.Version != s.Version {
			found = append(found,
				fmt.Sprintf("node %s runs exthost %s, and this host %s", n.Name, n.Version, s.Version))
		}
		if d := n.Clock.Abs(); d > clockBound {
			found = append(found,
				fmt.Sprintf("the clock of node %s differs by %v; times of invitations and of audit logs differ with it",
					n.Name, d.Round(time.Millisecond)))
		}
		if n.Note != "" {
			found = append(found, "node "+n.Name+": "+n.Note)
		}
	}
	for _, d := range s.Diagnostics {
		if d.Code == "replica_differs" || d.Code == "id_taken" {
			found = append(found, console.Nearby(d).String())
		}
	}
	return slices.Compact(found)
}
