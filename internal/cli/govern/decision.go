package govern

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/cli/console"
)

// ignored reports whether a policy would have acted, but its decision did not count.
func ignored(s governance.Step) bool { return s.Ignored && s.Action != governance.Allow }

// past is the effect of an action on a call.
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

// verdict is the end of an exchange, and the reason.
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
func traceText(t exthost.Trace, width int) string {
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
	lines = append(lines, fmt.Sprintf("took      %s, %s", console.Span(t.Took), sent), "")
	for i := range lines {
		lines[i] = console.Safe(lines[i])
	}
	if len(t.Steps) == 0 {
		return strings.Join(append(lines, "no policy was asked"), "\n")
	}
	rows := [][]string{{"FLOW", "CATEGORY", "POLICY", "DECISION", "TOOK", "WHY"}}
	for _, s := range t.Steps {
		rows = append(rows, []string{string(s.Flow), string(s.Category), s.Policy, decision(s), console.Span(s.Latency), stepReason(s)})
	}
	return strings.Join(append(lines, console.Grid(rows, width, true)...), "\n")
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
