package operate

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/status"
)

var watchWords = []string{"on", "off", "log", "reload", "status"}

// Watch returns exthost watch, which controls whether the running host looks for changes on disk.
func Watch(c *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "watch on|off|log|reload|status",
		Short: "Switch on or off the watch for changes on disk",
		Long: "Have the host of this directory look for changes of extensions and of its\n" +
			"configuration: log reports changes, reload applies them, on uses extensions.watch.mode. The\n" +
			"setting holds until that host ends; to keep it, set extensions.watch in the\n" +
			"configuration. status shows the current setting.",
		Example:   "  exthost watch reload\n  exthost watch status -o json",
		ValidArgs: watchWords,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := console.One("on, off, log, reload or status")(cmd, args); err != nil ||
				slices.Contains(watchWords, args[0]) {
				return err
			}
			return console.Usagef("exthost watch --help", "there is no exthost watch %s%s", args[0],
				console.DidYouMean(args[0], watchWords))
		},
		RunE: hosts.OnRunning(func(ctx context.Context, r *hosts.Running, args []string) error {
			s, err := watch(ctx, r, args[0])
			if err != nil {
				return err
			}
			return c.Print(console.Document{Kind: "watch", Value: s, Names: []string{s.Mode}, Text: watchText(c, s)})
		}),
	}
}

func watch(ctx context.Context, r *hosts.Running, word string) (s status.Watch, err error) {
	if word == "status" {
		err = r.Get(ctx, "/api/v1/watch", &s)
		return s, err
	}
	ctx, cancel := context.WithTimeout(ctx, hosts.AnswerTimeout)
	defer cancel()
	err = r.Post(ctx, "/api/v1/watch?mode="+url.QueryEscape(word), nil, &s)
	return s, err
}

func watchText(c *console.Console, s status.Watch) string {
	if s.Mode == status.WatchOff {
		return "not watching; exthost watch reload reloads what changes"
	}
	what := "says what changed; exthost reload applies it"
	if s.Mode == config.WatchReload {
		what = "reloads what changed"
	}
	lines := []string{
		fmt.Sprintf("watching %s: after %s of quiet %s", console.Count(s.Directories, "folder"), s.Debounce, what),
	}
	if s.Polling != "" {
		lines = append(lines, c.PaintOut(console.Yellow, "polling")+" every two seconds: "+console.Safe(s.Polling))
	}
	if s.Changes > 0 {
		lines = append(lines, fmt.Sprintf("%s so far, the last %s ago", console.Count(s.Changes, "change"),
			console.Span(time.Since(s.LastChange))))
	}
	for line := range strings.SplitSeq(s.LastProblem, "\n") {
		if line != "" {
			lines = append(lines, c.PaintOut(console.Red, "✗")+" "+console.Safe(console.NearbyText(line)))
		}
	}
	return strings.Join(lines, "\n")
}
