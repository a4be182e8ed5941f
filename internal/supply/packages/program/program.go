// Package program runs package managers and git, and returns their output.
package program

import (
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
	// MaxOutput limits stdout, in bytes.
	MaxOutput  = 64 << 20
	maxProgram = 10 * time.Minute
	drain      = 5 * time.Second // wait for the last output while another process holds the pipe open
)

// Program is a command to run.
type Program struct {
	Dir  string
	Argv []string
	Env  []string // nil: the environment of this process
	Hide []string // secrets to remove from errors
}

// Run returns the program's stdout. The error includes the end of its stderr. When ctx ends, the program and its
// descendants are killed.
func (p Program) Run(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, maxProgram)
	defer cancel()
	env := p.Env
	if env == nil {
		env = os.Environ()
	}
	search, _ := process.Lookup(env)("PATH")
	path, err := process.Resolve(p.Argv[0], p.Dir, search)
	if err != nil {
		return nil, fmt.Errorf("%s is needed and is not on PATH", p.Argv[0])
	}
	running, err := process.Start(ctx,
		process.Spec{Path: path, Args: p.Argv[1:], Dir: p.Dir, Env: process.Distinct(env)})
	if err != nil {
		return nil, err
	}
	running.Stdin.Close()
	out := running.CollectStdout(MaxOutput)
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
		return nil, fmt.Errorf("%s printed over %d MiB", p.Argv[0], MaxOutput>>20)
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%s: %w", p.Argv[0], ctx.Err())
	case !exit.Success():
		said := lastLines(running.Tail())
		for _, secret := range p.Hide {
			said = strings.ReplaceAll(said, secret, "…")
		}
		return nil, &Failure{Program: p.Argv[0], Text: display.Cut(display.Visible(said), 600), exit: exit}
	}
	return text, nil
}

// Failure is returned when the program exits with an error.
type Failure struct {
	Program string
	Text    string // its last lines on stderr
	exit    process.Exit
}

func (f *Failure) Error() string { return fmt.Sprintf("%s failed (%v): %s", f.Program, f.exit, f.Text) }

// lastLines joins the last non-empty lines.
func lastLines(lines []string) string {
	lines = slices.DeleteFunc(lines, func(line string) bool {
		return strings.TrimSpace(line) == "" || strings.Contains(line, "A complete log of this run")
	})
	return strings.Join(lines[max(0, len(lines)-6):], "; ")
}
