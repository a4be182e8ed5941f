package operate

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/status"
)

// mostDenials is how many rows of denials a status has.
const mostDenials = 10

// denialLines returns a table of who was denied calls lately, by what, and which command shows why.
func denialLines(denials []status.Denials, now time.Time, layout console.Layout) []string {
	if len(denials) == 0 {
		return nil
	}
	rows := []statusRow{{cells: []string{"DENIED", "CALLER", "TOOL", "BY", "AGO"}}}
	if layout.Width == 0 {
		rows[0].notes = []string{"NEXT"} // title of the column
	}
	for _, d := range denials[:min(len(denials), mostDenials)] {
		next := "exthost calls --failed"
		if d.Decision != "" {
			next = "exthost calls " + d.Decision
		}
		rows = append(rows, statusRow{
			cells: []string{
				strconv.Itoa(d.Count),
				cmp.Or(d.Caller, "anonymous"),
				d.Tool,
				deniedBy(d),
				console.Span(now.Sub(d.Last).Truncate(time.Second)),
			},
			notes: []string{next},
		})
	}
	layout.Fold, layout.Drop = false, []string{"AGO", "TOOL"}
	lines := layOut(rows, layout)
	if more := len(denials) - mostDenials; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more, which -o json shows", more))
	}
	return lines
}

// deniedBy names what denied a call: a policy or hook with its code, or the kind of the error.
func deniedBy(d status.Denials) string {
	if d.Policy == "" {
		return d.Code
	}
	return d.Policy + ": " + d.Code
}
