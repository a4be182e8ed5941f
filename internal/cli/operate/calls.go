package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// Decided shows the decisions of policies about calls.
type Decided interface {
	// One shows the decision with an id, of the running host or else of the audit log.
	One(ctx context.Context, c *console.Console, id string) error
	// List lists the latest decisions of the running host. With shadow it lists those in which a policy in shadow mode
	// would have acted.
	List(ctx context.Context, c *console.Console, last int, shadow bool) error
}

// Calls returns exthost calls, which shows the last calls of the running host, or one of them: the times of its stages,
// or the decisions of policies about it. verbs are its subcommands.
func Calls(c *console.Console, decided Decided, verbs ...*cobra.Command) *cobra.Command {
	var failed, slow, follow, decisions, shadow bool
	var last int
	cmd := &cobra.Command{
		Use:         "calls [ID]",
		Short:       "Show the last calls, who made them, and what was decided",
		Annotations: console.AsksHost,
		Long: "Show the calls that the host of this directory has ended last, the newest first, with\n" +
			"the stage in which each spent the most time, and above them what callers of calls in\n" +
			"flight are asked and have not answered. With an ID, show one call: its stages one\n" +
			"after the other, who made it, its trace and decision, and why it failed. The host keeps\n" +
			"the last 256 through every reload; those of hosts before it are in exthost calls audit.\n" +
			"-f shows the oldest first, then each call as it ends.\n\n" +
			"The ID of a decision, which every denial states, shows what each policy decided about the call,\n" +
			"in which order, how long each took and why. --decisions lists the latest decisions, --shadow those\n" +
			"in which a policy in shadow mode would have acted.",
		Example: "  exthost calls --slow\n  exthost calls --failed -n 5\n  exthost calls -f --failed\n  " +
			"exthost calls 17\n  " +
			"exthost calls 0a1b2c3d4e5f6\n  exthost calls --shadow -n 50",
		SuggestFor: []string{"explain", "history", "events"},
		Args:       console.AtMostOne("the id of a call or of a decision"),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) == 1 && !isCall(args[0]):
				return decided.One(cmd.Context(), c, args[0])
			case len(args) == 0 && last < 1:
				return console.Usagef("", "-n %d: there is no such number of calls", last)
			case len(args) == 0 && (decisions || shadow):
				return decided.List(cmd.Context(), c, last, shadow)
			}
			return hosts.OnRunning(func(ctx context.Context, r *hosts.Running, args []string) error {
				if len(args) == 1 {
					return oneCall(ctx, c, r, args[0])
				}
				if follow {
					return followCalls(ctx, c, r, last, failed)
				}
				return listCalls(ctx, c, r, last, failed, slow)
			})(cmd, args)
		},
	}
	cmd.AddCommand(verbs...)
	f := cmd.Flags()
	f.BoolVar(&decisions, "decisions", false, "the latest decisions of policies")
	f.BoolVar(&shadow, "shadow", false, "only decisions in which a policy in shadow mode would have acted")
	f.BoolVar(&failed, "failed", false, "only calls that were denied or failed, and errors of tools")
	f.BoolVar(&slow, "slow", false, "those that took longest first")
	f.BoolVarP(&follow, "follow", "f", false, "then show each call as it ends, until Ctrl-C or the end of the host")
	f.IntVarP(&last, "last", "n", 20, "at most `N` calls")
	cmd.MarkFlagsMutuallyExclusive("slow", "follow")
	for _, name := range []string{"failed", "slow", "follow"} {
		cmd.MarkFlagsMutuallyExclusive(name, "decisions")
		cmd.MarkFlagsMutuallyExclusive(name, "shadow")
	}
	return cmd
}

// isCall reports whether id is that of a call: a number that is shorter than the id of a decision.
func isCall(id string) bool {
	_, err := strconv.ParseUint(id, 10, 64)
	return err == nil && len(id) < 13
}

func listCalls(ctx context.Context, c *console.Console, r *hosts.Running, last int, failed, slow bool) error {
	var list struct {
		Calls     []status.PastCall
		Questions []status.Question
	}
	if err := r.Get(ctx, callsPath, &list); err != nil {
		return err
	}
	calls := chosenCalls(list.Calls, last, failed, slow)
	switch {
	case len(list.Calls) == 0:
		c.Info("the host has ended no call yet")
	case len(calls) == 0:
		c.Info("none of the last %s failed", console.Count(len(list.Calls), "call"))
	}
	remote := slices.ContainsFunc(calls, func(call status.PastCall) bool { return call.Node != "" })
	names, rows := []string{}, [][]string{{"ID", "TIME", "CALLER", "TOOL", "OUTCOME", "TOOK", "SLOWEST STAGE"}}
	if remote {
		rows[0] = slices.Insert(rows[0], nodeColumn, "NODE")
	}
	if failed {
		list.Questions = nil
	}
	for _, q := range list.Questions[:min(last, len(list.Questions))] {
		row := openCallRow(&q, time.Now())
		if remote {
			row = slices.Insert(row, nodeColumn, "-")
		}
		rows = append(rows, row)
	}
	for _, call := range calls {
		names = append(names, strconv.FormatUint(call.ID, 10))
		row := callRow(&call)
		if remote {
			row = slices.Insert(row, nodeColumn, cmp.Or(call.Node, "-"))
		}
		rows = append(rows, row)
	}
	return c.Print(console.Document{
		Kind:  "calls",
		Value: console.OrEmpty(calls),
		Names: names,
		Rows:  rows,
		Drop:  []string{"TIME", "CALLER"},
	})
}

// nodeColumn is the position of the column NODE, which is shown if a call was at another node.
const nodeColumn = 4

// chosenCalls filters and sorts calls, which are the newest first.
func chosenCalls(calls []status.PastCall, last int, failed, slow bool) []status.PastCall {
	if failed {
		calls = slices.DeleteFunc(calls, func(call status.PastCall) bool { return call.Outcome == status.OutcomeOK })
	}
	if slow {
		slices.SortStableFunc(calls, func(a, b status.PastCall) int { return cmp.Compare(b.Took, a.Took) })
	}
	return calls[:min(last, len(calls))]
}

func callRow(call *status.PastCall) []string {
	slowest := "-"
	if name, took := call.Slowest(); name != 0 {
		slowest = stageText(name) + " " + console.Span(time.Duration(took))
	}
	return []string{
		strconv.FormatUint(call.ID, 10),
		console.Stamp(call.Time),
		cmp.Or(call.Caller, "anonymous"),
		cmp.Or(call.Tool, call.Method),
		string(call.Outcome),
		console.Span(time.Duration(call.Took)),
		slowest,
	}
}

// openCallRow returns the row of a call in flight whose caller is asked something. The row has no id: a call gets its
// id when it ends.
func openCallRow(q *status.Question, now time.Time) []string {
	return []string{
		"-",
		console.Stamp(q.Since),
		askedCaller(q),
		cmp.Or(q.Tool, q.Extension, "-"),
		"waits for " + q.Method,
		console.Span(now.Sub(q.Since)),
		"-",
	}
}

func stageText(name status.StageName) string { return strings.ReplaceAll(name.String(), "_", " ") }

func oneCall(ctx context.Context, c *console.Console, r *hosts.Running, id string) error {
	var call status.PastCall
	err := r.Get(ctx, "/api/v1/calls/"+url.PathEscape(id), &call)
	if e, ok := errors.AsType[*protocol.Error](err); ok && e.Kind == protocol.ToolNotFound {
		return &console.Error{
			Code: console.ExitNotFound,
			Text: e.Message,
			Hint: "exthost calls lists these; exthost calls audit shows earlier calls, if an audit log is kept",
		}
	}
	if err != nil {
		return err
	}
	return c.Print(console.Document{
		Kind:  "call",
		Value: call,
		Names: []string{id},
		Text:  callText(&call, c.Layout(true)),
	})
}

// callText renders a call without its arguments and its result.
func callText(call *status.PastCall, layout console.Layout) string {
	what := cmp.Or(call.Tool, call.Method)
	if call.Tool != "" && call.Method != protocol.MethodToolsCall {
		what += ", " + call.Method
	}
	if call.Extension != "" {
		what += ", of " + call.Extension
	}
	if call.Node != "" {
		what += ", at node " + call.Node
	}
	who := cmp.Or(call.Caller, "anonymous")
	for _, part := range []struct{ word, value string }{
		{"session", call.Session},
		{"client", call.Client},
		{"MCP", call.Protocol},
	} {
		if part.value != "" {
			who += ", " + part.word + " " + part.value
		}
	}
	outcome := string(call.Outcome)
	if call.Message != "" {
		outcome += ": " + call.Message
	}
	if call.Replayed {
		outcome += "; sent twice, since the first process ended"
	}
	var lines []string
	for _, row := range [][2]string{
		{"call", fmt.Sprintf("%d, ended %s, took %s", call.ID, console.Stamp(call.Time),
			console.Span(time.Duration(call.Took)))},
		{"what", what}, {"caller", who}, {"outcome", outcome}, {"decision", call.Decision}, {"trace", call.Trace},
		{"next", afterCall(call)},
	} {
		if row[1] != "" {
			lines = append(lines, console.Wrap(console.Safe(fmt.Sprintf("%-9s %s", row[0], row[1])), layout.Width)...)
		}
	}
	return strings.Join(append(append(lines, ""), timeline(call, layout)...), "\n")
}

// afterCall returns the most helpful command after a call; "" if nothing has to be done.
func afterCall(call *status.PastCall) string {
	e := protocol.Error{Kind: protocol.Kind(call.Outcome), Extension: call.Extension, Tool: call.Tool}
	slowest, _ := call.Slowest()
	decided := slowest == status.StageRequestPolicies || slowest == status.StageResponsePolicies
	switch {
	case call.Decision != "" && (call.Outcome.IsDenial() || call.Outcome == status.OutcomeOK && decided):
		return "exthost calls " + call.Decision
	case call.Outcome == status.OutcomeOK:
		return ""
	case call.Outcome != status.OutcomeToolError && console.NextCommand(&e) != "":
		return console.NextCommand(&e)
	case call.Extension != "":
		return "exthost logs " + call.Extension
	}
	return ""
}

// bar is the length of the bar for the whole time of a call, in characters.
const bar = 24

// timeline returns a table of the stages of a call; the last row is the time outside of all stages.
func timeline(call *status.PastCall, layout console.Layout) []string {
	rows, rest := [][]string{{"STAGE", "AT", "TOOK", "TIME"}}, call.Took
	at := func(d protocol.Duration) int { return min(int(int64(d)*bar/max(int64(call.Took), 1)), bar) }
	for _, s := range call.Stages {
		from := min(at(s.At), bar-1)
		long := max(at(s.At+s.Took)-from, 1)
		rest -= s.Took
		rows = append(rows, []string{
			stageText(s.Name),
			console.Span(time.Duration(s.At)),
			console.Span(time.Duration(s.Took)),
			strings.Repeat("·", from) + strings.Repeat("█", long) + strings.Repeat("·", bar-from-long),
		})
	}
	return layout.Grid(append(rows, []string{"host itself", "", console.Span(time.Duration(max(rest, 0)))}))
}
