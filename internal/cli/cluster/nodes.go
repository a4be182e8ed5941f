package cluster

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/status"
)

func listNodes(c *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:         "nodes",
		Short:       "Show the nodes of the cluster and what they share",
		Annotations: console.AsksHost,
		Args:        console.NoArgs,
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
				Text:  strings.Join(hosts.ClusterLines(of, time.Now(), c.Layout(true)), "\n"),
			})
		}),
	}
}

func check(c *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "check",
		Short: "Show the problems of the cluster, as this host sees them",
		Args:  console.NoArgs,
		Long: "Ask the running host of this directory whether it is connected, which nodes are away, and\nwhich " +
			"have another version, a clock that differs, or replicas that differ. The exit code is 1 when\nsomething " +
			"is wrong.",
		Example: "  exthost cluster check",
		RunE: onCluster(c, func(s status.Status, of *status.Cluster) error {
			found := hosts.ClusterProblems(s)
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
		s, _, err := r.StatusOnDisk(ctx, c)
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
