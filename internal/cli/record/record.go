// Package record implements the commands that record the messages between a host and its extensions, and replay them.
package record

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/internal/recording/cassette"
)

// Record returns exthost calls record, which records the traffic of the running host.
func Record(c *console.Console) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:         "record FILE [ID...] [-- COMMAND...]",
		Short:       "Record what passes between host and extensions",
		Annotations: console.AsksHost,
		Long: "Record every message between the host of this directory and its extensions, or some of\n" +
			"them, into a cassette: a file of JSON lines, readable by its owner alone, from which\n" +
			"exthost calls replay answers later. Secrets that are known or show their form are masked.\n" +
			"The recording ends with COMMAND, which is run meanwhile, or by Ctrl-C. If it ends before,\n" +
			"COMMAND goes on.",
		Example: "  exthost calls record notes.cassette notes\n  exthost calls record all.cassette --for 10m\n  " +
			"exthost calls record test.cassette -- ./test-agent",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, start string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return nil, cobra.ShellCompDirectiveDefault // FILE
			}
			return hosts.CompleteExtension(c)(cmd, args[1:], start)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if n := cmd.ArgsLenAtDash(); n >= 0 {
				args, o.command = args[:n], args[n:]
			}
			if len(args) == 0 {
				return console.Usagef("exthost calls record notes.cassette", "%s needs the FILE to write",
					cmd.CommandPath())
			}
			o.file, o.ids = args[0], args[1:]
			return o.run(cmd.Context(), c)
		},
	}
	cmd.Flags().DurationVar(&o.length, "for", 0, "how long to record; default: until Ctrl-C")
	cmd.Flags().Int64Var(&o.most, "max-bytes", 0, "the size at which the recording ends; default 1 GiB")
	cmd.Flags().BoolVar(&o.force, "force", false, "replace FILE if it exists")
	return cmd
}

type options struct {
	file   string
	ids    []string
	length time.Duration
	most   int64
	force  bool

	command []string // run while recording; nil: none
}

func (o *options) run(ctx context.Context, c *console.Console) error {
	if o.length < 0 || o.most < 0 {
		return console.Usagef("", "--for and --max-bytes are not negative")
	}
	r, err := hosts.Find(ctx)
	if err != nil {
		return err
	}
	for _, id := range o.ids {
		if _, err := r.Worker(ctx, id); err != nil {
			return err
		}
	}
	if _, err := os.Lstat(o.file); err == nil && !o.force {
		return o.exists()
	}
	n, failed, err := o.follow(ctx, c, r)
	if err != nil {
		return err
	}
	if err := n.report(c, o.file); err != nil || failed == nil {
		return err
	}
	return &console.Error{Code: console.ExitFailed, Text: fmt.Sprintf("%s: %v", o.command[0], failed)}
}

func (o *options) exists() error {
	return &console.Error{
		Code: console.ExitUsage,
		Text: o.file + " exists",
		Hint: "name another file, or --force to replace it",
	}
}

// create creates the file. It must be called after the host has started to record.
func (o *options) create(c *console.Console) (*os.File, error) {
	file, replaced, err := cassette.Create(o.file, o.force)
	if errors.Is(err, fs.ErrExist) {
		return nil, o.exists()
	}
	if err != nil {
		return nil, err
	}
	if replaced {
		c.Warn("%s is replaced", o.file)
	}
	c.Info("recording to %s; Ctrl-C ends it", o.file)
	return file, nil
}

// stopTimeout is how long the host may take to complete the cassette.
const stopTimeout = 15 * time.Second

// follow copies the cassette from the host to the file until the host, interrupt or the command ends the recording, and
// waits for the command. failed is the error of the command.
func (o *options) follow(interrupt context.Context, c *console.Console, r *hosts.Running,
) (n *outcome, failed, err error) {
	ctx, end := context.WithCancel(interrupt)
	defer end()
	id := rand.Text()
	query := url.Values{"id": {id}, "extension": o.ids}
	if o.length > 0 {
		query.Set("for", o.length.String())
	}
	if o.most > 0 {
		query.Set("max_bytes", fmt.Sprint(o.most))
	}
	reading, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		limit := time.AfterFunc(stopTimeout, cancel)
		defer limit.Stop()
		if r.Post(reading, "/api/v1/record/stop?"+url.Values{"id": {id}}.Encode(), nil, nil) != nil {
			cancel()
		}
		<-reading.Done()
	})()
	lines, err := r.Stream(reading, "/api/v1/record?"+query.Encode())
	if err != nil {
		return nil, nil, err
	}
	defer lines.Close()
	file, err := o.create(c)
	if err != nil {
		return nil, nil, err
	}
	var running sync.WaitGroup
	if o.command != nil {
		running.Go(func() { failed = o.runCommand(interrupt, c); end() })
	}
	n, err = copyLines(file, lines)
	if o.command != nil && ctx.Err() == nil {
		why := ""
		if err != nil {
			why = ": " + err.Error()
		}
		c.Info("%s goes on, and nothing is recorded any more%s", o.command[0], why)
	}
	end()
	_, _ = io.Copy(io.Discard, lines) // so that the host can end the recording
	running.Wait()
	return n, failed, errors.Join(err, file.Close())
}

// runCommand runs the command to its end.
func (o *options) runCommand(ctx context.Context, c *console.Console) error {
	cmd := exec.CommandContext(ctx, o.command[0], o.command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = c.In, c.Out, c.Err, time.Second
	return cmd.Run()
}

// outcome is the size of a cassette and its last line.
type outcome struct {
	lines int
	bytes int64
	last  string // at most 1 KiB of the last line
}

// copyLines copies whole lines. The end of the stream is no error, even within a line.
func copyLines(to io.Writer, from io.Reader) (*outcome, error) {
	var n outcome
	out := bufio.NewWriterSize(to, 1<<20)
	in := bufio.NewReaderSize(from, 64<<10)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return &n, out.Flush()
		}
		if _, err := out.Write(line); err != nil {
			return nil, err
		}
		if in.Buffered() == 0 {
			if err := out.Flush(); err != nil {
				return nil, err
			}
		}
		n.lines, n.bytes, n.last = n.lines+1, n.bytes+int64(len(line)), string(line[:min(len(line), 1<<10)])
	}
}

// report prints what was recorded. It returns an error if the recording is incomplete.
func (n *outcome) report(c *console.Console, file string) error {
	var last struct{ Closed *cassette.Closed }
	if json.Unmarshal([]byte(n.last), &last) != nil || last.Closed == nil {
		return &console.Error{
			Code: console.ExitFailed,
			Text: fmt.Sprintf("the host ended before the recording did; %s holds %s", file,
				console.Count(n.lines, "line")),
			Hint: "exthost logs",
		}
	}
	c.Info("%s: %s, %s bytes; %s", file, console.Count(last.Closed.Records, "record"), console.Thousands(int(n.bytes)),
		last.Closed.Reason)
	return nil
}
