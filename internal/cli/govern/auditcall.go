package govern

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/status"
)

// maxSilent is how many nodes without an answer are named one by one.
const maxSilent = 16

// auditCall prints what the audit logs of all nodes have about one call.
func auditCall(cmd *cobra.Command, c *console.Console, id string) error {
	for _, other := range []string{"follow", "denied", "tool", "caller", "node", "id", "extension", "since", "last"} {
		if cmd.Flags().Changed(other) {
			return console.Usagef("", "--call shows one call, so it goes without --%s", other)
		}
	}
	r, err := hosts.Find(cmd.Context())
	if console.ExitCode(err) == console.ExitNotFound {
		return &console.Error{
			Code: console.ExitNotFound,
			Text: "no host runs in this directory that could ask the nodes of its cluster",
			Hint: "exthost calls audit --id " + id + " reads the log of this host",
		}
	}
	if err != nil {
		return err
	}
	var found status.CallRecords
	if err := r.Get(cmd.Context(), "/api/v1/audit/"+url.PathEscape(id), &found); err != nil {
		return err
	}
	for i, s := range found.Silent {
		if i == maxSilent {
			c.Warn("%d more nodes did not say what they have of the call; -o json has them", len(found.Silent)-i)
			break
		}
		c.Warn("node %s did not say what it has of the call: %s", console.Safe(s.Node), console.Safe(s.Reason))
	}
	switch {
	case len(found.Nodes) == 0 && len(found.Silent) > 0:
		return &console.Error{
			Code: console.ExitNotFound,
			Text: fmt.Sprintf("no other node has a record of call %q", id),
			Hint: "exthost calls audit --id " + id + ", at the nodes that did not",
		}
	case len(found.Nodes) == 0:
		return &console.Error{
			Code: console.ExitNotFound,
			Text: fmt.Sprintf("no node has a record of call %q", id),
			Hint: "exthost calls audit lists those of this host, with their ids",
		}
	}
	var lines, names []string
	for _, n := range found.Nodes {
		names = append(names, n.Node)
		if n.Node != "" {
			lines = append(lines, "node "+console.Safe(n.Node))
		}
		for _, record := range n.Records {
			lines = append(lines, auditLine(c, &record))
		}
	}
	return c.Print(console.Document{Kind: "records", Value: found, Names: names, Text: strings.Join(lines, "\n")})
}
