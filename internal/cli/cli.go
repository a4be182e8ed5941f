// Package cli implements the program exthost: it composes the commands, runs one, and turns its error into a message
// and an exit code.
//
// Rules of the whole program: stdout is data, stderr is for people. Data commands take -o table, json, yaml or name. An
// error states the fault, the reason and the next command. The program asks questions on a terminal only: which
// programs of a directory may run, and whether to write the settings of other programs. Text that extensions and their
// authors wrote is shown with its control characters escaped.
package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost/internal/authoring/bundled"
	"github.com/exthost/exthost/internal/cli/author"
	"github.com/exthost/exthost/internal/cli/client"
	"github.com/exthost/exthost/internal/cli/cluster"
	"github.com/exthost/exthost/internal/cli/connect"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/dev"
	"github.com/exthost/exthost/internal/cli/govern"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/internal/cli/inspect"
	"github.com/exthost/exthost/internal/cli/operate"
	"github.com/exthost/exthost/internal/cli/packages"
	"github.com/exthost/exthost/internal/cli/record"
	"github.com/exthost/exthost/internal/cli/secret"
	"github.com/exthost/exthost/internal/cli/serve"
	"github.com/exthost/exthost/internal/cli/skill"
	"github.com/exthost/exthost/internal/cli/top"
	"github.com/exthost/exthost/internal/cli/trust"
	"github.com/exthost/exthost/internal/cli/version"
)

// Run runs the program and returns its exit code.
func Run(args []string, stdin, stdout, stderr *os.File) int {
	defer survivePipes()()
	var onHangup hangup
	ctx, stop := onHangup.interruptible(context.Background(), stderr)
	defer stop()
	c, err := execute(ctx, args, &console.Console{In: stdin, Out: stdout, Err: stderr}, &onHangup)
	defer func() { c.Close() }()
	if again, wrong := trust.Again(ctx, c, err); wrong != nil {
		err = wrong
	} else if again {
		c.Close()
		c, err = execute(ctx, args, &console.Console{In: stdin, Out: stdout, Err: stderr}, &onHangup)
	}
	if err == nil || errors.Is(err, syscall.EPIPE) {
		return console.ExitOK // EPIPE: the reader had enough, as head does, and closed the pipe
	}
	if c.AskedFor(args); c.PrintFailure(err) != nil {
		return console.ExitFailed
	}
	if shown := console.Describe(err); shown != "" {
		c.Tell(c.Paint(console.Red, "exthost: ") + shown)
	}
	return console.ExitCode(err)
}

func execute(ctx context.Context, args []string, c *console.Console, onHangup *hangup) (*console.Console, error) {
	cmd := root(c, onHangup)
	cmd.SetArgs(args)
	if len(args) > 0 && args[0] == cobra.ShellCompRequestCmd {
		console.PlainFlags(cmd)
	}
	ran, err := cmd.ExecuteContextC(ctx)
	return c, console.ExclusiveFlags(ran, err)
}

func root(c *console.Console, onHangup *hangup) *cobra.Command {
	cmd := console.Group("exthost", "Run extensions for LLM agent loops")
	for _, g := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Serve and call tools:", []*cobra.Command{
			serve.Command(c, onHangup.set),
			connect.Command(c),
			inspect.Tools(c),
			inspect.Call(c),
			skill.Command(c),
		}},
		{"Add extensions of others:", []*cobra.Command{
			packages.Add(c),
			packages.Upgrade(c),
			packages.Remove(c),
			packages.Import(c),
			operate.Trust(c),
		}},
		{"See what happens:", []*cobra.Command{
			operate.Status(c, inspect.Extension),
			operate.Ps(c),
			top.Command(c),
			operate.Logs(c),
			operate.Calls(c, govern.Decisions{}, govern.Audit(c), govern.Verify(c), govern.Approve(c), govern.Deny(c),
				record.Record(c), record.Replay(c), record.Diff(c)),
			version.Command(c),
		}},
		{"Operate the running host:", []*cobra.Command{
			operate.Reload(c),
			operate.Restart(c),
			operate.Stop(c),
			operate.Enable(c),
			operate.Disable(c),
		}},
		{"Decide who may do what:", []*cobra.Command{
			secret.Command(c),
			client.Command(c),
			govern.Policy(c),
			cluster.Command(c),
		}},
		{"Write extensions:", []*cobra.Command{
			author.Init(c),
			dev.Dev(c),
			author.Check(c, inspect.Check),
			inspect.Validate(c),
			inspect.Config(c),
		}},
	} {
		cmd.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, sub := range g.commands {
			sub.GroupID = g.title
		}
		cmd.AddCommand(g.commands...)
	}
	cmd.AddCommand(extension())
	alone, asksVersion := operate.Alone(c), false
	cmd.Flags().BoolVarP(&asksVersion, "version", "v", false, "print the version")
	cmd.Annotations = console.AsksHost
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if asksVersion { // by a flag of cobra's own, it would need a template
			_, err := fmt.Fprintln(c.Out, version.Text())
			return err
		}
		return alone(cmd, args)
	}
	cmd.Long = "exthost finds extensions in ./extensions, runs them as child processes, keeps them " +
		"alive and serves their tools to agent loops over MCP or as a Go library.\n\n" +
		"It exits with 0 when all is well, 1 for a failure, 2 for a wrong usage, 3 for an invalid " +
		"configuration or manifest, 4 for what is not found, 5 for a requirement that is missing, " +
		"6 for a denial, 7 for an error of the extension or its tool, 8 for a timeout or " +
		"cancellation and 9 for checks that failed; 10 to 12 are the answers of exthost status --ready.\n\n" +
		"exthost help names the commands that matter most, exthost help all those below."
	cmd.Example = "  exthost serve              serve the tools on http://127.0.0.1:7800/mcp\n" +
		"  exthost check --start      start every extension once and say what is wrong\n" +
		"  exthost call ext_notes_add text='buy milk'"
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		cmd.SetContext(hosts.WithFlags(cmd.Context(), c))
		return c.CheckFlags(cmd)
	}
	cmd.SetIn(c.In)
	cmd.SetOut(c.Out)
	cmd.SetErr(c.Err)
	cmd.SetFlagErrorFunc(console.FlagError)
	c.AddFlags(cmd)
	console.FitHelp(cmd)
	addHelp(cmd)
	return cmd
}

// extension returns the hidden command by which the program runs itself as a bundled extension.
func extension() *cobra.Command {
	return &cobra.Command{
		Use:    "extension NAME",
		Short:  "Be one of the bundled extensions, on stdin and stdout",
		Hidden: true,
		Args:   console.One("the name of a bundled extension"),
		RunE: func(_ *cobra.Command, args []string) error {
			signal.Reset() // SIGTERM must end an extension at once
			code, err := bundled.Run(args[0])
			if err != nil {
				return &console.Error{Code: console.ExitNotFound, Text: err.Error()}
			}
			if code != 0 {
				return console.Reported(code)
			}
			return nil
		},
	}
}

// hangup holds the action on SIGHUP; without one, SIGHUP ends the program.
type hangup struct{ act atomic.Pointer[func()] }

func (h *hangup) set(act func()) { h.act.Store(&act) }

// interruptible returns a context that ends at the first SIGINT or SIGTERM. The second such signal kills the program as
// usual. SIGHUP runs the action of h; without an action, or once the terminal is gone, SIGHUP ends the context instead.
// A SIGHUP that was ignored when the program started, as under nohup, stays ignored.
func (h *hangup) interruptible(parent context.Context, stderr *os.File) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	ends, hangups, done := make(chan os.Signal, 1), make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(ends, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(hangups, syscall.SIGHUP)
	}
	terminal := console.IsTerminal(stderr)
	acts := make(chan func(), 1) // a SIGHUP during an action runs it again: it may have read what has changed since
	var wg sync.WaitGroup
	wg.Go(func() {
		for act := range acts {
			act()
		}
	})
	wg.Go(func() {
		defer close(acts)
		for {
			select {
			case <-done:
				return
			case s := <-ends:
				signal.Stop(ends) // before ctx ends, because a program that sees the end may send the second signal
				cancel(fmt.Errorf("%v signal received", s))
				return
			case <-hangups:
			}
			act := h.act.Load()
			if act == nil || console.IsTerminal(stderr) != terminal {
				cancel(errors.New("hangup signal received"))
				continue
			}
			select {
			case acts <- *act:
			default: // one waits already
			}
		}
	})
	return ctx, func() {
		cancel(nil)
		close(done)
		wg.Wait()
		signal.Stop(ends)
		signal.Stop(hangups)
	}
}

// survivePipes turns a write to a closed stdout into an error until restore is called, so that the program can still
// stop its extensions. It does not ignore SIGPIPE, because child processes would inherit that.
func survivePipes() (restore func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGPIPE)
	return func() { signal.Stop(c) }
}
