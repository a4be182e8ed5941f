// Package inspect holds the commands that answer questions: which extensions and tools
// there are, how a tool answers, and which faults they have.
package inspect

import (
	"cmp"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
)

// List lists the extensions.
func List(c *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the extensions found, and why any of them cannot run here",
		Long: "List what the search paths hold, without starting anything. What was found and cannot\n" +
			"run here, or is disabled, is listed with its reason; broken manifests are reported on\nstderr.",
		Args: console.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			h, err := hosts.Inspect(cmd.Context(), c, hosts.None)
			if err != nil {
				return err
			}
			defer h.Close()
			s := h.Status()
			hosts.PrintDiagnostics(c, s)
			names, rows := []string{}, [][]string{{"ID", "VERSION", "RUNS AS", "STATE", "DESCRIPTION"}}
			for _, x := range s.Extensions {
				names = append(names, x.ID)
				rows = append(rows, []string{x.ID, cmp.Or(x.Version, "-"), cmp.Or(hosts.RunsAs(x), "-"), x.State, cmp.Or(x.Reason, x.Description)})
			}
			if len(names) == 0 {
				rows = [][]string{}
			}
			return c.Print(console.Document{Kind: "extensions", Value: console.OrEmpty(s.Extensions), Names: names, Rows: rows})
		},
	}
}
