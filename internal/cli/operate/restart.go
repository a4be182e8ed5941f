package operate

import (
	"fmt"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
)

// Restart restarts one extension.
func Restart(c *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "restart ID",
		Short: "Restart one extension of the running exthost; also one that has failed",
		Long: "Have the exthost that serves this directory replace the processes of one extension and\n" +
			"forget its failures. Calls in flight may end first. Returns when the new process can be\n" +
			"called, or says why it cannot.",
		Args:              console.One("the id of an extension"),
		ValidArgsFunction: hosts.CompleteExtension(c),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := hosts.Find(cmd.Context())
			if err != nil {
				return err
			}
			if _, err := r.Worker(cmd.Context(), args[0]); err != nil {
				return err
			}
			began := time.Now()
			if err := r.Post(cmd.Context(), "/api/v1/extensions/"+url.PathEscape(args[0])+"/restart", nil, nil); err != nil {
				return err
			}
			x, err := r.Worker(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			text := fmt.Sprintf("%s is %s after %s", x.ID, x.State, console.Span(time.Since(began)))
			if pid := hosts.PID(x); pid > 0 {
				text += fmt.Sprintf(", pid %d", pid)
			}
			return c.Print(console.Document{Kind: "extension", Value: x, Names: []string{x.ID}, Text: text})
		},
	}
}
