package hosts

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// SplitRemote splits NODE.ID into the node and the extension's id there; false for an extension of this host.
func SplitRemote(s status.Status, id string) (node, remoteID string, ok bool) {
	node, remoteID, ok = strings.Cut(id, ".")
	if !ok || s.Cluster == nil ||
		!slices.ContainsFunc(s.Cluster.Nodes, func(n status.Node) bool { return n.Name == node }) {
		return "", "", false
	}
	local := slices.ContainsFunc(s.Extensions,
		func(x status.Extension) bool { return x.ID == id && !slices.Equal(x.Nodes, []string{node}) })
	return node, remoteID, !local
}

// RemoteApprovals returns how many approval requests wait at the other nodes; c may be nil.
func RemoteApprovals(c *status.Cluster) (n int) {
	if c == nil {
		return 0
	}
	for _, other := range c.Nodes {
		n += other.Approvals
	}
	return n
}

// RemoteError adds the node to the next command of an error that an operation at that node returned.
func RemoteError(node string, err error) error {
	e, ok := errors.AsType[*protocol.Error](err)
	if !ok || console.NextCommand(e) == "" {
		return err
	}
	return &console.Error{
		Code:  console.ExitCode(err),
		Text:  e.Error(),
		Hint:  RemoteCommand(console.NextCommand(e), node),
		Cause: err,
	}
}

// RemoteCommand adds the node to a command that has to be run there; "" is this host. The result is safe for a
// terminal, whatever the node sent.
func RemoteCommand(command, node string) string {
	if node == "" || command == "" {
		return command
	}
	return console.Safe(command) + ", at node " + node
}

// NodeGone replaces err, the error for an unknown extension NODE.ID, by one that names the node if there is no such
// node.
func NodeGone(s status.Status, id string, err error) error {
	node, _, remote := strings.Cut(id, ".")
	local := slices.ContainsFunc(s.Extensions,
		func(x status.Extension) bool { return x.ID == node || strings.HasPrefix(x.ID, node+".") })
	if !remote || local || s.Cluster == nil || console.ExitCode(err) != console.ExitNotFound {
		return err
	}
	return &console.Error{
		Code: console.ExitNotFound,
		Text: fmt.Sprintf("there is no extension %q, as no node %s is in the cluster now", id, node),
		Hint: "exthost cluster nodes",
	}
}
