package client

import (
	"context"
	"fmt"
	"strings"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
)

// tell makes all running hosts of this user, in any directory, reload their clients, because most hosts read the same
// file.
func tell(ctx context.Context, c *console.Console) error {
	all, err := hosts.Everywhere(ctx)
	if err != nil {
		return err
	}
	var failed []string
	applied := 0
	for _, r := range all {
		short, cancel := context.WithTimeout(ctx, hosts.AnswerTimeout)
		err := r.Post(short, "/api/v1/clients/reload", nil, nil)
		cancel()
		if err != nil {
			failed = append(failed, fmt.Sprintf("  pid %d: %v", r.Info.PID, err))
		} else {
			applied++
		}
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
			"before:\n" + strings.Join(failed, "\n"),
	}
}
