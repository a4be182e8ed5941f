package check

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"
)

// TAP writes results in the Test Anything Protocol, version 14.
func TAP(w io.Writer, results []Result) error {
	var b strings.Builder
	fmt.Fprintf(&b, "TAP version 14\n1..%d\n", len(results))
	for i, r := range results {
		status := "ok"
		if r.Outcome == Fail || r.Outcome == Known {
			status = "not ok"
		}
		fmt.Fprintf(&b, "%s %d - %s: %s: %s", status, i+1, r.Extension, r.Probe, strings.ReplaceAll(r.About, "#", `\#`))
		first, rest, _ := strings.Cut(r.Detail, "\n")
		switch r.Outcome {
		case Skip:
			fmt.Fprintf(&b, " # SKIP %s\n", first)
			continue
		case Known:
			fmt.Fprintf(&b, " # TODO %s\n", first)
		default:
			rest = r.Detail
			b.WriteByte('\n')
		}
		if rest != "" {
			b.WriteString("  ---\n  severity: " + string(r.Outcome) + "\n  message: |\n")
			for line := range strings.SplitSeq(rest, "\n") {
				b.WriteString("    " + line + "\n")
			}
			b.WriteString("  ...\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// The elements of a JUnit report.
type (
	junitSuites struct {
		XMLName xml.Name     `xml:"testsuites"`
		Suites  []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Skipped  int         `xml:"skipped,attr"`
		Time     string      `xml:"time,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Class   string        `xml:"classname,attr"`
		Name    string        `xml:"name,attr"`
		Time    string        `xml:"time,attr"`
		Failure *junitMessage `xml:"failure"`
		Skipped *junitMessage `xml:"skipped"`
		Out     string        `xml:"system-out,omitempty"`
	}
	junitMessage struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

// JUnit writes results as JUnit XML, one suite per extension. Known failures count as
// skipped.
func JUnit(w io.Writer, results []Result) error {
	var all junitSuites
	for _, r := range results {
		if n := len(all.Suites); n == 0 || all.Suites[n-1].Name != r.Extension {
			all.Suites = append(all.Suites, junitSuite{Name: r.Extension})
		}
		all.Suites[len(all.Suites)-1].add(r)
	}
	for i := range all.Suites {
		var total float64
		for _, r := range results {
			if r.Extension == all.Suites[i].Name {
				total += time.Duration(r.Took).Seconds()
			}
		}
		all.Suites[i].Time = fmt.Sprintf("%.3f", total)
	}
	data, err := xml.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s%s\n", xml.Header, data)
	return err
}

func (s *junitSuite) add(r Result) {
	c := junitCase{
		Class: r.Extension,
		Name:  r.Probe + ": " + r.About,
		Time:  fmt.Sprintf("%.3f", time.Duration(r.Took).Seconds()),
	}
	first, _, _ := strings.Cut(r.Detail, "\n")
	s.Tests++
	switch r.Outcome {
	case Fail:
		s.Failures++
		c.Failure = &junitMessage{first, r.Detail}
	case Skip, Known:
		s.Skipped++
		c.Skipped = &junitMessage{first, r.Detail}
	default:
		c.Out = r.Detail
	}
	s.Cases = append(s.Cases, c)
}
