package govern

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/audit"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
)

// Decisions shows what policies decided about exchanges.
type Decisions struct{}

// One shows the decision with an id, from the running host or else from the audit log.
func (Decisions) One(ctx context.Context, c *console.Console, id string) error {
	var t exthost.Trace
	r, err := hosts.Find(ctx)
	if err == nil {
		err = r.Get(ctx, "/api/v1/decisions/"+url.PathEscape(id), &t)
	}
	if err != nil {
		return explainFromAudit(ctx, c, id, absent(err, "exthost calls --decisions"))
	}
	r.WarnBroken(c)
	return c.Print(console.Document{
		Kind:  "decision",
		Value: t,
		Names: []string{t.ID},
		Text:  traceText(t, c.Layout(true, traceDrop...)),
	})
}

// List lists the latest decisions of the running host. With shadow it lists those in which a policy in shadow mode
// would have acted.
func (Decisions) List(ctx context.Context, c *console.Console, last int, shadow bool) error {
	r, err := hosts.Find(ctx)
	if err != nil {
		return err
	}
	var list struct{ Decisions []exthost.Trace }
	if err := r.Get(ctx, "/api/v1/decisions?last="+strconv.Itoa(max(last, 0)), &list); err != nil {
		return err
	}
	r.WarnBroken(c)
	if shadow {
		list.Decisions = slices.DeleteFunc(list.Decisions,
			func(t exthost.Trace) bool { return !slices.ContainsFunc(t.Steps, ignored) })
	}
	switch {
	case len(list.Decisions) > 0:
	case shadow:
		c.Info("no policy in shadow mode would have acted in one of the last %d decisions", max(last, 0))
	default:
		c.Info("no policy has decided about a call yet")
	}
	names, rows := []string{}, [][]string{{"ID", "TIME", "CALLER", "WHAT", "RESULT", "WHY"}}
	for _, t := range list.Decisions {
		names = append(names, t.ID)
		result, why := verdict(t)
		if i := slices.IndexFunc(t.Steps, ignored); i >= 0 && shadow {
			step := t.Steps[i]
			result, why = "would be "+cmp.Or(effects[step.Action], "let pass"), step.Policy+": "+step.Reason
		}
		rows = append(rows, []string{t.ID, console.Stamp(t.Time), t.Caller, cmp.Or(t.Tool, t.Method), result, why})
	}
	return c.Print(console.Document{
		Kind:  "decisions",
		Value: console.OrEmpty(list.Decisions),
		Names: names,
		Rows:  rows,
		Drop:  []string{"TIME", "CALLER"},
	})
}

// ignored reports whether a policy decided to stop or change the call, but its decision was not applied.
func ignored(s governance.Step) bool { return s.Ignored && s.Action != governance.Allow }

// effects names the effect of an action on a call. An action that is not listed lets the call pass.
var effects = map[governance.Action]string{
	governance.Deny:    "denied",
	governance.Modify:  "changed",
	governance.Respond: "answered",
	governance.Ask:     "asked about",
}

// verdict returns the result of an exchange and its reason.
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

// traceDrop are the columns that a narrow terminal leaves out of a decision.
var traceDrop = []string{"CATEGORY", "TOOK"}

func traceText(t exthost.Trace, layout console.Layout) string {
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
	lines = append(lines, fmt.Sprintf("took      %s, %s", console.Span(time.Duration(t.Took)), sent), "")
	for i := range lines {
		lines[i] = console.Safe(lines[i])
	}
	lines[2] = layout.Colour(verdictColour(t), lines[2])
	if len(t.Steps) == 0 {
		return strings.Join(append(lines, "no policy was asked"), "\n")
	}
	rows := [][]string{{"FLOW", "CATEGORY", "POLICY", "DECISION", "TOOK", "WHY"}}
	for _, s := range t.Steps {
		rows = append(rows, []string{
			string(s.Flow),
			string(s.Category),
			s.Policy,
			decision(s),
			console.Span(time.Duration(s.Latency)),
			stepReason(s),
		})
	}
	return strings.Join(append(lines, layout.Grid(rows)...), "\n")
}

func verdictColour(t exthost.Trace) console.Colour {
	switch {
	case t.Verdict.Action == governance.Deny:
		return console.Red
	case t.Failure != "":
		return console.Yellow
	}
	return console.Green
}

func subject(t exthost.Trace) []string {
	list := []string{t.Method}
	if t.Tool != "" {
		list = append(list, t.Tool)
	} else if t.Extension != "" {
		list = append(list, "extension "+t.Extension)
	}
	list = append(list, caller(t.Caller, t.Node))
	if t.Session != "" {
		list = append(list, "session "+t.Session)
	}
	if t.Origin != "" {
		list = append(list, "decision "+t.Origin+" there")
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
		word += " (again, after a change)"
	}
	return word
}

func stepReason(s governance.Step) string {
	reason := s.Reason
	if s.Code != "" {
		reason = strings.TrimSuffix(s.Code+": "+reason, ": ")
	}
	if s.By != "" {
		reason = strings.TrimPrefix(reason+"; answered by "+
			governance.Answer{By: s.By, Where: s.Where, After: time.Duration(s.After)}.String(), "; ")
	}
	return reason
}

// explainFromAudit prints the audit record of a decision that no running host remembers. If the log does not have it
// either, it returns notKept.
func explainFromAudit(ctx context.Context, c *console.Console, id string, notKept error) error {
	if paths, err := auditPaths(ctx, c, false); err == nil && console.ExitCode(notKept) == console.ExitNotFound {
		for r, err := range readAudits(ctx, paths, audit.Query{ID: id}) {
			if err == nil {
				return c.Print(console.Document{
					Kind:  "record",
					Value: r,
					Names: []string{r.ID},
					Text:  "no host remembers it; the audit log says:\n" + auditLine(c, &r),
				})
			}
		}
	}
	return notKept
}
