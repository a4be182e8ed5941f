//go:build unix

package processtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// subject is a module with the package of testdata/subject alone, so that a test may change what its tests read.
type subject struct {
	*testing.T
	dir    string
	binary string // the binary of its tests
}

func newSubject(t *testing.T) subject {
	t.Helper()
	checkout, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	s := subject{T: t, dir: t.TempDir()}
	s.binary = filepath.Join(s.dir, "subject.test")
	s.write("input", "text")
	for to, from := range map[string]string{
		"go.mod":          filepath.Join(checkout, "go.mod"),
		"go.sum":          filepath.Join(checkout, "go.sum"),
		"subject_test.go": "testdata/subject/subject_test.go",
	} {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		s.write(to, string(text))
	}
	const module = "github.com/exthost/exthost"
	s.goCommand("mod", "edit", "-module="+module+"/subject", "-require="+module+"@v0.0.0",
		"-replace="+module+"="+checkout)
	s.goCommand("test", "-c", "-o", s.binary, ".")
	return s
}

// write writes a file with a modification time so old that go test caches results which depend on the file.
func (s subject) write(name, text string) {
	s.Helper()
	path := filepath.Join(s.dir, name)
	old := time.Now().Add(-time.Hour)
	if err := errors.Join(os.WriteFile(path, []byte(text), 0o600), os.Chtimes(path, old, old)); err != nil {
		s.Fatal(err)
	}
}

// goCommand runs the go command with arguments and variables NAME=VALUE.
func (s subject) goCommand(args ...string) string {
	s.Helper()
	cmd := exec.CommandContext(s.Context(), "go")
	cmd.Dir, cmd.Env = s.dir, append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off")
	add(cmd, args)
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// run runs the test binary with flags and variables NAME=VALUE.
func (s subject) run(t *testing.T, args ...string) (out string, code int) {
	t.Helper()
	var both bytes.Buffer
	cmd := s.command(t, args...)
	cmd.Stdout, cmd.Stderr = &both, &both
	_ = cmd.Run() // the exit code says it
	return both.String(), cmd.ProcessState.ExitCode()
}

func (s subject) command(t *testing.T, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), s.binary, "-test.paniconexit0", "-test.timeout=1m")
	cmd.Dir, cmd.Env = s.dir, os.Environ()
	add(cmd, args)
	return cmd
}

// add adds arguments and variables NAME=VALUE to a command.
func add(cmd *exec.Cmd, args []string) {
	for _, a := range args {
		if strings.Contains(a, "=") && !strings.HasPrefix(a, "-") {
			cmd.Env = append(cmd.Env, a)
		} else {
			cmd.Args = append(cmd.Args, a)
		}
	}
}

// names are the tests of the subject.
func (s subject) names(t *testing.T) []string {
	t.Helper()
	out, _ := s.run(t, "-test.list=^(Test|Fuzz|Example)")
	return slices.Sorted(slices.Values(strings.Fields(out)))
}

var (
	started = regexp.MustCompile(`(?m)^=== RUN   (\w+)$`)
	passed  = regexp.MustCompile(`--- PASS: (\w+) `)
)

// matches returns what the group of r matched in text, sorted.
func matches(r *regexp.Regexp, text string) (all []string) {
	for _, m := range r.FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	slices.Sort(all)
	return all
}

func TestSharded(t *testing.T) {
	s := newSubject(t)
	names := s.names(t)
	if len(names) < 30 {
		t.Fatalf("the subject has %d tests", len(names))
	}
	for name, test := range map[string]func(*testing.T, []string){
		"run each test once":                         s.testOnce,
		"run each test as often as -count says":      s.testCount,
		"give one event per test to -json":           s.testEvents,
		"keep the result until an input changes":     s.testKept,
		"run in one process what is a part":          s.testPart,
		"end the process of a test that has failed":  s.testFailed,
		"name the tests of a process that broke off": s.testBroken,
		"end tests that hang by -timeout":            s.testTimeout,
		"fail a test whose child keeps stdout":       s.testLeft,
		"pass a signal on":                           s.testSignal,
		"end with the process that started them":     s.testKilled,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, names)
		})
	}
}

func (s subject) testOnce(t *testing.T, names []string) {
	out, code := s.run(t, "-test.v")
	if code != 0 || !strings.HasSuffix(out, "\nPASS\n") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	if got := matches(started, out); !slices.Equal(got, names) {
		t.Errorf("these began: %s\nand these are there: %s", got, names)
	}
	if got := matches(passed, out); !slices.Equal(got, names) {
		t.Errorf("these passed: %s\nand these are there: %s", got, names)
	}
	if out, code := s.run(t); code != 0 || out != "PASS\nFAIL\nthe last line of a test\nPASS\n" &&
		out != "the last line of a test\nPASS\nFAIL\nPASS\n" { // one piece comes before the other
		t.Errorf("without -v: exit code %d, %q", code, out)
	}
}

func (s subject) testCount(t *testing.T, names []string) {
	out, code := s.run(t, "-test.v", "-test.count=3")
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == "Example" }) // runs once
	want := slices.Sorted(slices.Values(append(slices.Repeat(names, 3), "Example")))
	if got := matches(passed, out); code != 0 || !slices.Equal(got, want) {
		t.Errorf("exit code %d: %s", code, got)
	}
}

func (s subject) testEvents(t *testing.T, names []string) {
	seen := make(map[string]int)
	for line := range strings.Lines(s.goCommand("test", "-count=1", "-json", ".")) {
		var event struct{ Action, Test, Output string }
		if err := json.Unmarshal([]byte(line), &event); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		switch event.Action {
		case "run", "pass", "fail", "skip":
			seen[event.Action+" "+event.Test]++
		}
	}
	want := map[string]int{"pass ": 1} // the package itself
	for _, name := range append(slices.Clone(names), "TestSubtests/0", "TestSubtests/1", "TestSubtests/2",
		"FuzzSeeds/seed#0") {
		want["run "+name], want["pass "+name] = 1, 1
	}
	if !maps.Equal(seen, want) {
		t.Errorf("%v\nnot\n%v", seen, want)
	}
}

func (s subject) testKept(t *testing.T, _ []string) {
	s.goCommand("test", ".")
	if out := s.goCommand("test", "."); !strings.Contains(out, "(cached)") {
		t.Errorf("nothing has changed: %s", out)
	}
	s.write("input", "another text")
	if out := s.goCommand("test", "."); strings.Contains(out, "(cached)") {
		t.Errorf("a file has changed: %s", out)
	}
	if out := s.goCommand("test", "."); !strings.Contains(out, "(cached)") {
		t.Errorf("nothing has changed again: %s", out)
	}
	if out := s.goCommand("test", ".", "SUBJECT=another"); strings.Contains(out, "(cached)") {
		t.Errorf("a variable has changed: %s", out)
	}
}

func (s subject) testPart(t *testing.T, names []string) {
	for _, args := range [][]string{
		{"-test.run=."},
		{"-test.skip=none"},
		{"-test.bench=None", "-test.benchtime=1x"},
		{"-test.shuffle=1"},
		{"-test.cpuprofile=" + filepath.Join(t.TempDir(), "profile")},
	} {
		// In shards, a panic would not keep the other tests from running.
		out, code := s.run(t, append(args, "-test.v", "SUBJECT=panics")...)
		if code != 2 || strings.Contains(out, "shard with") {
			t.Errorf("%s: exit code %d\n%s", args, code, out)
		}
	}
	if out, code := s.run(t, "-test.run=^Test0[12]$", "-test.v"); code != 0 ||
		!slices.Equal(matches(passed, out), []string{"Test01", "Test02"}) {
		t.Errorf("-run: exit code %d\n%s", code, out)
	}
}

func (s subject) testFailed(t *testing.T, names []string) {
	out, code := s.run(t, "-test.v", "SUBJECT=fails")
	if code != 1 || strings.Contains(out, "shard with") || !strings.HasSuffix(out, "\nFAIL\n") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	if got := matches(passed, out); len(got) != len(names)-1 || slices.Contains(got, "TestOdd") ||
		!strings.Contains(out, "\n--- FAIL: TestOdd ") {
		t.Errorf("these passed: %s", got)
	}
}

func (s subject) testBroken(t *testing.T, _ []string) {
	for how, why := range map[string]string{
		"panics":     "exit status 2",
		"exits":      "exit status 1",
		"exits well": "exit status 2", // package testing panics
		"kills":      "signal: killed",
	} {
		out, code := s.run(t, "SUBJECT="+how)
		if code != 1 || !regexp.MustCompile(`(?m)^shard with (\w+, )*TestOdd(, \w+)*: `+why+`$`).MatchString(out) {
			t.Errorf("%s: exit code %d\n%s", how, code, out)
		}
		if strings.Contains(out, "the shards ran") {
			t.Errorf("%s: two messages about one cause\n%s", how, out)
		}
	}
}

func (s subject) testTimeout(t *testing.T, _ []string) {
	hanging := filepath.Join(t.TempDir(), "pid")
	out, code := s.run(t, "-test.timeout=3s", "SUBJECT=hangs", "HANGING="+hanging)
	for _, want := range []string{"panic: test timed out after", "TestOdd (", "subject.TestOdd(0x", "shard with "} {
		if !strings.Contains(out, want) {
			t.Errorf("exit code %d, nothing says %q\n%s", code, want, out)
		}
	}
	s.gone(t, hanging)
}

func (s subject) testLeft(t *testing.T, _ []string) {
	left := filepath.Join(t.TempDir(), "pid")
	out, code := s.run(t, "SUBJECT=leaves", "HANGING="+left)
	if code != 1 || !strings.Contains(out, exec.ErrWaitDelay.Error()) {
		t.Errorf("exit code %d\n%s", code, out)
	}
	_ = syscall.Kill(s.pid(t, left), syscall.SIGKILL)
}

func (s subject) testSignal(t *testing.T, _ []string) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT} {
		hanging := filepath.Join(t.TempDir(), "pid")
		cmd := s.command(t, "SUBJECT=hangs", "HANGING="+hanging)
		var out bytes.Buffer
		cmd.Stdout = &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		s.pid(t, hanging)
		_ = cmd.Process.Signal(sig)
		_ = cmd.Wait()
		s.gone(t, hanging)
		if dump := strings.Contains(out.String(), "SIGQUIT: quit"); cmd.ProcessState.ExitCode() != 1 ||
			dump != (sig == syscall.SIGQUIT) {
			t.Errorf("%v: %v\n%s", sig, cmd.ProcessState, &out)
		}
	}
}

func (s subject) testKilled(t *testing.T, _ []string) {
	if runtime.GOOS != "linux" {
		t.Skip("on Linux alone do processes end with the one that started them")
	}
	hanging := filepath.Join(t.TempDir(), "pid")
	cmd := s.command(t, "SUBJECT=hangs", "HANGING="+hanging)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.pid(t, hanging)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	s.gone(t, hanging)
}

// pid waits for a test to write the id of a process.
func (s subject) pid(t *testing.T, file string) int {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); ; <-tick.C {
		text, _ := os.ReadFile(file)
		if pid, err := strconv.Atoi(string(text)); err == nil {
			return pid
		}
		if time.Now().After(deadline) {
			t.Fatal("no test has begun to hang")
		}
	}
}

// gone waits for the process to end.
func (s subject) gone(t *testing.T, file string) {
	t.Helper()
	pid := s.pid(t, file)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); ; <-tick.C {
		if err := syscall.Kill(pid, 0); err != nil || ended(pid) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %d still runs", pid)
		}
	}
}

// ended reports whether the process is a zombie: it has ended, and nobody has reaped it.
func ended(pid int) bool {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	f := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	return len(f) > 0 && f[0][0] == 'Z'
}

// A mistake in the groups cannot leave out a test, because the tests that the shards ran are compared with the list of
// all tests.
func TestShardsAreComplete(t *testing.T) {
	for ran, complete := range map[string]bool{
		"A B C":   true,
		"C B A":   true,
		"A B":     false,
		"A B B C": false,
	} {
		s := sharding{ran: strings.Fields(ran)}
		if err := s.complete([]string{"A", "B", "C"}); (err == nil) != complete {
			t.Errorf("%s: %v", ran, err)
		}
	}
	s := sharding{queue: [][]string{{"A"}}}
	if s.complete([]string{"A"}) == nil {
		t.Error("a group that no shard has begun is complete")
	}
}

func TestNoShardStartsAfterAFailureOrTheTimeout(t *testing.T) {
	start := func(s *sharding) bool {
		s.queue = [][]string{{"A"}}
		group, _ := s.next(t.Context())
		return group != nil
	}
	if !start(&sharding{failed: true}) {
		t.Error("none starts after a failure without -failfast")
	}
	if start(&sharding{deadline: time.Now().Add(-time.Second)}) {
		t.Error("one starts after the time of all tests")
	}
	given := option("failfast")
	defer flag.Set("test.failfast", given)
	if err := flag.Set("test.failfast", "true"); err != nil {
		t.Fatal(err)
	}
	if start(&sharding{failed: true}) {
		t.Error("one starts after a failure with -failfast")
	}
	if !start(&sharding{}) {
		t.Error("none starts with -failfast")
	}
}

func TestGroups(t *testing.T) {
	var names []string
	for i := range 100 {
		names = append(names, fmt.Sprint("Test", i))
	}
	for _, n := range []int{0, 1, 2, 23, 24, 25, 100} {
		list, err := groups(names[:n], names[:min(n, 1)])
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.Sorted(slices.Values(slices.Concat(list...))); !slices.Equal(got,
			slices.Sorted(slices.Values(names[:n]))) {
			t.Errorf("%d tests: %v", n, list)
		}
		if n > 0 && !slices.Equal(list[0], names[:1]) {
			t.Errorf("%v is not by itself", list)
		}
	}
	if _, err := groups(names, []string{"TestNone"}); err == nil {
		t.Error("a test that does not exist begins first")
	}
}
