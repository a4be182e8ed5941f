package operate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/status"
)

// hostRow is a running host.
type hostRow struct {
	PID       int             `json:"pid"`
	Directory string          `json:"directory,omitempty"`
	User      string          `json:"user,omitempty"`
	Serves    string          `json:"serves,omitempty"` // the URL for MCP clients, or stdio
	Began     time.Time       `json:"began,omitzero"`
	Version   string          `json:"version,omitempty"`
	Verdict   *status.Verdict `json:"verdict,omitempty"` // nil: it does not answer
	Problem   string          `json:"problem,omitempty"` // why it does not answer
}

// psTimeout bounds the time that each host has to answer.
const psTimeout = 3 * time.Second

// Ps returns exthost ps, which lists the running hosts of this machine.
func Ps(c *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "ps",
		Short: "List the running hosts of this machine",
		Long: "List the hosts that run on this machine, of this user or, for root, of all users: pid,\n" +
			"directory, address, and in a sentence whether calls pass and what to do next. Every command\n" +
			"about a running host takes --host PID or --host DIR and works from anywhere.",
		Example: "  exthost ps\n  exthost status --host 4711\n  sudo exthost ps",
		Args:    console.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, others, err := hosts.OnMachine(cmd.Context())
			if err != nil {
				return err
			}
			rows := askAll(cmd.Context(), all)
			table := [][]string{{"PID", "USER", "UP", "DIRECTORY", "ADDRESS", "VERDICT"}}
			pids := []string{}
			for _, r := range rows {
				pids = append(pids, strconv.Itoa(r.PID))
				table = append(table, r.cells(time.Now()))
			}
			table = append(table, []string{console.Plural(len(rows), "host")})
			if others > 0 {
				c.Info("%s of other users, which root sees: sudo exthost ps", console.Plural(others, "host"))
			}
			return c.Print(console.Document{
				Kind:  "hosts",
				Value: console.OrEmpty(rows),
				Names: pids,
				Rows:  table,
				Drop:  []string{"USER", "UP", "ADDRESS"},
				Wrap:  true,
			})
		},
	}
}

// askAll asks all hosts at the same time.
func askAll(ctx context.Context, all []*hosts.Running) []hostRow {
	rows := make([]hostRow, len(all))
	var wg sync.WaitGroup
	for i, r := range all {
		wg.Go(func() { rows[i] = ask(ctx, r) })
	}
	wg.Wait()
	slices.SortStableFunc(rows,
		func(a, b hostRow) int { return cmp.Or(a.Began.Compare(b.Began), cmp.Compare(a.PID, b.PID)) })
	return rows
}

func ask(ctx context.Context, r *hosts.Running) hostRow {
	row := hostRow{
		PID:       cmp.Or(r.Info.Seen, r.Info.PID),
		Directory: r.Info.Dir,
		User:      r.User(),
		Serves:    r.Info.Serves,
		Began:     r.Info.Began,
	}
	ctx, cancel := context.WithTimeout(ctx, psTimeout)
	defer cancel()
	s, err := r.Status(ctx)
	if err != nil {
		row.Problem = console.Describe(err)
		if ctx.Err() != nil && !r.Info.Stopped() {
			row.Problem = fmt.Sprintf("it has not answered within %v; next: exthost logs --host %d", psTimeout, row.PID)
		}
		return row
	}
	row.Version, row.Verdict = s.Version, &s.Verdict
	return row
}

func (r *hostRow) cells(now time.Time) []string {
	up, says := "-", r.Problem
	if !r.Began.IsZero() {
		up = console.Span(now.Sub(r.Began).Truncate(time.Second))
	}
	if r.Verdict != nil {
		says = hosts.Sentence(*r.Verdict)
	}
	return []string{
		strconv.Itoa(r.PID),
		cmp.Or(r.User, "-"),
		up,
		console.Tilde(cmp.Or(r.Directory, "-")),
		cmp.Or(r.Serves, "-"),
		says,
	}
}
