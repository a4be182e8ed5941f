// Package program runs a package manager or git for an answer.
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
	// MaxOutput bounds what a program prints, in bytes.
	MaxOutput  = 64 << 20
	maxProgram = 10 * time.Minute
	drain      = 5 * time.Second // for the last output, when another process holds the pipe
)

// Program is a package manager or git, run for an answer.
type Program struct {
	Dir  string
	Argv []string
	Env  []string // in place of that of this process
	Hide []string // texts that are secret, and are left out of the error
}

// Run returns what the program prints on stdout. The error has the end of what it prints on
// stderr. At the end of ctx the program is killed, with what it has started.
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
	running.Kill() // also what a program has left behind
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

// Failure is the error of a program that gave no answer.
type Failure struct {
	Program string
	Text    string // what it said last
	exit    process.Exit
}

// Error states what the program said.
func (f *Failure) Error() string { return fmt.Sprintf("%s failed (%v): %s", f.Program, f.exit, f.Text) }

// lastLines are the last lines that say something.
func lastLines(lines []string) string {
	lines = slices.DeleteFunc(lines, func(line string) bool {
		return strings.TrimSpace(line) == "" || strings.Contains(line, "A complete log of this run")
	})
	return strings.Join(lines[max(0, len(lines)-6):], "; ")
}
