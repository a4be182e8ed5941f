package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// events are what go test -json prints of two packages: one has a test that ends with the process.
const events = `{"Action":"start","Package":"a"}
{"Action":"run","Package":"a","Test":"TestA"}
{"Action":"run","Package":"a","Test":"TestA/x/1"}
{"Action":"output","Package":"a","Test":"TestA/x/1","Output":"=== RUN   TestA/x/1\n"}
{"Action":"output","Package":"a","Test":"TestA/x/1","Output":"    a_test.go:12: Total: 3 passed, 0 failed | all\n"}
{"Action":"run","Package":"a","Test":"TestA/x/1/deeper"}
{"Action":"output","Package":"a","Test":"TestA/x/1/deeper","Output":"        a_test.go:9: of the test below\n"}
{"Action":"pass","Package":"a","Test":"TestA/x/1/deeper","Elapsed":0.1}
{"Action":"pass","Package":"a","Test":"TestA/x/1","Elapsed":0.1}
{"Action":"run","Package":"a","Test":"TestA/x/2"}
{"Action":"skip","Package":"a","Test":"TestA/x/2","Elapsed":0}
{"Action":"pass","Package":"a","Test":"TestA","Elapsed":0.2}
{"Action":"run","Package":"b","Test":"TestA"}
{"Action":"output","Package":"b","Test":"TestA","Output":"panic: b\n"}
{"Action":"output","Package":"b","Output":"FAIL\tb\t0.1s\n"}
{"Action":"fail","Package":"b","Elapsed":0.1}
`

// TestVerdicts reads the events of tests that pass, skip, and end with their process.
func TestVerdicts(t *testing.T) {
	s, said, err := read(strings.NewReader(events))
	if err != nil || said != "FAIL\tb\t0.1s\n" {
		t.Fatalf("%v, %q", err, said)
	}
	want := suite{
		{"TestA", "passed", nil},
		{"TestA/x/1", "passed", []string{"Total: 3 passed, 0 failed | all"}},
		{"TestA/x/1/deeper", "passed", []string{"of the test below"}},
		{"TestA/x/2", "skipped", nil},
		{"TestA", "failed", nil},
	}
	if diff := cmp.Diff(want, s, cmp.AllowUnexported(test{})); diff != "" {
		t.Errorf("tests (-want +got):\n%s", diff)
	}
	if v := s.verdict("TestA"); v != "failed" {
		t.Errorf("of two tests of one name, one failed: %q", v)
	}
	var r report
	r.tests("case", "TestA/", s.below("TestA"))
	if v := r.verdicts(s, []string{"TestA/x/1", "TestNone"}); v != "TestNone **did not run**" {
		t.Error(v)
	}
	page := "| case | verdict | printed |\n| --- | --- | --- |\n" +
		"| `x/1` | passed | Total: 3 passed, 0 failed \\| all |\n| `x/2` | **skipped** |  |\n"
	if diff := cmp.Diff(page, r.text.String()); diff != "" {
		t.Errorf("page (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"TestA/x/2 skipped", "TestNone did not run"}, r.other); diff != "" {
		t.Errorf("what did not pass (-want +got):\n%s", diff)
	}
}

func TestCounted(t *testing.T) {
	got := counted([]string{"b", "a", "b"})
	if diff := cmp.Diff([]string{"a", "2 × b"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestStormsAreThoseOfCI reads the storms of .ci/run.
func TestStormsAreThoseOfCI(t *testing.T) {
	script, err := os.ReadFile("../../../.ci/run")
	if err != nil {
		t.Fatal(err)
	}
	lines := stormLine.FindAllStringSubmatch(string(script), -1)
	if n := strings.Count(string(script), "storm -"); len(lines) != n || n < 5 {
		t.Errorf("%d of %d storms were read", len(lines), n)
	}
	want := []string{"-parallel", "4", "-run", "^Test(ListBeforeSlow|FirstListHas)", "./test/storm"}
	if !slices.ContainsFunc(lines, func(m []string) bool { return slices.Equal(words(m[1]), want) }) {
		t.Errorf("%q is none of %q", want, lines)
	}
}

// TestEveryTableIsRead finds the tests of both pages with a checklist, and the packages that have them.
func TestEveryTableIsRead(t *testing.T) {
	t.Chdir("../../..")
	for _, page := range []struct{ file, section, test string }{
		{"docs/security.md", "Threats", "TestCanaries"},
		{"docs/agent-plugins.md", "The checklist of the specification", "TestAgentPlugins/5.2-list"},
	} {
		items, err := readChecklist(page.file, page.section)
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, i := range items {
			all = append(all, i.tests...)
		}
		if !strings.Contains(strings.Join(all, " ")+" ", page.test+" ") || len(items) < 20 {
			t.Errorf("%s: %d items, without %s: %q", page.file, len(items), page.test, all)
		}
	}
	packages, err := packagesOf([]string{"TestStormsAreThoseOfCI"})
	if diff := cmp.Diff([]string{"./internal/testing/proof"}, packages); diff != "" || err != nil {
		t.Errorf("%v, packages (-want +got):\n%s", err, diff)
	}
}
