package operate

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/status"
)

var watchModes = []string{"on", "off", "log", "reload", "status"}

// watchCommand is exthost reload --watch, which controls whether the running host looks for changes on disk.
func watchCommand(ctx context.Context, c *console.Console, r *hosts.Running, mode string, args []string) error {
	if len(args) > 0 {
		return console.Usagef("exthost reload --watch "+mode, "--watch is about this host, and %q is too much", args[0])
	}
	if err := console.OneOf("exthost reload --help", "--watch", mode, watchModes); err != nil {
		return err
	}
	s, err := watch(ctx, r, mode)
	if err != nil {
		return err
	}
	return c.Print(console.Document{Kind: "watch", Value: s, Names: []string{s.Mode}, Text: watchText(c, s)})
}

func watch(ctx context.Context, r *hosts.Running, mode string) (s status.Watch, err error) {
	if mode == "status" {
		err = r.Get(ctx, "/api/v1/watch", &s)
		return s, err
	}
	ctx, cancel := context.WithTimeout(ctx, hosts.AnswerTimeout)
	defer cancel()
	err = r.Post(ctx, "/api/v1/watch?mode="+url.QueryEscape(mode), nil, &s)
	return s, err
}

func watchText(c *console.Console, s status.Watch) string {
	if s.Mode == status.WatchOff {
		return "not watching; exthost reload --watch reload reloads what changes"
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
