package main

import (
	"fmt"
	"slices"
	"strings"
)

// report is the text of a page, and the tests on it that did not pass.
type report struct {
	text  strings.Builder
	other []string
}

func (r *report) heading(text, about string) { fmt.Fprintf(&r.text, "\n## %s\n\n%s\n\n", text, about) }

// table begins a table.
func (r *report) table(columns ...string) {
	r.row(columns...)
	r.row(slices.Repeat([]string{"---"}, len(columns))...)
}

func (r *report) row(cells ...string) {
	for i := range cells {
		cells[i] = strings.ReplaceAll(cells[i], "|", `\|`)
	}
	fmt.Fprintf(&r.text, "| %s |\n", strings.Join(cells, " | "))
}

// verdict notes a verdict, and returns how it stands in a table.
func (r *report) verdict(name, verdict string) string {
	switch verdict {
	case "passed":
		return "passed"
	case "":
		verdict = "did not run"
	}
	r.other = append(r.other, name+" "+verdict)
	return "**" + verdict + "**"
}

// verdicts is the cell of several tests: "passed", or each that did not.
func (r *report) verdicts(s suite, names []string) string {
	var other []string
	for _, name := range names {
		if v := r.verdict(name, s.verdict(name)); v != "passed" {
			other = append(other, fmt.Sprintf("%s %s", name, v))
		}
	}
	if other == nil {
		return "passed"
	}
	return strings.Join(other, ", ")
}

// tests is a table of tests, with what they have printed.
func (r *report) tests(what string, prefix string, list suite) {
	r.table(what, "verdict", "printed")
	for _, t := range list {
		r.row("`"+strings.TrimPrefix(t.name, prefix)+"`", r.verdict(t.name, t.verdict), strings.Join(t.printed, "; "))
	}
}
