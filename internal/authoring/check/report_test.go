package check_test

import (
	"encoding/xml"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/internal/authoring/check"
	"github.com/exthost/exthost/protocol"
)

var sample = []check.Result{
	{
		Extension: "a",
		Probe:     "ping",
		About:     "ping is answered",
		Outcome:   check.Pass,
		Took:      protocol.Duration(1500 * time.Millisecond),
	},
	{Extension: "a", Probe: "ids", About: "ids come back", Outcome: check.Fail, Detail: "no\nnever <&>"},
	{Extension: "a", Probe: "stdout", About: "it is clean", Outcome: check.Known, Detail: "later\nnoise"},
	{Extension: "b", Probe: "calls", About: "calls # 1", Outcome: check.Skip, Detail: "no check.json"},
	{Extension: "b", Probe: "names", About: "names are taken", Outcome: check.Hint, Detail: "shorter"},
}

func TestTAP(t *testing.T) {
	var b strings.Builder
	if err := check.TAP(&b, sample); err != nil {
		t.Fatal(err)
	}
	want := `TAP version 14
1..5
ok 1 - a: ping: ping is answered
not ok 2 - a: ids: ids come back
  ---
  severity: fail
  message: |
    no
    never <&>
  ...
not ok 3 - a: stdout: it is clean # TODO later
  ---
  severity: known
  message: |
    noise
  ...
ok 4 - b: calls: calls \# 1 # SKIP no check.json
ok 5 - b: names: names are taken
  ---
  severity: hint
  message: |
    shorter
  ...
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Error(diff)
	}
}

func TestJUnit(t *testing.T) {
	var b strings.Builder
	if err := check.JUnit(&b, sample); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Suites []struct {
			Name     string `xml:"name,attr"`
			Tests    int    `xml:"tests,attr"`
			Failures int    `xml:"failures,attr"`
			Skipped  int    `xml:"skipped,attr"`
			Time     string `xml:"time,attr"`
			Cases    []struct {
				Name    string  `xml:"name,attr"`
				Failure *string `xml:"failure"`
				Skipped *string `xml:"skipped"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal([]byte(b.String()), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Suites) != 2 || got.Suites[0].Tests != 3 || got.Suites[0].Failures != 1 || got.Suites[0].Skipped != 1 ||
		got.Suites[0].Time != "1.500" || got.Suites[1].Skipped != 1 {
		t.Errorf("%+v", got)
	}
	if c := got.Suites[0].Cases[1]; c.Failure == nil || *c.Failure != "no\nnever <&>" || c.Skipped != nil {
		t.Errorf("%+v", c)
	}
}
