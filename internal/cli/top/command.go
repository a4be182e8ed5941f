// Package top implements exthost top, which shows the running host live in a terminal.
package top

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
)

// Command returns exthost top.
func Command(c *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:         "top",
		Short:       "Watch the running host live in the terminal",
		Annotations: console.AsksHost,
		Long: "Show the host of this directory live: whether calls pass, the load and latency of its\n" +
			"extensions, what needs attention, calls that wait for an approval, and calls as they end.\n" +
			"Keys restart an extension, show its messages, and approve or deny a call; ? lists them.",
		Example: "  exthost top\n  exthost top --host 4711",
		Args:    console.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if watch == nil {
				return &console.Error{
					Code: console.ExitGated,
					Text: "this exthost is a slim build, which has no exthost top",
					Hint: "exthost status; the whole exthost of this version shows this host too",
				}
			}
			if !console.IsTerminal(c.In) || !console.IsTerminal(c.Out) {
				return console.Usagef("exthost status -o json", "exthost top needs a terminal")
			}
			return hosts.OnRunning(func(ctx context.Context, r *hosts.Running, _ []string) error {
				return watch(ctx, c, r)
			})(cmd, args)
		},
	}
}
