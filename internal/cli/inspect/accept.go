package inspect

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
)

func toolsAccept(c *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "accept ID [TOOL]",
		Short: "Accept changed tools of an extension, or one of them (persists)",
		Long: "Accept the tools of an extension as they are now, after an update for example. It ends the\n" +
			"warning that tools changed, also for later hosts, and a policy of builtin: pin no longer holds\n" +
			"them back. TOOL is the extension's own name for one of them. Look at the changes first, with\n" +
			"exthost info ID and exthost policy pins.",
		Example: "  exthost info notes\n  exthost tools accept notes",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 || len(args) > 2 {
				return console.Usagef("exthost status", "%s needs the id of an extension, and may name one of its tools", cmd.CommandPath())
			}
			return nil
		},
		ValidArgsFunction: hosts.CompleteExtension(c),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := acceptTools(cmd.Context(), c, args[0], strings.Join(args[1:], "")); err != nil {
				return err
			}
			_, err := fmt.Fprintf(c.Err, "accepted %s\n", console.Safe(strings.Join(args, " ")))
			return err
		},
	}
}

// acceptTools asks the running host; without one, a host that starts nothing.
func acceptTools(ctx context.Context, c *console.Console, id, tool string) error {
	r, cfg, err := hosts.Reach(ctx, c)
	if r != nil {
		path := "/api/v1/pins/" + url.PathEscape(id)
		if tool != "" {
			path += "/" + url.PathEscape(tool)
		}
		return r.Post(ctx, path+"/approve", nil, nil)
	}
	if err != nil {
		return err
	}
	h, err := hosts.Open(ctx, c, cfg, exthost.Options{Start: hosts.None, Mode: exthost.Mode{Inspect: true}})
	if err != nil {
		return err
	}
	defer h.Close()
	return h.Admin().AcceptTools(id, tool, hosts.Operator())
}
