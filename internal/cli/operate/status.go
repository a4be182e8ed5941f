// Package operate holds the commands that look at the running host and change it.
package operate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/supervisor"
)

// runningStatus is the status of the host that serves this directory.
type runningStatus struct {
	Directory string `json:"directory"`
	Serves    string `json:"serves"` // the URL for MCP clients, or stdio
	exthost.Status
}

// Status shows the running host.
func Status(c *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show what the running exthost of this directory does",
		Long: "Show the extensions of the exthost that serves this directory: processes, calls and how\n" +
			"long they took, memory, restarts, breakers, and why something does not run.",
		Example: "  exthost status\n  exthost status -o json",
		Args:    console.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := hosts.Find(cmd.Context())
			if err != nil {
				return err
			}
			s, err := r.Status(cmd.Context())
			if err != nil {
				return err
			}
			names := []string{}
			for _, x := range s.Extensions {
				names = append(names, x.ID)
			}
			for _, d := range s.Destinations {
				names = append(names, d.ID)
			}
			all := runningStatus{Directory: hosts.Here(), Serves: r.Info.Serves, Status: s}
			table := statusTable(all, time.Now(), console.Width(c.Out))
			return c.Print(console.Document{Kind: "status", Value: all, Names: names, Text: strings.Join(table, "\n")})
		},
	}
}

// statusTable is the status for a terminal of the given width. Width 0 is no terminal:
// a row is one line, with its note in the last column.
func statusTable(s runningStatus, now time.Time, width int) []string {
	lines := console.Wrap(fmt.Sprintf("exthost %s, pid %d, up %s, %s, %s", s.Version, s.Host.PID, console.Span(now.Sub(s.Host.StartedAt).Truncate(time.Second)), console.Bytes(s.Host.RSS), cmp.Or(s.Serves, "starting")), width)
	held := "processes held by " + s.Containment.String()
	if len(s.Containment.Lacks) > 0 {
		held += "; not by " + strings.Join(s.Containment.Lacks, "; not by ")
	}
	lines = append(append(lines, console.Wrap(held, width)...), "")
	rows := []statusRow{{cells: statusColumns}}
	if width == 0 {
		rows[0].notes = []string{"NOTE"}
	}
	for _, x := range s.Extensions {
		of := extensionRows(x, s.Diagnostics, now)
		if slices.ContainsFunc(x.Instances, func(i exthost.InstanceStatus) bool { return i.State == string(supervisor.Failed) }) {
			of[0].notes = append(of[0].notes, "exthost info "+x.ID+" says more; mend it, then exthost restart "+x.ID)
		}
		rows = append(rows, of...)
	}
	for _, d := range s.Destinations {
		rows = append(rows, destinationRows(d, s.Diagnostics, now)...)
	}
	lines = append(lines, layOut(rows, width)...)
	if broken := hosts.BrokenFiles(s.Status); len(broken) > 0 {
		lines = append(append(lines, ""), console.Wrap(console.Safe("not run, because of faults that exthost validate shows: "+strings.Join(broken, ", ")), width)...)
	}
	if len(s.Policies) > 0 {
		lines = append(append(lines, ""), console.Grid(hosts.PolicyRows(s.Policies), width, true)...)
	}
	if s.Audit != nil {
		lines = append(lines, "", console.Safe("audit log "+strings.TrimSuffix(s.Audit.Path+": "+s.Audit.Reason, ": ")))
	}
	if s.Questions > 0 {
		lines = append(lines, "", fmt.Sprintf("calls that wait for an approval: %d, exthost approve lists them", s.Questions))
	}
	return lines
}
