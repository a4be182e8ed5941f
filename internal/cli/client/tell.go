package client

import (
	"context"
	"strings"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
)

// tell makes the running hosts reload their clients.
func tell(ctx context.Context, c *console.Console) error {
	applied, failed, err := hosts.ReloadClients(ctx)
	if err != nil {
		return err
	}
	if applied > 0 {
		c.Tell(console.Plural(applied, "running host") + " applied it")
	}
	if failed == nil {
		return nil
	}
	return &console.Error{
		Code: console.ExitFailed,
		Hint: "exthost reload in the directory of that host, or exthost stop",
		Text: "it is written, but not all running hosts applied it, and these go on with the clients and tokens of " +
			"before:\n  " + strings.Join(failed, "\n  "),
	}
}
