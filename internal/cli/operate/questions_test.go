package operate

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/status"
)

// A call that waits for its caller shows the request, since when it waits, and for whom.
func TestCallsThatWaitForTheirCallers(t *testing.T) {
	now := time.Date(2020, 1, 31, 12, 0, 0, 0, time.Local)
	all := []status.Question{
		{
			Method:    "elicitation/create",
			Since:     now.Add(-90 * time.Second),
			Extension: "x",
			Tool:      "ext_x_ask",
			Caller:    "ada",
			Node:      "web",
			Client:    "code 2",
		},
		{Method: "\x1b[2J", Since: now, Extension: "x"},
	}
	got := strings.Join(questionLines(all, console.Layout{}), "\n")
	const want = `WAITS FOR|SINCE|CALLER|TOOL|CLIENT
elicitation/create|2020-01-31 11:58:30.000|ada of node web|ext_x_ask|code 2
\u001b[2J|2020-01-31 12:00:00.000|anonymous|x|-`
	if got = regexp.MustCompile(` {2,}`).ReplaceAllString(got, "|"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	row := []string{
		"-",
		"2020-01-31 11:58:30.000",
		"ada of node web",
		"ext_x_ask",
		"waits for elicitation/create",
		"1m30s",
		"-",
	}
	if d := cmp.Diff(row, openCallRow(&all[0], now)); d != "" {
		t.Error(d)
	}
	if lines := questionLines(nil, console.Layout{}); lines != nil {
		t.Errorf("without questions: %q", lines)
	}
	lines := questionLines(make([]status.Question, mostQuestions+5), console.Layout{})
	if len(lines) != 1+mostQuestions+1 || !strings.Contains(lines[len(lines)-1], "5 more") {
		t.Errorf("%d lines, the last %q", len(lines), lines[len(lines)-1])
	}
}
