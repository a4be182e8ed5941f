package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost"
)

func (a *app) approveCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "approve [ID]",
		Short: "Let a call be made that waits for an approval; without an id list those that wait",
		Long: "Approve one call of the running exthost, once: at once if its caller still waits, else when\n" +
			"the same caller makes the same call again before the question expires. Without an id, list\n" +
			"the questions.",
		Example: "  exthost approve\n  exthost approve k3x9p2qa",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return one("the id of a question")(c, args)
		},
		ValidArgsFunction: a.completeQuestion,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.questions(cmd.Context())
			}
			return a.answer(cmd.Context(), args[0], "approve", "")
		},
	}
}

func (a *app) denyCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "deny ID [REASON ...]",
		Short:   "Refuse a call that waits for an approval",
		Long:    "Refuse one call of the running exthost that waits for an approval. Its caller is told the\nreason.",
		Example: "  exthost deny k3x9p2qa not on a Friday",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("exthost approve", "exthost deny needs the id of a question")
			}
			return nil
		},
		ValidArgsFunction: a.completeQuestion,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.answer(cmd.Context(), args[0], "deny", strings.Join(args[1:], " "))
		},
	}
}

func (r *running) questions(ctx context.Context) ([]exthost.Question, error) {
	var list struct{ Approvals []exthost.Question }
	return list.Approvals, r.get(ctx, "/api/v1/approvals", &list)
}

func (a *app) questions(ctx context.Context) error {
	r, err := a.running(ctx)
	if err != nil {
		return err
	}
	list, err := r.questions(ctx)
	if err != nil {
		return err
	}
	names := []string{}
	var lines []string
	for _, q := range list {
		names = append(names, q.ID)
		lines = append(lines, questionLines(q, time.Now())...)
	}
	if len(lines) == 0 {
		lines = []string{"no call waits for an approval"}
	}
	return a.print(document{Kind: "approvals", Value: list, Names: names, Text: strings.Join(lines, "\n")})
}

// questionLines are a question for the person who answers it.
func questionLines(q exthost.Question, now time.Time) []string {
	what := q.Tool
	if what == "" {
		what = q.Method
	}
	state := "its caller waits"
	switch {
	case q.Approved != "":
		state = "approved by " + q.Approved + ", for when it is made again"
	case !q.Waiting:
		state = "its caller has gone, and may come again"
	}
	lines := []string{
		fmt.Sprintf("%s  %s, caller %q, policy %s: %s", q.ID, what, q.Caller, q.Policy, q.Reason),
		"  " + q.Arguments,
		fmt.Sprintf("  asked %s ago, %s to answer; %s", span(now.Sub(q.Since).Truncate(time.Second)), span(max(0, q.Expires.Sub(now)).Truncate(time.Second)), state),
	}
	for i := range lines {
		lines[i] = safe(lines[i])
	}
	return lines
}

func (a *app) answer(ctx context.Context, id, verb, reason string) error {
	r, err := a.running(ctx)
	if err != nil {
		return err
	}
	body, _ := json.Marshal(map[string]string{"reason": reason}) // strings always encode
	if err := r.do(ctx, http.MethodPost, "/api/v1/approvals/"+url.PathEscape(id)+"/"+verb, body, nil); err != nil {
		return absent(err, "exthost approve")
	}
	done := map[string]string{"approve": "approved", "deny": "denied"}[verb]
	_, err = fmt.Fprintf(a.err, "%s %s\n", done, safe(id))
	return err
}

// completeQuestion offers the questions that wait.
func (a *app) completeQuestion(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	r, err := a.running(cmd.Context())
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	list, _ := r.questions(cmd.Context()) // nothing to offer then
	var ids []string
	for _, q := range list {
		ids = append(ids, cobra.CompletionWithDesc(q.ID, safe(q.Tool+" "+q.Caller)))
	}
	return ids, cobra.ShellCompDirectiveNoFileComp
}
