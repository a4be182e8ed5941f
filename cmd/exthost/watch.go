package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/nearest"
	"github.com/exthost/exthost/status"
)

var watchWords = []string{"on", "off", "log", "reload", "status"}

func (a *app) watchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "watch on|off|log|reload|status",
		Short: "Have the running exthost look for changes on disk, or not",
		Long: "Have the exthost that serves this directory look for changes of extensions and of its\n" +
			"configuration: log says what changed, reload applies it, on does what extensions.watch.mode\n" +
			"says of the two. It holds until that exthost ends; extensions.watch in the configuration is\n" +
			"for good. status says how it stands.",
		Example:   "  exthost watch reload\n  exthost watch status -o json",
		ValidArgs: watchWords,
		Args: func(c *cobra.Command, args []string) error {
			if err := one("on, off, log, reload or status")(c, args); err != nil || slices.Contains(watchWords, args[0]) {
				return err
			}
			if near := nearest.Of(args[0], watchWords); near != "" {
				return usagef("exthost watch --help", "there is no exthost watch %s, did you mean %q?", args[0], near)
			}
			return usagef("exthost watch --help", "there is no exthost watch %s", args[0])
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := a.running(cmd.Context())
			if err != nil {
				return err
			}
			s, err := r.watch(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return a.print(document{Kind: "watch", Value: s, Names: []string{s.Mode}, Text: a.watchText(s)})
		},
	}
	return cmd
}

func (r *running) watch(ctx context.Context, word string) (s status.Watch, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerPatience)
	defer cancel()
	if word == "status" {
		return s, r.ask(ctx, http.MethodGet, "/api/v1/watch", &s)
	}
	return s, r.ask(ctx, http.MethodPost, "/api/v1/watch?mode="+url.QueryEscape(word), &s)
}

// watchText says how the watch stands.
func (a *app) watchText(s status.Watch) string {
	if s.Mode == status.WatchOff {
		return "not watching; exthost watch reload reloads what changes"
	}
	what := "says what changed; exthost reload applies it"
	if s.Mode == config.WatchReload {
		what = "reloads what changed"
	}
	lines := []string{fmt.Sprintf("watching %s: after %s of quiet %s", count(s.Directories, "folder"), s.Debounce, what)}
	if s.Polling != "" {
		lines = append(lines, a.paint(yellow, "polling")+" every two seconds: "+safe(s.Polling))
	}
	if s.Changes > 0 {
		lines = append(lines, fmt.Sprintf("%s so far, the last %s ago", count(s.Changes, "change"), span(time.Since(s.LastChange))))
	}
	for line := range strings.SplitSeq(s.LastProblem, "\n") {
		if line != "" {
			lines = append(lines, a.paint(red, "✗")+" "+safe(nearbyText(line)))
		}
	}
	return strings.Join(lines, "\n")
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%s %ss", thousands(n), noun)
}
