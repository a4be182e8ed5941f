package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/httpserver"
	"github.com/exthost/exthost/tools"
)

func (a *app) policyCommand() *cobra.Command {
	return a.group("policy", "Look at the policies, explain what they decided, try a call",
		a.policyListCommand(), a.policyExplainCommand(), a.policyTestCommand(), a.policyPinsCommand())
}

func (a *app) policyListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the policies in the order they are asked, with what they decided",
		Long: "List the policies in the order they are asked. Where an exthost runs for this directory\n" +
			"with what they have decided; of one in shadow mode how often it would have acted.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			policies, err := a.policies(cmd.Context())
			if err != nil {
				return err
			}
			names := []string{}
			for _, p := range policies {
				names = append(names, p.Name)
			}
			return a.print(document{Kind: "policies", Value: orEmpty(policies), Names: names, Rows: policyRows(policies)})
		},
	}
}

// policies are those of the running host, else those of the configuration.
func (a *app) policies(ctx context.Context) ([]exthost.PolicyStatus, error) {
	cfg, _, err := a.load()
	if err != nil {
		return nil, err
	}
	if r := a.runningWith(ctx, cfg); r != nil {
		s, err := r.status(ctx)
		return s.Policies, err
	}
	h, err := a.openWith(ctx, cfg, exthost.Options{Start: none, Inspect: true})
	if err != nil {
		return nil, err
	}
	defer h.Close()
	return h.Status().Policies, nil
}

// policyRows are a line for each policy.
func policyRows(policies []exthost.PolicyStatus) [][]string {
	rows := [][]string{{"POLICY", "CATEGORY", "IS", "MODE", "STATE", "ASKED", "DENIED", "ERRORS", "P50", "P95", "NOTE"}}
	for _, p := range policies {
		var asked, denied, failed, shadow int64
		p50, p95 := "-", "-"
		for _, c := range p.Calls {
			asked += c.Continue + c.Rejected + c.Errors
			denied, failed, shadow = denied+c.Rejected, failed+c.Errors, shadow+c.Shadow
			if c.Latency != nil && p50 == "-" { // the request flow comes first
				p50, p95 = span(c.Latency.P50), span(c.Latency.P95)
			}
		}
		is := cmp.Or(p.Builtin, string(p.Kind))
		rows = append(rows, []string{p.Name, string(p.Category), is, string(p.Mode), p.State, strconv.FormatInt(asked, 10),
			strconv.FormatInt(denied, 10), strconv.FormatInt(failed, 10), p50, p95, strings.Join(policyNotes(p, shadow), "; ")})
	}
	return rows
}

func policyNotes(p exthost.PolicyStatus, shadow int64) (notes []string) {
	if p.Reason != "" {
		notes = append(notes, p.Reason)
	}
	if p.Mode == governance.ModeShadow {
		notes = append(notes, fmt.Sprintf("would have acted %d times", shadow))
	}
	if !p.Required {
		notes = append(notes, "optional")
	}
	if len(p.Flows) == 1 {
		notes = append(notes, string(p.Flows[0])+" only")
	}
	return notes
}

func (a *app) policyExplainCommand() *cobra.Command {
	var shadow bool
	var last int
	cmd := &cobra.Command{
		Use:   "explain [ID]",
		Short: "Explain a decision by its id; without one list the latest",
		Long: "Show which policy decided what about one exchange, in which order, how long each took and\n" +
			"why. The id is in every denial. Without one, list the latest decisions; --shadow lists those\n" +
			"in which a policy in shadow mode would have acted.",
		Example: "  exthost policy explain\n  exthost policy explain --shadow -n 50\n  exthost policy explain 0a1b2c3d4e5f6",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return one("the id of a decision")(c, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return a.explain(cmd.Context(), args[0])
			}
			return a.listDecisions(cmd.Context(), last, shadow)
		},
	}
	cmd.Flags().BoolVar(&shadow, "shadow", false, "only those in which a policy in shadow mode would have acted")
	cmd.Flags().IntVarP(&last, "last", "n", 20, "look at the last `N` decisions")
	return cmd
}

func (a *app) explain(ctx context.Context, id string) error {
	r, err := a.running(ctx)
	if err != nil {
		return err
	}
	var t exthost.Trace
	if err := r.get(ctx, "/api/v1/decisions/"+url.PathEscape(id), &t); err != nil {
		return a.explainFromAudit(ctx, id, err)
	}
	return a.print(document{Kind: "decision", Value: t, Names: []string{t.ID}, Text: a.traceText(t)})
}

func (a *app) listDecisions(ctx context.Context, last int, shadow bool) error {
	r, err := a.running(ctx)
	if err != nil {
		return err
	}
	var list struct{ Decisions []exthost.Trace }
	if err := r.get(ctx, "/api/v1/decisions?last="+strconv.Itoa(max(last, 0)), &list); err != nil {
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
		rows = append(rows, []string{t.ID, t.Time.Local().Format(stampOf(t.Time)), t.Caller, cmp.Or(t.Tool, t.Method), result, why})
	}
	return a.print(document{Kind: "decisions", Value: orEmpty(list.Decisions), Names: names, Rows: rows})
}

// ignored reports whether a policy would have acted, but its word did not count.
func ignored(s governance.Step) bool { return s.Ignored && s.Action != governance.Allow }

// past is what an action makes of a call.
func past(a governance.Action) string {
	switch a {
	case governance.Deny:
		return "denied"
	case governance.Modify:
		return "changed"
	case governance.Respond:
		return "answered"
	case governance.Ask:
		return "asked about"
	}
	return "let pass"
}

// verdict is how an exchange ended, and why.
func verdict(t exthost.Trace) (result, why string) {
	last := governance.Step{}
	if n := len(t.Steps); n > 0 {
		last = t.Steps[n-1]
	}
	for _, s := range t.Steps {
		if s.Policy == t.Verdict.Policy {
			last = s
		}
	}
	switch {
	case t.Verdict.Action == governance.Deny:
		return "denied " + t.Verdict.Code, t.Verdict.Policy + ": " + last.Reason
	case t.Verdict.Action == governance.Ask:
		return "approved", "by " + t.Verdict.By
	case t.Verdict.Action == governance.Respond:
		return "answered", "by policy " + t.Verdict.Policy
	case t.Failure != "":
		return "failed " + t.Failure, ""
	}
	return "ok", ""
}

// traceText is a decision for a person.
func (a *app) traceText(t exthost.Trace) string {
	result, why := verdict(t)
	lines := []string{
		fmt.Sprintf("decision  %s, %s", t.ID, t.Time.Local().Format(time.RFC3339)),
		"what      " + strings.Join(subject(t), ", "),
		"result    " + strings.TrimSuffix(result+": "+why, ": "),
	}
	sent := "not sent"
	if t.Sent {
		sent = "sent"
	}
	lines = append(lines, fmt.Sprintf("took      %s, %s", span(t.Took), sent), "")
	for i := range lines {
		lines[i] = safe(lines[i])
	}
	if len(t.Steps) == 0 {
		return strings.Join(append(lines, "no policy was asked"), "\n")
	}
	rows := [][]string{{"FLOW", "CATEGORY", "POLICY", "DECISION", "TOOK", "WHY"}}
	for _, s := range t.Steps {
		rows = append(rows, []string{string(s.Flow), string(s.Category), s.Policy, decision(s), span(s.Latency), stepReason(s)})
	}
	return strings.Join(append(lines, grid(rows, width(a.out), true)...), "\n")
}

func subject(t exthost.Trace) []string {
	list := []string{t.Method}
	if t.Tool != "" {
		list = append(list, t.Tool)
	} else if t.Extension != "" {
		list = append(list, "extension "+t.Extension)
	}
	list = append(list, fmt.Sprintf("caller %q", t.Caller))
	if t.Session != "" {
		list = append(list, "session "+t.Session)
	}
	if t.Direction != "to_extension" {
		list = append(list, "asked by the extension")
	}
	return list
}

func decision(s governance.Step) string {
	word := cmp.Or(string(s.Action), "allow")
	switch {
	case s.Outcome == governance.PluginError:
		word = "could not decide"
	case s.Outcome == governance.Dropped:
		word = "not asked"
	case ignored(s):
		word = "would " + word
	}
	if s.Again {
		word += " (again, after a hook)"
	}
	return word
}

func stepReason(s governance.Step) string {
	reason := s.Reason
	if s.Code != "" {
		reason = strings.TrimSuffix(s.Code+": "+reason, ": ")
	}
	if s.By != "" {
		reason = strings.TrimPrefix(reason+"; answered by "+s.By, "; ")
	}
	return reason
}

func (a *app) policyTestCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "test CALL.json",
		Short: "Try what the policies would do about a call, without making it",
		Long: "Hold a call against the policies and show what each decides, without making it. - reads\n" +
			"stdin. The file holds {\"tool\", \"arguments\", \"caller\", \"session\"}, or \"method\" and \"params\"\n" +
			"in place of the first two. Nobody is asked and nothing is recorded, but policies that count\n" +
			"do count it. The exit code is 6 when the call would be denied.",
		Example: "  echo '{\"tool\": \"ext_notes_add\", \"arguments\": {\"text\": \"x\"}, \"caller\": \"ada\"}' | exthost policy test -",
		Args:    one("a file with a call, or - for stdin"),
		RunE: func(cmd *cobra.Command, args []string) error {
			data, err := a.readFile(args[0])
			if err != nil {
				return err
			}
			result, err := a.testCall(cmd.Context(), data)
			if err != nil {
				return err
			}
			if err := a.print(document{Kind: "test", Value: result, Text: a.traceText(result.Trace)}); err != nil || result.Error == nil {
				return err
			}
			return result.Error.Err()
		},
	}
}

// readFile reads a file; - is stdin.
func (a *app) readFile(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(a.in)
	}
	data, err := os.ReadFile(name)
	if os.IsNotExist(err) {
		return nil, &exitError{code: exitNotFound, text: "there is no " + name, hint: "exthost policy test --help"}
	}
	return data, err
}

// testCall has the running host test the call; else one that starts only the
// policies and whose tool it is.
func (a *app) testCall(ctx context.Context, data []byte) (result httpserver.TestResult, err error) {
	c, err := httpserver.ReadTestCall(data)
	if err != nil {
		return result, err
	}
	cfg, _, err := a.load()
	if err != nil {
		return result, err
	}
	if r := a.runningWith(ctx, cfg); r != nil {
		body, _ := json.Marshal(c) // was read as JSON
		return result, r.do(ctx, http.MethodPost, "/api/v1/policies/test", body, &result)
	}
	h, err := a.openWith(ctx, cfg, exthost.Options{Inspect: true, Start: callStart(c.Extension, c.Tool)})
	if err != nil {
		return result, err
	}
	defer h.Close()
	result, err = httpserver.NewTestResult(h.Admin().TestCall(ctx, c.Call()))
	if exitCode(err) == exitNotFound && c.Tool != "" && c.Extension == "" {
		err = unknownTool(h.Status(), c.Tool)
	}
	return result, err
}

// callStart lets those start that a call of the tool needs: the extension that may
// have it, and the policies.
func callStart(extension, tool string) func(id string) bool {
	return func(id string) bool {
		return strings.HasPrefix(id, exthost.PolicyPrefix) || id == extension || tool != "" && tools.MayOwn(id, tool)
	}
}
