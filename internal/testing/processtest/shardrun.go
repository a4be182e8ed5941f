package processtest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// quitGrace is the time for shards to end after a signal. The go command kills this process 5 s after its own signal.
const quitGrace = 3 * time.Second

// sharding is one run of all tests of a package.
type sharding struct {
	exe      string
	dir      string    // directory for reports of shards and programs that tests build
	deadline time.Time // zero without -timeout

	mu     sync.Mutex // guards the fields below, and stdout
	queue  [][]string // groups that no shard has started
	shards int        // number of shards started
	signal os.Signal  // the signal that ends the run
	ran    []string   // tests of the shards that ran to the end
	broken bool       // a shard did not run to the end
	failed bool
	inputs bytes.Buffer // files and variables that tests read; if any has changed, go test runs the tests again
}

// all runs the shards and returns the exit code of the tests.
func (r *sharding) all(names []string) int {
	if limit, _ := time.ParseDuration(option("timeout")); limit > 0 {
		r.deadline = time.Now().Add(limit)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var watch, places sync.WaitGroup
	signals := make(chan os.Signal, 1)
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT} {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	watch.Go(func() {
		select {
		case s := <-signals:
			r.mu.Lock()
			r.signal = s
			r.mu.Unlock()
			cancel()
		case <-ctx.Done():
		}
	})
	for range atOnce {
		places.Go(func() {
			runtime.LockOSThread() // a shard ends with the thread that started it, see endWithParent
			for group, n := r.next(ctx); group != nil; group, n = r.next(ctx) {
				r.shard(ctx, n, group)
			}
		})
	}
	places.Wait()
	signal.Stop(signals)
	cancel()
	watch.Wait()
	return r.verdict(names)
}

// next takes a group out of the queue, if another shard may start.
func (r *sharding) next(ctx context.Context) (group []string, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	late := !r.deadline.IsZero() && time.Now().After(r.deadline)
	if late || ctx.Err() != nil || len(r.queue) == 0 || r.failed && option("failfast") == "true" {
		return nil, 0
	}
	group, r.queue = r.queue[0], r.queue[1:]
	r.shards++
	return group, r.shards
}

// shard runs a group of tests in a process of its own.
func (r *sharding) shard(ctx context.Context, n int, group []string) {
	report := filepath.Join(r.dir, fmt.Sprint("shard", n))
	var out bytes.Buffer
	err := os.WriteFile(report+".log", nil, 0o600) // package testing expects the file to exist
	if err == nil {
		cmd := exec.CommandContext(ctx, r.exe, r.args(report, group)...)
		// Garbage collection is a third of the time that a program takes to start, and tests start thousands.
		cmd.Env = append(os.Environ(), reportVar+"="+report, "GOGC="+cmp.Or(os.Getenv("GOGC"), "400"))
		cmd.Stdout, cmd.Stderr = &out, &out
		cmd.Cancel = func() error {
			r.mu.Lock()
			defer r.mu.Unlock()
			return cmd.Process.Signal(r.signal)
		}
		cmd.WaitDelay = quitGrace
		endWithParent(cmd)
		err = cmd.Run()
	}
	r.ended(report, group, out.Bytes(), err)
}

// args returns the arguments of a shard: those of this process, then arguments that override them.
func (r *sharding) args(report string, group []string) []string {
	args := append(slices.Clone(os.Args[1:]), "-test.run=^("+strings.Join(group, "|")+")$")
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		args = append(args, fmt.Sprintf("-test.parallel=%d", max(atOnce, runtime.GOMAXPROCS(0))))
	}
	if option("testlogfile") != "" {
		args = append(args, "-test.testlogfile="+report+".log")
	}
	if !r.deadline.IsZero() {
		args = append(args, fmt.Sprintf("-test.timeout=%v", max(time.Until(r.deadline), 1)))
	}
	return args
}

// verdicts are the last lines of test binaries. They follow an output that may lack its newline.
var verdicts = regexp.MustCompile(`\x16?(PASS|FAIL)\n`)

// ended prints the output of a shard and records which tests it ran.
func (r *sharding) ended(report string, group []string, out []byte, err error) {
	if all := verdicts.FindAllIndex(out, -1); len(all) > 0 { // earlier ones belong to the output of a test
		last := all[len(all)-1]
		out = slices.Delete(out, last[0], last[1])
	}
	if len(out) > 0 && out[len(out)-1] != '\n' {
		out = append(out, '\n')
	}
	names, missing := os.ReadFile(report)
	inputs, _ := os.ReadFile(report + ".log")

	r.mu.Lock()
	defer r.mu.Unlock()
	os.Stdout.Write(out)
	r.failed = r.failed || err != nil || missing != nil
	r.ran = append(r.ran, strings.Fields(string(names))...)
	r.read(inputs)
	var exit *exec.ExitError
	if failed := errors.As(err, &exit) && exit.ExitCode() == 1; missing == nil && (err == nil || failed) {
		return // all tests ran, and failures are in the output
	}
	r.broken = true
	fmt.Printf("shard with %s: %v\n", strings.Join(group, ", "), cmp.Or(err, missing))
}

// inputsHeading is the first line of a file of -test.testlogfile.
const inputsHeading = "# test log\n"

// read records what the tests of a shard read. Paths are relative to the directory of the package until a line says
// chdir.
func (r *sharding) read(inputs []byte) {
	inputs = bytes.TrimPrefix(inputs, []byte(inputsHeading))
	r.inputs.Write(inputs)
	if dir, err := os.Getwd(); err == nil && bytes.Contains(inputs, []byte("chdir ")) {
		fmt.Fprintf(&r.inputs, "chdir %s\n", dir)
	}
}

// complete returns an error unless the shards ran exactly the tests of names.
func (r *sharding) complete(names []string) error {
	slices.Sort(names)
	slices.Sort(r.ran)
	switch {
	case len(r.queue) > 0:
		return fmt.Errorf("not run: %s", strings.Join(slices.Concat(r.queue...), ", "))
	case !r.broken && !slices.Equal(names, r.ran): // a broken shard has its own message
		return fmt.Errorf("the tests are %s, the shards ran %s", strings.Join(names, ", "), strings.Join(r.ran, ", "))
	}
	return nil
}

// verdict ends the run and returns its exit code.
func (r *sharding) verdict(names []string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.complete(names); err != nil {
		r.failed = true
		fmt.Println(err)
	}
	if path := option("testlogfile"); path != "" {
		if err := os.WriteFile(path, append([]byte(inputsHeading), r.inputs.Bytes()...), 0o600); err != nil {
			return broken(err)
		}
	}
	word, code := "PASS", 0
	if r.failed {
		word, code = "FAIL", 1
	}
	if option("v") == "test2json" {
		word = "\x16" + word // as package testing marks it
	}
	fmt.Println(word)
	return code
}
