package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

// test is what go test said of one test.
type test struct {
	name    string // with those it is below: TestA/b
	verdict string // passed, failed or skipped
	printed []string
}

// suite are the tests of one run, in the order in which they began.
type suite []*test

// event is a line of go test -json.
type event struct{ Action, Package, Test, Output string }

// verdicts are the words for the actions that end a test.
var verdicts = map[string]string{"pass": "passed", "fail": "failed", "skip": "skipped"}

// logged matches a line that a test has printed by its Log methods.
var logged = regexp.MustCompile(`^\s+\w+\.go:\d+: (.+)\n$`)

// run runs go test with more arguments. That a test fails is no error.
func run(env []string, args ...string) (suite, error) {
	cmd := exec.Command("go", append([]string{"test", "-json", "-vet=off", "-count=1"}, args...)...)
	fmt.Fprintf(os.Stderr, "proof: %s %s\n", strings.Join(env, " "), strings.Join(cmd.Args, " "))
	cmd.Env, cmd.Stderr = append(os.Environ(), env...), os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	all, said, readErr := read(out)
	_, _ = io.Copy(io.Discard, out)
	err = cmd.Wait()
	if readErr != nil {
		return nil, readErr
	}
	failed := slices.ContainsFunc(all, func(t *test) bool { return t.verdict == "failed" })
	if err != nil && !failed {
		return nil, fmt.Errorf("go test: %w\n%s", err, said)
	}
	if len(all) == 0 {
		return nil, errors.New("no test has run")
	}
	return all, nil
}

// read reads the events of go test. said is what belongs to no test.
func read(from io.Reader) (all suite, said string, err error) {
	found := make(map[[2]string]*test)
	for d := json.NewDecoder(from); ; {
		var e event
		if err := d.Decode(&e); err == io.EOF {
			return all, said, nil
		} else if err != nil {
			return nil, said, fmt.Errorf("go test -json: %w", err)
		}
		if e.Test == "" {
			said += e.Output
			continue
		}
		key := [2]string{e.Package, e.Test}
		t := found[key]
		if t == nil {
			t = &test{name: e.Test, verdict: "failed"} // until it ends
			found[key], all = t, append(all, t)
		}
		if word := verdicts[e.Action]; word != "" {
			t.verdict = word
		}
		if m := logged.FindStringSubmatch(e.Output); m != nil {
			t.printed = append(t.printed, m[1])
		}
	}
}

// below returns the tests directly below one: those of t.Run within it.
func (s suite) below(name string) (list suite) {
	for _, t := range s {
		rest, ok := strings.CutPrefix(t.name, name+"/")
		parent := slices.ContainsFunc(s, func(p *test) bool {
			middle, ok := strings.CutPrefix(p.name, name+"/")
			return ok && strings.HasPrefix(rest, middle+"/")
		})
		if ok && !parent {
			list = append(list, t)
		}
	}
	return list
}

// tops returns the tests that are below no other.
func (s suite) tops() (list suite) {
	for _, t := range s {
		if !strings.Contains(t.name, "/") {
			list = append(list, t)
		}
	}
	return list
}

// verdict returns the verdict on a test: the worst, where several packages have one of the name, and "" where none has
// run.
func (s suite) verdict(name string) (worst string) {
	rank := []string{"", "passed", "skipped", "failed"}
	for _, t := range s {
		if t.name == name && slices.Index(rank, t.verdict) > slices.Index(rank, worst) {
			worst = t.verdict
		}
	}
	return worst
}
