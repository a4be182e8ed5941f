package processtest

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

const (
	// atOnce is how many shards run at a time. Tests of real processes wait most of the time.
	atOnce = 6
	// rounds is how many shards run in each of these places, one after another. With more rounds, all places end at
	// nearly the same time, but each shard costs the start of a process and the setup that its tests share.
	rounds = 4
)

// reportVar is the variable with the file in which a shard reports what it ran.
const reportVar = "EXTHOST_TEST_REPORT"

// Shards are the tests of a package, run by several processes at once; see [Sharded].
type Shards struct {
	tests tests
	first []string
}

type tests interface{ Run() int }

// Sharded returns tests whose Run starts the test binary several times, each process with a part of the tests, and
// prints the output of each process in one piece. Each has its own goroutines, descriptors, children, environment and
// working directory, so that tests which look at the whole process, as [Leaks] does, or change it, need not wait for
// each other. first names the tests that last longest: each starts before the others, in a process of its own.
//
// Run runs m in this process if one process must run all tests, or if only a part of them runs: with -run, -skip,
// -bench, -fuzz, -list, -shuffle, -cover or a profile. On Windows it always does.
func Sharded(m *testing.M, first ...string) Shards { return Shards{tests: m, first: first} }

// Run runs the tests and returns the exit code.
func (s Shards) Run() int {
	flag.Parse()
	if report := os.Getenv(reportVar); report != "" {
		return s.shard(report)
	}
	dir, err := os.MkdirTemp("", "exthost-test")
	if err != nil {
		return broken(err)
	}
	defer os.RemoveAll(dir)
	if onlyOne() {
		if err := programs.open(dir); err != nil {
			return broken(err)
		}
		return s.tests.Run()
	}
	names, err := s.list(dir, "^(Test|Fuzz|Example)")
	if err != nil {
		return broken(err)
	}
	queue, err := groups(names, s.first)
	if err != nil {
		return broken(err)
	}
	exe, err := os.Executable()
	if err != nil {
		return broken(err)
	}
	r := &sharding{
		exe:   exe,
		dir:   dir,
		queue: queue,
	}
	return r.all(names)
}

func broken(err error) int {
	fmt.Fprintln(os.Stderr, "run tests in shards:", err)
	return 2
}

// shard runs the tests of one shard, and reports their names.
func (s Shards) shard(report string) int {
	os.Unsetenv(reportVar) // children get the same environment as without shards
	if err := programs.open(filepath.Dir(report)); err != nil {
		return broken(err)
	}
	code := s.tests.Run()
	names, err := s.list(filepath.Dir(report), option("run"))
	if err == nil {
		err = os.WriteFile(report, []byte(strings.Join(names, "\n")), 0o600)
	}
	if err != nil {
		return broken(err)
	}
	return code
}

// list returns the names of the tests that pattern matches.
func (s Shards) list(dir, pattern string) ([]string, error) {
	f, err := os.CreateTemp(dir, "list")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	stdout, stderr := os.Stdout, os.Stderr // with -json Run changes both
	os.Stdout = f
	err = flag.Set("test.list", pattern)
	s.tests.Run()
	os.Stdout, os.Stderr = stdout, stderr
	if err = cmp.Or(err, flag.Set("test.list", "")); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(f.Name())
	return strings.Fields(string(text)), err
}

// option returns a flag of go test, "" for one that this version of Go does not have.
func option(name string) string {
	if f := flag.Lookup("test." + name); f != nil {
		return f.Value.String()
	}
	return ""
}

// onlyOne reports whether one process must run the tests.
func onlyOne() bool {
	partial := []string{
		"run",
		"skip",
		"bench",
		"fuzz",
		"list",
		"coverprofile",
		"gocoverdir",
		"cpuprofile",
		"memprofile",
		"blockprofile",
		"mutexprofile",
		"trace",
	}
	return runtime.GOOS == "windows" || testing.CoverMode() != "" || flag.NArg() > 0 || option("shuffle") != "off" ||
		slices.ContainsFunc(partial, func(name string) bool { return option(name) != "" })
}

// groups splits names into a group for each shard. Neighbours, which are often alike, get into different groups.
func groups(names, first []string) (list [][]string, err error) {
	for _, name := range first {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("no test is named %s", name)
		}
		list = append(list, []string{name})
	}
	rest := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(first, name) })
	mixed := make([][]string, min(len(rest), atOnce*rounds))
	for i, name := range rest {
		mixed[i%len(mixed)] = append(mixed[i%len(mixed)], name)
	}
	return append(list, mixed...), nil
}
