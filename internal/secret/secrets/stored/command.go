package stored

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/exthost/exthost/internal/proc/process"
	"github.com/exthost/exthost/internal/secret/secrets"
	"github.com/exthost/exthost/internal/text/display"
)

const (
	placeholder = "{name}"               // in a word of the command line
	drain       = 500 * time.Millisecond // for the last output, when another process holds the pipe
	maxSaid     = 300                    // of what a command says on stderr, in bytes
)

// Command finds secrets by running a program that prints the value of one.
type Command struct {
	Argv    []string      // {name} in a word stands for the name
	Dir     string        // where it runs
	Env     []string      // its environment
	Timeout time.Duration // of one run
}

// Lookup runs the program; the error is a [*secrets.Error]. It quotes the last lines on stderr,
// and never stdout. At the end of ctx or of the time the program is killed, with what it has started.
func (c Command) Lookup(ctx context.Context, name string) (string, error) {
	value, err := c.run(ctx, name)
	if err != nil {
		return "", &secrets.Error{Message: fmt.Sprintf("the secret %s: %v", name, err), Next: c.HowToSet(name)}
	}
	return value, nil
}

// Check knows nothing: only a run tells, which may ask the user.
func (Command) Check(string) error { return nil }

// HowToSet says how the value of a secret is set, which the program does not do here. It does not
// quote the command line, in which the configuration may have put variables that are secrets.
func (Command) HowToSet(name string) string {
	return "have secrets.command print " + name
}

func (c Command) run(ctx context.Context, name string) (string, error) {
	if len(c.Argv) == 0 {
		return "", errors.New("secrets.command is not set")
	}
	search, _ := process.Lookup(c.Env)("PATH")
	path, err := process.Resolve(c.Argv[0], c.Dir, search)
	if err != nil {
		return "", err
	}
	args := make([]string, len(c.Argv)-1)
	for i, word := range c.Argv[1:] {
		args[i] = strings.ReplaceAll(word, placeholder, name)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.Timeout,
		fmt.Errorf("%s gave no answer within %v and was killed", c.Argv[0], c.Timeout))
	defer cancel()
	running, err := process.Start(ctx, process.Spec{Path: path, Args: args, Dir: c.Dir, Env: process.Distinct(c.Env)})
	if err != nil {
		return "", err
	}
	return c.answer(ctx, running)
}

// answer waits for the end of the program, and reads what it has printed.
func (c Command) answer(ctx context.Context, running *process.Process) (string, error) {
	running.Stdin.Close()
	out := running.CollectStdout(secrets.MaxValue + 2) // with the end of a line
	var late error
	select {
	case <-running.Done():
	case <-out.Overflow:
	case <-ctx.Done():
		late = context.Cause(ctx)
	}
	running.Kill() // also what the program has left behind
	<-running.Done()
	data, complete := out.End(drain)
	switch exit := running.Exit(); {
	case !complete:
		return "", fmt.Errorf("%s printed more than %d bytes", c.Argv[0], secrets.MaxValue)
	case late != nil:
		return "", late
	case !exit.Success():
		return "", fmt.Errorf("%s failed (%v)%s", c.Argv[0], exit, said(running.Tail()))
	case len(data) == 0:
		return "", fmt.Errorf("%s printed nothing%s", c.Argv[0], said(running.Tail()))
	}
	return secrets.Value(data)
}

// said quotes the end of what a program says on stderr.
func said(lines []string) string {
	text := display.Visible(strings.TrimSpace(strings.Join(lines[max(0, len(lines)-3):], " ")))
	if text == "" {
		return ""
	}
	return ": " + display.CutWords(text, maxSaid)
}
