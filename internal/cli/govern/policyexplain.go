package govern

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
)

func policyExplain(c *console.Console) *cobra.Command {
	var shadow bool
	var last int
	cmd := &cobra.Command{
		Use:   "explain [ID]",
		Short: "Explain a decision by its id; without one list the latest",
		Long: "Show which policy decided what about one exchange, in which order, how long each took and\n" +
			"why. The id is in every denial. Without one, list the latest decisions; --shadow lists those\n" +
			"in which a policy in shadow mode would have acted.",
		Example: "  exthost policy explain\n  exthost policy explain --shadow -n 50\n  exthost policy explain 0a1b2c3d4e5f6",
		Args:    console.AtMostOne("the id of a decision"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return explain(cmd.Context(), c, args[0])
			}
			return listDecisions(cmd.Context(), c, last, shadow)
		},
	}
	cmd.Flags().BoolVar(&shadow, "shadow", false, "only those in which a policy in shadow mode would have acted")
	cmd.Flags().IntVarP(&last, "last", "n", 20, "look at the last `N` decisions")
	return cmd
}

func explain(ctx context.Context, c *console.Console, id string) error {
	var t exthost.Trace
	r, err := hosts.Find(ctx)
	if err == nil {
		err = r.Get(ctx, "/api/v1/decisions/"+url.PathEscape(id), &t)
	}
	if err != nil {
		return explainFromAudit(ctx, c, id, absent(err, "exthost policy explain"))
	}
	return c.Print(console.Document{Kind: "decision", Value: t, Names: []string{t.ID}, Text: traceText(t, console.Width(c.Out))})
}

func listDecisions(ctx context.Context, c *console.Console, last int, shadow bool) error {
	r, err := hosts.Find(ctx)
	if err != nil {
		return err
	}
	var list struct{ Decisions []exthost.Trace }
	if err := r.Get(ctx, "/api/v1/decisions?last="+strconv.Itoa(max(last, 0)), &list); err != nil {
		return err
	}
	if shadow {
		list.Decisions = slices.DeleteFunc(list.Decisions, func(t exthost.Trace) bool { return !slices.ContainsFunc(t.Steps, ignored) })
	}
	names, rows := []string{}, [][]string{{"ID", "TIME", "CALLER", "WHAT", "RESULT", "WHY"}}
	for _, t := range list.Decisions {
		names = append(names, t.ID)
		result, why := verdict(t)
		if i := slices.IndexFunc(t.Steps, ignored); i >= 0 && shadow {
			result, why = "would be "+past(t.Steps[i].Action), t.Steps[i].Policy+": "+t.Steps[i].Reason
		}
		rows = append(rows, []string{t.ID, console.Stamp(t.Time), t.Caller, cmp.Or(t.Tool, t.Method), result, why})
	}
	return c.Print(console.Document{Kind: "decisions", Value: console.OrEmpty(list.Decisions), Names: names, Rows: rows})
}
