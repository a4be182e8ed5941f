// Package govern implements the commands for decisions on calls: policies, approvals, hooks, and the audit log.
package govern

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// Approve returns exthost calls approve, which lists the calls that wait for an approval, or approves one.
func Approve(c *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:         "approve [ID]",
		Short:       "Approve a call that waits; without an id, list the calls that wait",
		Annotations: console.AsksHost,
		Long: "Approve one call of the running host, once. If its caller still waits, the call is made\n" +
			"at once; else when the same caller makes the same call again before the approval expires.\n" +
			"Without an id, list the calls that wait. NODE/ID is a call that waits at another node of the\n" +
			"cluster; that node's cluster.operators has to name this one.",
		Example: "  exthost calls approve\n  exthost calls approve k3x9p2qa\n  " +
			"exthost calls approve gpu1/k3x9p2qa.m4x7qd2a",
		Args:              console.AtMostOne("the id of an approval request"),
		ValidArgsFunction: completeApprovalRequest(c),
		RunE: hosts.OnRunning(func(ctx context.Context, r *hosts.Running, args []string) error {
			if len(args) == 0 {
				return listApprovalRequests(ctx, c, r)
			}
			return answer(ctx, c, r, args[0], "approve", "")
		}),
	}
}

// Deny returns exthost calls deny, which refuses a call that waits for an approval.
func Deny(c *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:         "deny ID [REASON ...]",
		Short:       "Refuse a call that waits for an approval",
		Annotations: console.AsksHost,
		Long: "Refuse a call of the running host that waits for approval. The caller is told the " +
			"reason.\nNODE/ID is a call that waits at another node of the cluster.",
		Example: "  exthost calls deny k3x9p2qa not on a Friday",
		Args: console.AtLeastOne("exthost calls approve",
			"exthost calls deny needs the id of an approval request"),
		ValidArgsFunction: completeApprovalRequest(c),
		RunE: hosts.OnRunning(func(ctx context.Context, r *hosts.Running, args []string) error {
			return answer(ctx, c, r, args[0], "deny", strings.Join(args[1:], " "))
		}),
	}
}

func approvalRequests(ctx context.Context, r *hosts.Running) (all status.Approvals, err error) {
	err = r.Get(ctx, "/api/v1/approvals", &all)
	return all, err
}

func listApprovalRequests(ctx context.Context, c *console.Console, r *hosts.Running) error {
	all, err := approvalRequests(ctx, r)
	if err != nil {
		return err
	}
	for _, s := range all.Silent {
		c.Warn("calls wait at node %s that are not listed: %s", console.Safe(s.Node), console.Safe(s.Reason))
	}
	names := []string{}
	var lines []string
	for _, q := range all.Requests {
		names = append(names, q.ID)
		lines = append(lines, approvalRequestLines(q, time.Now())...)
	}
	switch {
	case len(lines) == 0 && len(all.Silent) > 0:
		lines = []string{"no other call waits for an approval"}
	case len(lines) == 0:
		lines = []string{"no call waits for an approval"}
	}
	return c.Print(console.Document{
		Kind:  "approvals",
		Value: all.Requests,
		Names: names,
		Text:  strings.Join(lines, "\n"),
	})
}

func approvalRequestLines(q exthost.ApprovalRequest, now time.Time) []string {
	state := "its caller waits"
	switch {
	case q.Approved != "":
		state = "approved by " + q.Approved + ", for when it is made again"
	case !q.Waiting:
		state = "its caller has gone, and may come again"
	case q.AskedIn != "":
		state = "asked in " + q.AskedIn + " too"
	}
	lines := []string{
		fmt.Sprintf("%s  %s, %s, %s: %s", q.ID, cmp.Or(q.Tool, q.Method), caller(q.Caller, q.Node), q.By(),
			q.Reason),
		"  " + q.Arguments,
		fmt.Sprintf("  asked %s ago, %s to answer; %s", console.Span(now.Sub(q.Since).Truncate(time.Second)),
			console.Span(max(0, q.Expires.Sub(now)).Truncate(time.Second)), state),
	}
	if q.DeskOnly {
		_, id, _ := strings.Cut(q.ID, "/")
		id, _, _ = strings.Cut(id, ".") // at its own node the id has no suffix
		lines = append(lines, fmt.Sprintf("  to be answered at node %s: exthost calls approve %s; or name this node "+
			"in cluster.operators there", q.Desk, id))
	}
	if lines[1] == "  " { // arguments are shown at that node only
		lines = slices.Delete(lines, 1, 2)
	}
	for i := range lines {
		lines[i] = console.Safe(lines[i])
	}
	return lines
}

// caller describes a caller, by name if it has one.
func caller(name, node string) string {
	text := "anonymous caller"
	if name != "" {
		text = fmt.Sprintf("caller %q", name)
	}
	if node != "" {
		text += " of node " + node
	}
	return text
}

func answer(ctx context.Context, c *console.Console, r *hosts.Running, id, verb, reason string) error {
	body, _ := json.Marshal(map[string]string{"reason": reason}) // strings always encode
	if err := r.Post(ctx, "/api/v1/approvals/"+url.PathEscape(id)+"/"+verb, body, nil); err != nil {
		return absent(err, "exthost calls approve")
	}
	done := map[string]string{"approve": "approved", "deny": "denied"}[verb]
	_, err := fmt.Fprintf(c.Err, "%s %s\n", done, console.Safe(id))
	return err
}

func completeApprovalRequest(c *console.Console) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) (ids []string, _ cobra.ShellCompDirective) {
		r, err := hosts.Find(cmd.Context())
		if err != nil || len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		all, _ := approvalRequests(cmd.Context(), r) // without an answer there are no completions
		for _, q := range all.Requests {
			ids = append(ids, cobra.CompletionWithDesc(q.ID, console.Safe(q.Tool+" "+q.Caller)))
		}
		return ids, cobra.ShellCompDirectiveNoFileComp
	}
}

// absent adds hint, the command that lists what exists, to the error for an unknown approval request or decision.
func absent(err error, hint string) error {
	if e, ok := errors.AsType[*protocol.Error](err); ok && e.Kind == protocol.ToolNotFound {
		return &console.Error{Code: console.ExitNotFound, Text: e.Message, Hint: hint}
	}
	return err
}
