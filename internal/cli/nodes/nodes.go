// Package nodes describes the cluster of a host: a table of its nodes, and its problems.
package nodes

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/status"
)

// List returns exthost cluster nodes.
func List(c *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "nodes",
		Short: "Show the nodes of the cluster and what they share",
		Args:  console.NoArgs,
		Long: "Show the other nodes of the cluster, as the running host of this directory knows them: " +
			"their\nstate, what they share, and the calls to them and from them.",
		Example: "  exthost cluster nodes\n  exthost cluster nodes -o json",
		RunE: onCluster(c, func(_ status.Status, of *status.Cluster) error {
			names := make([]string, 0, len(of.Nodes))
			for _, n := range of.Nodes {
				names = append(names, n.Name)
			}
			return c.Print(console.Document{
				Kind:  "nodes",
				Value: of,
				Names: names,
				Text:  strings.Join(Lines(of, time.Now(), c.Layout(true, drop...)), "\n"),
			})
		}),
	}
}

// Check returns exthost cluster check.
func Check(c *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "check",
		Short: "Say what is wrong with the cluster, as this host sees it",
		Args:  console.NoArgs,
		Long: "Ask the running host of this directory whether it is connected, which nodes are away, and\nwhich " +
			"have another version, a clock that differs, or replicas that differ. The exit code is 1 when\nsomething " +
			"is wrong.",
		Example: "  exthost cluster check",
		RunE: onCluster(c, func(s status.Status, of *status.Cluster) error {
			found := Problems(s)
			if len(found) > 0 {
				return &console.Error{Code: console.ExitFailed, Text: strings.Join(found, "\n")}
			}
			return c.Print(console.Document{
				Kind:  "cluster",
				Value: of,
				Text: fmt.Sprintf("cluster %s is in order: %s, seen from %s", of.Name,
					console.Plural(len(of.Nodes)+1, "node"), of.Node),
			})
		}),
	}
}

func onCluster(c *console.Console, do func(s status.Status, of *status.Cluster) error,
) func(*cobra.Command, []string) error {
	return hosts.OnRunning(func(ctx context.Context, r *hosts.Running, _ []string) error {
		s, err := r.StatusOnDisk(ctx, c)
		if err != nil {
			return err
		}
		if s.Cluster == nil {
			return &console.Error{
				Code: console.ExitNotFound,
				Text: "the host of this directory is in no cluster",
				Hint: "exthost cluster init makes one; exthost serve --cluster FILE joins one",
			}
		}
		return do(s, s.Cluster)
	})
}

// drop are the columns that a narrow terminal leaves out, in this order.
var drop = []string{"VERSION", "RTT", "FAILED", "OUT/IN", "TOOLS"}

// Summary describes the cluster in one line.
func Summary(c *status.Cluster) string {
	text := fmt.Sprintf("cluster %s: this is %s", c.Name, c.Node)
	switch {
	case c.Server == "":
		text += ", not connected: " + c.Reason
	case c.Reason != "":
		text += ", not heard: " + c.Reason
	default:
		text += fmt.Sprintf(", %s, over %s (%s)", console.Plural(len(c.Nodes)+1, "node"), c.Server, way(c))
	}
	return text
}

// Lines returns the summary, and the nodes as a table.
func Lines(c *status.Cluster, now time.Time, layout console.Layout) []string {
	lines := console.Wrap(console.Safe(Summary(c)), layout.Width)
	if len(c.Nodes) == 0 {
		return lines
	}
	rows := [][]string{{"NODE", "STATE", "VERSION", "RTT", "TOOLS", "OUT/IN", "FAILED", "SHARES"}}
	for _, n := range c.Nodes {
		rows = append(rows, []string{
			n.Name,
			state(&n, now),
			n.Version,
			span(n.RTT),
			fmt.Sprint(n.Tools),
			fmt.Sprintf("%d/%d", n.Out, n.In),
			fmt.Sprint(n.Failed),
			shares(&n),
		})
	}
	layout.Fold, layout.Drop = true, drop
	return append(lines, layout.Grid(rows)...)
}

// way describes the connection to the NATS server.
func way(c *status.Cluster) string {
	security := "no TLS"
	if c.TLS {
		security = "TLS"
	}
	if c.RTT == 0 {
		return security
	}
	return span(c.RTT) + ", " + security
}

func span(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return d.Round(10 * time.Microsecond).String()
}

func state(n *status.Node, now time.Time) string {
	if n.State == status.NodeReady {
		return n.State
	}
	return n.State + " " + console.Span(now.Sub(n.Since).Truncate(time.Second))
}

// shares lists what a node shares, marks replicas, and adds the problem of the node.
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

// clockBound is how much the clock of a node may differ before it is reported: invitations and audit logs contain
// times.
const clockBound = 2 * time.Second

// Problems lists what is wrong with the cluster of a host.
func Problems(s status.Status) (found []string) {
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
