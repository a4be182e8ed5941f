package packages

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/exthost/exthost/internal/proc/process"
	"github.com/exthost/exthost/internal/text/display"
)

const (
	// maxOutput limits stdout, in bytes.
	maxOutput      = 64 << 20
	commandTimeout = 10 * time.Minute
	drain          = 5 * time.Second // wait for the last output while another process holds the pipe open
)

// command is a call of a package manager or git.
type command struct {
	dir  string
	argv []string
	env  []string // nil: the environment of this process
	hide []string // secrets to remove from errors
}

// broughtBy names what brings a program that is missing.
var broughtBy = map[string]string{"npm": "Node.js 18 or newer", "python3": "Python 3.9 or newer"}

// run returns the program's stdout. The error includes the end of its stderr. When ctx ends, the program and its
// descendants are killed.
func (c command) run(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	env := c.env
	if env == nil {
		env = os.Environ()
	}
	search, _ := process.Lookup(env)("PATH")
	path, err := process.Resolve(c.argv[0], c.dir, search)
	if err != nil {
		return nil, fmt.Errorf("%s is needed and is not on PATH: install %s", c.argv[0],
			cmp.Or(broughtBy[c.argv[0]], c.argv[0]))
	}
	running, err := process.Start(ctx,
		process.Spec{Path: path, Args: c.argv[1:], Dir: c.dir, Env: process.Distinct(env)})
	if err != nil {
		return nil, err
	}
	running.Stdin.Close()
	out := running.CollectStdout(maxOutput)
	select {
	case <-running.Done():
	case <-out.Overflow:
	case <-ctx.Done():
	}
	running.Kill() // including processes it left behind
	<-running.Done()
	text, complete := out.End(drain)
	switch exit := running.Exit(); {
	case !complete:
		return nil, errTooLong{c.argv[0]}
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%s: %w", c.argv[0], ctx.Err())
	case !exit.Success():
		said := lastLines(running.Tail())
		for _, secret := range c.hide {
			said = strings.ReplaceAll(said, secret, "…")
		}
		return nil, &failedCommand{program: c.argv[0], text: display.Cut(display.Visible(said), 600), exit: exit}
	}
	return text, nil
}

// errTooLong is returned when the program named so prints more than maxOutput.
type errTooLong struct{ program string }

func (e errTooLong) Error() string {
	return fmt.Sprintf("%s printed over %d MiB", e.program, maxOutput>>20)
}

// failedCommand is returned when the program exits with an error.
type failedCommand struct {
	program string
	text    string // its last lines on stderr
	exit    process.Exit
}

func (f *failedCommand) Error() string {
	return fmt.Sprintf("%s failed (%v): %s", f.program, f.exit, f.text)
}

// lastLines joins the last non-empty lines.
func lastLines(lines []string) string {
	lines = slices.DeleteFunc(lines, func(line string) bool {
		return strings.TrimSpace(line) == "" || strings.Contains(line, "A complete log of this run")
	})
	return strings.Join(lines[max(0, len(lines)-6):], "; ")
}
