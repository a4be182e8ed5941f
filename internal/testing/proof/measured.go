package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
)

var storms = page{
	name:  "storms",
	title: "Storms",
	about: "Tests at their full size, against the clock: processes that are killed, reloads under load, hostile " +
		"neighbours, many extensions. They are those of [.ci/run](../../.ci/run), and four that take too long for " +
		"each change, one package after the other; `printed` is what each counts itself. What is beyond its bound is " +
		"measured again when the machine is quiet, at most four times. `EXTHOST_STORM_SEED` repeats one.",
	write: func(r *report) error {
		script, err := os.ReadFile(".ci/run")
		if err != nil {
			return err
		}
		lines := stormLine.FindAllStringSubmatch(string(script), -1)
		if len(lines) == 0 {
			return errors.New(".ci/run has no storms")
		}
		r.text.WriteByte('\n')
		r.table("storm", "verdict", "printed")
		for _, m := range append(lines, longStorms...) {
			args := append([]string{"-timeout", "20m", "-p", "1"}, words(m[1])...)
			s, err := run([]string{"EXTHOST_STORM=1"}, args...)
			if err != nil {
				return err
			}
			for _, t := range s.tops() {
				name := "`" + t.name + "`"
				if strings.HasPrefix(m[1], "-race") {
					name += ", with the race detector"
				}
				verdict := r.verdict(t.name, t.verdict)
				if n := repetitions(t.printed); n > 0 {
					verdict += fmt.Sprintf(", measured again: %d", n)
				}
				r.row(name, verdict, strings.Join(t.printed, "; "))
			}
		}
		return nil
	},
}

// repetitions counts how often a storm has measured again, because something was beyond its bound.
func repetitions(printed []string) (n int) {
	for _, line := range printed {
		if strings.HasSuffix(line, " for the machine to be quiet") {
			n++
		}
	}
	return n
}

// longStorms are lines like those of .ci/run.
var longStorms = [][]string{
	{"", "-run '^Test(ChaosKeepsNothing|ManySleep|RetriedTogether)' ./test/storm"},
	{"", "-run '^TestThousandNodes' ./cluster/internal/directory"},
}

// stormLine matches a line of .ci/run that runs storms.
var stormLine = regexp.MustCompile(`(?m)^\s*(?:beside (?:low )?)?storm (-.*)$`)

// words splits a line as a shell does that knows single quotes alone.
func words(line string) (list []string) {
	for _, m := range regexp.MustCompile(`'([^']*)'|(\S+)`).FindAllStringSubmatch(line, -1) {
		list = append(list, m[1]+m[2])
	}
	return list
}

var benchmarks = page{
	name:  "benchmarks",
	title: "Benchmarks",
	about: "What a call costs, beside other means. [Performance](../performance.md#how-it-is-measured) says how it " +
		"is measured.",
	write: func(r *report) error {
		cmd := exec.Command("go", "test", "-run", "^$", "-bench", ".", "-benchtime", "1x", "-timeout", "30m")
		cmd.Dir, cmd.Stderr = "bench", os.Stderr
		out, err := cmd.Output()
		if err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		var before string
		for line := range strings.Lines(string(out)) {
			if strings.HasPrefix(line, "| ") && !strings.HasPrefix(before, "|") {
				r.text.WriteByte('\n') // another table
			}
			if strings.HasPrefix(line, "|") {
				r.text.WriteString(line)
			}
			before = line
		}
		return nil
	},
}
