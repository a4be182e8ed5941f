// Command exthost runs the extensions of a folder and serves their tools.
//
// Rules of the whole program: stdout is data, stderr is talk. Data commands take
// -o table, json, yaml or name. An error says what went wrong, why, and the next
// command. It never asks a question. What extensions and their authors wrote is
// shown with its control characters escaped.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/exthost/exthost/internal/process"
)

func main() {
	process.Reenter()
	process.CloseOnExecAll()
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is the program; it returns the exit code.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	defer survivePipes()()
	a := &app{in: stdin, out: stdout, err: stderr}
	ctx, stop := a.interruptible(context.Background())
	defer stop()
	defer a.finish()
	cmd := a.rootCommand()
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(ctx)
	if err == nil || errors.Is(err, syscall.EPIPE) {
		return exitOK // whoever closed the pipe, as head does, has what they wanted
	}
	if shown := describe(err); shown != "" {
		fmt.Fprintln(stderr, a.paint(red, "exthost: ")+shown)
	}
	return exitCode(err)
}

// survivePipes makes a write to a closed stdout an error, so that extensions are
// still stopped in order, until the function it returns is called. The signal is
// caught and not ignored because children would inherit the latter.
func survivePipes() (restore func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGPIPE)
	return func() { signal.Stop(c) }
}
