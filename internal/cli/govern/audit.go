package govern

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost/governance/audit"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
)

// Audit returns exthost calls audit, which shows the audit log.
func Audit(c *console.Console) *cobra.Command {
	var q audit.Query
	var since, call string
	cmd := &cobra.Command{
		Use:         "audit",
		Short:       "Show the audit log: who called what, with which outcome",
		Annotations: console.AsksHost,
		Long: "Show the records of the audit log, the oldest first, from its files: no host has to run.\n" +
			"-f follows new records. A call that was sent and has no outcome is pending while a host\n" +
			"writes the log, and lost when that host has ended. --call has the running host ask all nodes\n" +
			"of its cluster for what they have of one call.",
		Example: "  exthost calls audit -f --denied\n  exthost calls audit --call d-1f0c9a\n  " +
			"exthost calls audit --tool 'ext_notes_*' --since 24h -o json\n  exthost calls verify",
		Args: console.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if call != "" {
				return auditCall(cmd, c, call)
			}
			paths, err := auditPaths(cmd.Context(), c, q.Follow)
			if err != nil {
				return err
			}
			if err := c.JSONOnly(cmd); err != nil {
				return err
			}
			if q.Since, err = sinceWhen(since, time.Now()); err != nil {
				return err
			}
			if err := q.Check(); err != nil {
				return console.Usagef("", "%v", err)
			}
			return printAudit(cmd.Context(), c, paths, q)
		},
	}
	f := cmd.Flags()
	f.BoolVarP(&q.Follow, "follow", "f", false, "follow new records until Ctrl-C")
	f.BoolVar(&q.Denied, "denied", false, "only what a policy or a hook ended")
	f.StringVar(&q.Tool, "tool", "", "only tools whose registered name fits `GLOB`")
	f.StringVar(&q.Caller, "caller", "", "only callers that fit `GLOB`")
	f.StringVar(&q.Node, "node", "", "only callers of nodes of the cluster that fit `GLOB`; . is this host")
	f.StringVar(&q.ID, "id", "", "only the call with the decision `ID`, of this host or of the node whose caller it is")
	f.StringVar(&call, "call", "",
		"only the call with the decision `ID`, at all nodes of the cluster, as the running host finds it")
	f.StringVar(&q.Extension, "extension", "", "only extensions whose id fits `GLOB`")
	f.StringVar(&since, "since", "",
		"only what began at `TIME` or later: 2006-01-02, 2006-01-02T15:04:05Z, or 90m, 24h ago")
	f.IntVarP(&q.Last, "last", "n", 0, "begin with the last `N` records (default: all)")
	return cmd
}

// auditPaths returns the audit logs that hosts with this configuration have written.
func auditPaths(ctx context.Context, c *console.Console, follow bool) ([]string, error) {
	path, err := auditPath(ctx, c)
	if err != nil {
		return nil, err
	}
	if path == "" {
		return nil, &console.Error{
			Code: console.ExitNotFound,
			Text: "no audit log is kept",
			Hint: "write audit: {path: audit.jsonl} into exthost.yaml, then start exthost serve again",
		}
	}
	paths := audit.Siblings(path)
	if len(paths) == 0 && follow {
		return []string{path}, nil
	}
	if len(paths) == 0 {
		return nil, &console.Error{
			Code: console.ExitNotFound,
			Text: "there is no audit log at " + path + " yet",
			Hint: "exthost serve begins it",
		}
	}
	return paths, nil
}

// auditPath returns the path of the audit log in the configuration, or of the running host if the configuration is
// invalid; "" if there is no log.
func auditPath(ctx context.Context, c *console.Console) (string, error) {
	r, cfg, broken := hosts.Reach(ctx, c)
	if broken == nil {
		return cfg.Audit.Path, nil
	}
	if r == nil {
		return "", broken
	}
	s, err := r.Status(ctx)
	if err != nil || s.Audit == nil {
		return "", err
	}
	return s.Audit.Path, nil
}

// sinceWhen parses a time, or a duration before now; "" is the zero time.
func sinceWhen(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04", time.DateOnly} {
		if at, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return at, nil
		}
	}
	return time.Time{}, console.Usagef("",
		"--since %q is no time, such as 2006-01-02T15:04:05Z, and no duration, such as 90m", text)
}

func printAudit(ctx context.Context, c *console.Console, paths []string, q audit.Query) error {
	for r, err := range readAudits(ctx, paths, q) {
		if ctx.Err() != nil && q.Follow {
			return nil // Ctrl-C is how following ends
		}
		if err != nil {
			return err
		}
		line := auditLine(c, &r)
		if c.Output == "json" {
			text, err := json.Marshal(r)
			if err != nil {
				return err
			}
			line = console.SafeJSON(text)
		}
		if _, err := fmt.Fprintln(c.Out, line); err != nil {
			return err
		}
	}
	return nil
}

// readAudits reads one log, or several merged by time.
func readAudits(ctx context.Context, paths []string, q audit.Query) iter.Seq2[audit.Record, error] {
	switch {
	case len(paths) == 1:
		return audit.Read(ctx, paths[0], q)
	case q.Follow:
		return followAudits(ctx, paths, q)
	}
	return func(yield func(audit.Record, error) bool) {
		var all []audit.Record
		for _, path := range paths {
			for r, err := range audit.Read(ctx, path, q) {
				if err != nil {
					yield(r, err)
					return
				}
				all = append(all, r)
			}
		}
		slices.SortStableFunc(all, func(x, y audit.Record) int { return x.Time.Compare(y.Time) })
		if q.Last > 0 {
			all = all[max(0, len(all)-q.Last):]
		}
		for _, r := range all {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// followAudits yields the records of several logs as they are written.
func followAudits(ctx context.Context, paths []string, q audit.Query) iter.Seq2[audit.Record, error] {
	type item struct {
		audit.Record
		err error
	}
	return func(yield func(audit.Record, error) bool) {
		ctx, stop := context.WithCancel(ctx)
		items := make(chan item)
		var readers sync.WaitGroup
		for _, path := range paths {
			readers.Go(func() {
				for r, err := range audit.Read(ctx, path, q) {
					select {
					case items <- item{r, err}:
					case <-ctx.Done():
						return
					}
				}
			})
		}
		go func() { readers.Wait(); close(items) }()
		wanted := true
		for i := range items {
			if wanted && !yield(i.Record, i.err) {
				wanted = false
				stop()
			}
		}
		stop()
	}
}

func auditLine(c *console.Console, r *audit.Record) string {
	line := cmp.Or(r.Tool, r.Method)
	for _, part := range []struct{ name, value string }{
		{"caller", r.Caller}, {"node", r.Node}, {"policy", r.Policy}, {"code", r.Code}, {"approved_by", r.ApprovedBy},
		{"answered_in", r.AnsweredIn},
		{"failure", r.Failure}, {"error", r.Error}, {"id", r.ID}, {"origin", r.Origin},
	} {
		if part.value == "" {
			continue
		}
		if strings.ContainsAny(part.value, " \t\"=") {
			part.value = fmt.Sprintf("%q", part.value)
		}
		line += " " + part.name + "=" + part.value
	}
	if r.Replayed {
		line += " replayed"
	}
	outcome := fmt.Sprintf("%-10s", console.Safe(string(r.Outcome)))
	colour := console.Red
	switch r.Outcome {
	case audit.OK, audit.Answered:
		colour = console.Green
	case audit.ToolError, audit.Pending:
		colour = console.Yellow
	}
	return c.PaintOut(console.Dim, r.Time.Local().Format("2006-01-02 15:04:05.000")) + " " + c.PaintOut(colour,
		outcome) + " " + console.Safe(line)
}
