package operate

import (
	"cmp"
	"fmt"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/status"
)

// mostQuestions is how many questions a status lists.
const mostQuestions = 10

// questionLines returns a table of the calls in flight that wait for an answer of their callers.
func questionLines(questions []status.Question, layout console.Layout) []string {
	if len(questions) == 0 {
		return nil
	}
	rows := [][]string{{"WAITS FOR", "SINCE", "CALLER", "TOOL", "CLIENT"}}
	for _, q := range questions[:min(len(questions), mostQuestions)] {
		rows = append(rows, []string{
			q.Method,
			console.Stamp(q.Since),
			askedCaller(&q),
			cmp.Or(q.Tool, q.Extension, "-"),
			cmp.Or(q.Client, "-"),
		})
	}
	lines := layout.Grid(rows)
	if more := len(questions) - mostQuestions; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more, which -o json shows", more))
	}
	return lines
}

// askedCaller describes who is asked.
func askedCaller(q *status.Question) string {
	who := cmp.Or(q.Caller, "anonymous")
	if q.Node != "" {
		who += " of node " + q.Node
	}
	return who
}
