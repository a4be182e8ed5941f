package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/internal/daemon"
	"github.com/exthost/exthost/internal/relay"
)

// stopTimeout bounds the end of one host, which takes 5 s at most when its extensions do not
// end by themselves.
const stopTimeout = 20 * time.Second

// Stop ends the hosts of the directory.
func Stop(c *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "stop",
		Short: "End the host of this directory, also the one in the background",
		Long: "End every exthost that serves this directory, and return when its processes have ended:\n" +
			"the hosts that exthost serve --stdio started in the background, and an exthost serve. Calls\n" +
			"in flight are cancelled. A client on stdio keeps running, and starts a host again with its\n" +
			"next message. A host of serve --stdio --own ends with its client alone.",
		Args: console.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			stopped, err := stopAll(cmd.Context())
			if len(stopped) == 0 {
				return err
			}
			var lines, names []string
			for _, i := range stopped {
				names = append(names, strconv.Itoa(i.PID))
				lines = append(lines, fmt.Sprintf("stopped pid %d, %s", i.PID, i.Serves))
			}
			return errors.Join(c.Print(console.Document{Kind: "stopped", Value: stopped, Names: names, Text: strings.Join(lines, "\n")}), err)
		},
	}
}

// stopAll ends the hosts and returns them. The error is that of the first one that does not
// end; the others are ended nevertheless.
func stopAll(ctx context.Context) (stopped []daemon.Info, err error) {
	state, err := exthost.DefaultStateDir()
	if err != nil {
		return nil, err
	}
	all, err := daemon.FindAll(ctx, state)
	if err != nil {
		return nil, err
	}
	for _, info := range all {
		if info.Clients == "" {
			continue // it ends with its client
		}
		if failed := stop(ctx, info); failed != nil {
			err = cmp.Or(err, failed)
		} else {
			stopped = append(stopped, info)
		}
	}
	if len(stopped) == 0 && err == nil {
		return nil, &console.Error{Code: console.ExitNotFound, Text: "no host is running for " + hosts.Here() + " that could be stopped"}
	}
	return stopped, err
}

func stop(ctx context.Context, info daemon.Info) error {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	if info.Stopped() {
		return hosts.StoppedError(info)
	}
	if err := relay.Stop(ctx, info); err != nil {
		return &console.Error{Code: console.ExitFailed, Text: fmt.Sprintf("exthost, pid %d, does not end: %v", info.PID, err), Hint: fmt.Sprintf("kill %d", info.PID)}
	}
	return nil
}
