package hosts

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/cli/console"
)

// PolicyRows are a table with a row for each policy.
func PolicyRows(policies []exthost.PolicyStatus) [][]string {
	rows := [][]string{{"POLICY", "CATEGORY", "IS", "MODE", "STATE", "ASKED", "DENIED", "ERRORS", "P50", "P95", "NOTE"}}
	for _, p := range policies {
		var asked, denied, failed, shadow int64
		p50, p95 := "-", "-"
		for _, c := range p.Calls {
			asked += c.Continue + c.Rejected + c.Errors
			denied, failed, shadow = denied+c.Rejected, failed+c.Errors, shadow+c.Shadow
			if c.Latency != nil && p50 == "-" { // the request flow comes first
				p50, p95 = console.Span(c.Latency.P50), console.Span(c.Latency.P95)
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
