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
	placeholder = "{name}"               // replaced in arguments
	drain       = 500 * time.Millisecond // wait for the last output while another process holds the pipe open
	maxSaid     = 300                    // bytes of stderr in an error
)

// Command reads secrets from the output of a program.
type Command struct {
	Argv    []string      // {name} in an argument is replaced by the secret's name
	Dir     string        // working directory
	Env     []string      // environment
	Timeout time.Duration // per run
}

// Lookup runs the program. The error is a [*secrets.Error] with the last lines of stderr, never with stdout. When
// ctx ends or after Timeout, the program and its descendants are killed.
func (c Command) Lookup(ctx context.Context, name string) (string, error) {
	value, err := c.run(ctx, name)
	if err != nil {
		return "", &secrets.Error{Message: fmt.Sprintf("the secret %s: %v", name, err), Next: c.HowToSet(name)}
	}
	return value, nil
}

// Check always returns nil, because running the program may ask the user something.
func (Command) Check(string) error { return nil }

// HowToSet tells the user how to set a secret. It does not quote the command line, which may contain secrets from
// variables.
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

// answer waits for the program's exit and returns the value that it printed.
func (c Command) answer(ctx context.Context, running *process.Process) (string, error) {
	running.Stdin.Close()
	out := running.CollectStdout(secrets.MaxValue + 2) // plus a line break
	var late error
	select {
	case <-running.Done():
	case <-out.Overflow:
	case <-ctx.Done():
		late = context.Cause(ctx)
	}
	running.Kill() // including processes it left behind
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

// said formats the end of stderr.
func said(lines []string) string {
	text := display.Visible(strings.TrimSpace(strings.Join(lines[max(0, len(lines)-3):], " ")))
	if text == "" {
		return ""
	}
	return ": " + display.CutWords(text, maxSaid)
}
