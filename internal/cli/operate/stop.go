package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/internal/local/daemon"
	"github.com/exthost/exthost/internal/local/relay"
	"github.com/exthost/exthost/internal/proc/containment/sweep"
)

// stopTimeout is how long one host may take to end. A host needs at most 5 s if its extensions do not end by
// themselves.
const stopTimeout = 20 * time.Second

// killWait is how long to wait for the end of processes that a host has left.
const killWait = 2 * time.Second

// Stop returns exthost stop, which ends the hosts of the directory.
func Stop(c *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:         "stop",
		Short:       "End the host of this directory, also the one in the background",
		Annotations: console.AsksHost,
		Long: "End every exthost that serves this directory, and return when its processes have ended:\n" +
			"the hosts that exthost serve --stdio started in the background, and an exthost serve. Calls\n" +
			"in flight are cancelled. Processes that have left the session of their extension are named, and\n" +
			"those that survive SIGKILL are an error. A client on stdio keeps running, and starts a host again with " +
			"its\n" +
			"next message. A host of serve --stdio --own ends with its client alone.",
		Args: console.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			stopped, err := stopAll(cmd.Context(), c)
			if len(stopped) == 0 {
				return err
			}
			var lines, names []string
			for _, i := range stopped {
				names = append(names, strconv.Itoa(i.PID))
				lines = append(lines, fmt.Sprintf("stopped pid %d, %s", i.PID, i.Serves))
				for _, f := range i.Ended {
					lines = append(lines,
						fmt.Sprintf("ended   pid %d (%s), which had left the session of its extension", f.PID,
							console.Safe(f.Name)))
				}
			}
			return errors.Join(c.Print(console.Document{
				Kind:  "stopped",
				Value: stopped,
				Names: names,
				Text:  strings.Join(lines, "\n"),
			}), err)
		},
	}
}

// stoppedHost is a host that was stopped.
type stoppedHost struct {
	daemon.Info
	Ended []sweep.Found `json:"ended,omitempty"` // processes of the host that had left the session of their extension
}

// stopAll stops the hosts and returns those that have ended. It goes on after an error, and returns the first error: a
// host that does not end, or a process that a host leaves.
func stopAll(ctx context.Context, c *console.Console) (stopped []stoppedHost, err error) {
	state, err := exthost.DefaultStateDir()
	if err != nil {
		return nil, err
	}
	r, err := hosts.Find(ctx) // this also finds a host selected with --host
	if err != nil {
		return nil, err
	}
	all := []daemon.Info{r.Info}
	if !r.Apart && c.Host == "" {
		if all, err = daemon.FindAll(ctx, state); err != nil {
			return nil, err
		}
	}
	for _, info := range all {
		if info.Clients == "" {
			continue // it ends with its client
		}
		host, failed := stop(ctx, info)
		if err = cmp.Or(err, failed); host != nil {
			stopped = append(stopped, *host)
		}
	}
	if len(stopped) == 0 && err == nil {
		return nil, &console.Error{
			Code: console.ExitNotFound,
			Text: "no host is running for " + hosts.Here() + " that could be stopped",
		}
	}
	return stopped, err
}

// stop stops a host and ends the processes that the host leaves. host is nil if it has not ended.
func stop(ctx context.Context, info daemon.Info) (host *stoppedHost, err error) {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	if info.Stopped() {
		return nil, hosts.StoppedError(info)
	}
	apart := sweep.Left(sweep.Find(info.Marks), info.PID)
	if err := relay.Stop(ctx, info); err != nil {
		return nil, &console.Error{
			Code: console.ExitFailed,
			Text: fmt.Sprintf("exthost, pid %d, does not end: %v", info.PID, err),
			Hint: fmt.Sprintf("kill %d", info.PID),
		}
	}
	late, survived := sweep.End(info.Marks, killWait)
	host = &stoppedHost{Info: info}
	for _, f := range append(apart, late...) {
		if !f.Runs() && !slices.Contains(host.Ended, f) {
			host.Ended = append(host.Ended, f)
		}
	}
	if len(survived) == 0 {
		return host, nil
	}
	var pids, words []string
	for _, f := range survived {
		pids = append(pids, strconv.Itoa(f.PID))
		words = append(words, fmt.Sprintf("%d (%s)", f.PID, console.Safe(f.Name)))
	}
	return host, &console.Error{
		Code: console.ExitFailed,
		Text: fmt.Sprintf("the host of pid %d has ended, but processes of it survived SIGKILL: %s", info.PID,
			strings.Join(words, ", ")),
		Hint: "they wait for the kernel, or belong to another user: ps -o pid,user,stat,wchan,args -p " +
			strings.Join(pids, ","),
	}
}
