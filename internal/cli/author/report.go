package author

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/exthost/exthost/internal/check"
	"github.com/exthost/exthost/internal/cli/console"
)

// reportForms are the forms of the report in addition to those of -o.
var reportForms = map[string]func(io.Writer, []check.Result) error{"tap": check.TAP, "junit": check.JUnit}

func printResults(c *console.Console, results []check.Result, form string) error {
	if write := reportForms[form]; write != nil {
		var b bytes.Buffer
		if err := write(&b, results); err != nil {
			return err
		}
		_, err := io.WriteString(c.Out, console.SafeText(b.String()))
		return err
	}
	return c.Print(console.Document{Kind: "checks", Value: console.OrEmpty(results), Rows: resultRows(results), Wrap: true})
}

// resultRows are the report for a person: a row for each probe, then a summary.
func resultRows(results []check.Result) (rows [][]string) {
	last, summary := "", []string{summaryOf(results)}
	for len(results) > 0 {
		r, n := results[0], sameLine(results)
		results = results[n:]
		if r.Extension != last {
			last = r.Extension
			rows = append(rows, []string{"", r.Extension, ""})
		}
		if n > 1 {
			rows = append(rows, []string{string(r.Outcome), fmt.Sprintf("%d others", n), r.Detail})
			continue
		}
		lines := strings.Split(r.Detail, "\n")
		about := r.About
		if r.Outcome == check.Pass && r.Detail != "" {
			about += " (" + lines[0] + ")"
			lines = nil
		}
		rows = append(rows, []string{string(r.Outcome), r.Probe, about})
		for _, line := range lines {
			if line != "" {
				rows = append(rows, []string{"", "", "→ " + line})
			}
		}
	}
	return append(rows, summary)
}

// summaryOf counts results by their outcome.
func summaryOf(results []check.Result) string {
	counts := make(map[check.Outcome]int)
	var took time.Duration
	for _, r := range results {
		counts[r.Outcome]++
		took += r.Took
	}
	summary := fmt.Sprintf("%d passed, %d failed", counts[check.Pass]+counts[check.Hint], counts[check.Fail])
	for _, o := range []struct {
		check.Outcome
		words string
	}{{check.Hint, "with a hint"}, {check.Known, "known to fail"}, {check.Skip, "skipped"}} {
		if n := counts[o.Outcome]; n > 0 {
			summary += fmt.Sprintf(", %d %s", n, o.words)
		}
	}
	return summary + ", in " + took.Round(time.Millisecond).String()
}

// sameLine is the number of results at the beginning that share one line. Probes that
// were skipped for the same reason do, if they are many: they would hide the failure
// behind it.
func sameLine(results []check.Result) (n int) {
	for n < len(results) && results[n].Outcome == check.Skip && results[n].Detail == results[0].Detail && results[n].Extension == results[0].Extension {
		n++
	}
	if n < 4 {
		return 1
	}
	return n
}
