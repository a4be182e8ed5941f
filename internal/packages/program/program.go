// Package program runs a package manager or git for an answer.
package program

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/exthost/exthost/internal/display"
)

const (
	// MaxOutput bounds what a program prints, in bytes.
	MaxOutput  = 64 << 20
	maxProgram = 10 * time.Minute
)

// Program is a package manager or git, run for an answer.
type Program struct {
	Dir  string
	Argv []string
	Env  []string // in place of that of this process
}

// Run returns what the program prints on stdout. The error has the end of what it prints on
// stderr.
func (p Program) Run(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, maxProgram)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.Argv[0], p.Argv[1:]...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = p.Dir, p.Env, 5*time.Second
	out, complaints := &bounded{max: MaxOutput}, &bounded{max: 1 << 20}
	cmd.Stdout, cmd.Stderr = out, complaints
	err := cmd.Run()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return nil, fmt.Errorf("%s is needed and is not on PATH", p.Argv[0])
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%s: %w", p.Argv[0], ctx.Err())
	case err != nil:
		return nil, &Failure{Program: p.Argv[0], Text: display.Cut(display.Visible(lastLines(complaints.String())), 600), err: err}
	case out.cut:
		return nil, fmt.Errorf("%s printed over %d MiB", p.Argv[0], MaxOutput>>20)
	}
	return out.Bytes(), nil
}

// Failure is the error of a program that gave no answer.
type Failure struct {
	Program string
	Text    string // what it said last
	err     error
}

// Error states what the program said.
func (f *Failure) Error() string { return fmt.Sprintf("%s failed (%v): %s", f.Program, f.err, f.Text) }

// lastLines are the last lines of a text that say something.
func lastLines(text string) string {
	var kept []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.Contains(line, "A complete log of this run") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept[max(0, len(kept)-6):], "; ")
}

// bounded keeps the first bytes that are written to it.
type bounded struct {
	bytes.Buffer
	max int
	cut bool
}

// Write never fails, so that the program ends by itself.
func (b *bounded) Write(p []byte) (int, error) {
	if room := b.max - b.Len(); len(p) > room {
		b.cut = true
		b.Buffer.Write(p[:room])
		return len(p), nil
	}
	return b.Buffer.Write(p)
}
