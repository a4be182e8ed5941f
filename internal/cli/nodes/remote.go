package nodes

import (
	"slices"
	"strings"

	"github.com/exthost/exthost/status"
)

// Remote returns the node and the id there of an extension that NODE.ID names; false for one of
// this host.
func Remote(s status.Status, id string) (node, there string, ok bool) {
	node, there, ok = strings.Cut(id, ".")
	if !ok || s.Cluster == nil || !slices.ContainsFunc(s.Cluster.Nodes, func(n status.Node) bool { return n.Name == node }) {
		return "", "", false
	}
	here := slices.ContainsFunc(s.Extensions, func(x status.Extension) bool { return x.ID == id && !slices.Equal(x.Nodes, []string{node}) })
	return node, there, !here
}

// Waiting is how many approval requests wait at the other nodes of a cluster, nil for none.
func Waiting(c *status.Cluster) (n int) {
	if c == nil {
		return 0
	}
	for _, other := range c.Nodes {
		n += other.Approvals
	}
	return n
}
