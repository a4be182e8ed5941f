package main

import (
	"errors"
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

// TestServersAreRead reads the list of servers: each has an id of its own, and a source that states a version.
func TestServersAreRead(t *testing.T) {
	text, err := os.ReadFile("servers.txt")
	if err != nil {
		t.Fatal(err)
	}
	list, err := readServers(string(text))
	if err != nil || len(list) < 40 {
		t.Fatalf("%d servers, %v", len(list), err)
	}
	ids := make(map[string]bool)
	for _, s := range list {
		_, version, exact := strings.Cut(s.source[strings.LastIndexAny(s.source, "/:")+1:], "@")
		if strings.HasPrefix(s.source, "pypi:") {
			_, version, exact = strings.Cut(s.source, "==")
		}
		if ids[s.id] || !exact || version == "" {
			t.Errorf("%s of %s has no id of its own, or no version", s.id, s.source)
		}
		ids[s.id] = true
	}
	got, err := readServers("# of others\nred  npm:red@1 -- --db x  # a server of Red\nblue pypi:blue==2\n")
	want := []server{
		{id: "red", source: "npm:red@1", args: []string{"--db", "x"}, wants: "a server of Red"},
		{id: "blue", source: "pypi:blue==2"},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(server{})); diff != "" || err != nil {
		t.Errorf("%v, servers (-want +got):\n%s", err, diff)
	}
	if _, err := readServers("red npm:red@1 --db x\n"); err == nil {
		t.Error("arguments without -- are read")
	}
}

// TestReasons finds the line that tells in what exthost add says.
func TestReasons(t *testing.T) {
	for said, want := range map[string]string{
		"red is red 1.0\nexthost: red is there twice\n":                                           "red is there twice\n",
		"exthost: red did not start: exit status 1\n  stderr: KEY is not set\n  next: name it":    "KEY is not set",
		"exthost: red did not start\n  stderr: File x\n  stderr: ValueError: no KEY\n  stderr: y": "ValueError: no KEY",
		"signal: killed": "",
	} {
		if got := reason(said); got != want {
			t.Errorf("%q: %q, want %q", said, got, want)
		}
	}
}

// TestServersHaveARow lists a server that has started, one that wants something, and one that fails for no reason.
func TestServersHaveARow(t *testing.T) {
	ready := started{"stdio/mcp 2025-11-25", "3", "1s"}
	for _, o := range []struct {
		server
		outcome
		want string
	}{
		{server{}, outcome{started: ready}, "starts | passed"},
		{server{}, outcome{started: ready, confined: errors.New("no network")}, "no network | passed"},
		{server{wants: "a key"}, outcome{started: ready}, "starts | passed; calls want a key"},
		{server{wants: "a key"}, outcome{err: errors.New("KEY?")}, " | wants a key: KEY?"},
		{server{}, outcome{err: errors.New("KEY?")}, " | **failed**: KEY?"},
	} {
		if got := strings.Join(o.row(o.server)[5:], " | "); got != o.want {
			t.Errorf("%q, want %q", got, o.want)
		}
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
