package dev

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/process"
)

// Attach runs the extension that an exthost dev --attach waits for.
func Attach(c *console.Console) *cobra.Command {
	var socket string
	cmd := &cobra.Command{
		Use:   "attach SOCKET [-- COMMAND [ARG...]]",
		Short: "Run an extension here and attach it to an exthost dev --attach elsewhere",
		Long: "Run the extension that an exthost dev --attach waits for, in its directory and with its\n" +
			"environment, with the host at its stdin and stdout and this terminal at its stderr. A\n" +
			"COMMAND is run instead of its own: a debugger that runs it, and listens on a port for its\n" +
			"user. When it ends, it can be attached again. The host says what SOCKET is.",
		Example: "  exthost attach /tmp/exthost-attach-1/weather.sock\n" +
			"  exthost attach /tmp/exthost-attach-1/weather.sock -- python3 -m debugpy --listen 5678 --wait-for-client main.py\n" +
			"  exthost attach /tmp/exthost-attach-1/weather.sock -- node --inspect-brk main.mjs",
		RunE: func(cmd *cobra.Command, args []string) error {
			if socket != "" {
				return relay(cmd.Context(), c, socket, args)
			}
			if len(args) == 0 || len(args) > 1 && cmd.ArgsLenAtDash() != 1 {
				return console.Usagef("exthost dev DIR --attach says which", "exthost attach needs the socket of a waiting host, then -- and a command if need be")
			}
			return attach(cmd.Context(), c, args[0], args[1:])
		},
	}
	cmd.Flags().StringVar(&socket, "relay", "", "be what the host runs in place of the extension")
	_ = cmd.Flags().MarkHidden("relay")
	return cmd
}

// attachment is the message of a relay to the process that attaches: how to run the
// extension.
type attachment struct {
	Dir  string   `json:"dir"`
	Argv []string `json:"argv"`
	Env  []string `json:"env"`
}

// stopTimeout is the time that a process has to end after Ctrl-C.
const stopTimeout = 3 * time.Second

// attach runs the extension that a relay waits for.
func attach(ctx context.Context, c *console.Console, socket string, command []string) error {
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return &console.Error{Code: console.ExitNotFound, Text: "no host waits at " + socket + ", or it has what it waited for", Hint: "exthost dev DIR --attach"}
	}
	defer conn.Close()
	todo, err := readAttachment(conn)
	if err != nil {
		return err
	}
	if len(command) == 0 {
		command = todo.Argv
	}
	cmd, err := todo.cmd(command)
	if err != nil {
		return err
	}
	stdin, err := cmd.StdinPipe() // a pipe, as a host gives it
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = struct{ io.Writer }{conn}, c.Err, stopTimeout
	if err := cmd.Start(); err != nil {
		return &console.Error{Code: console.ExitFailed, Text: fmt.Sprintf("%s: %v", command[0], err)}
	}
	var fed sync.WaitGroup
	defer fed.Wait()
	defer conn.Close()
	fed.Go(func() { _, _ = io.Copy(stdin, conn); stdin.Close() })
	fmt.Fprintf(c.Err, "attached as pid %d: %s\n", cmd.Process.Pid, console.Safe(strings.Join(command, " ")))
	err = wait(ctx, cmd)
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && ctx.Err() == nil {
		return &console.Error{Code: console.ExitExtension, Text: "it ended: " + exit.String()}
	}
	return nil
}

// wait waits for the end of a process. Ctrl-C, which ends ctx, goes to the process too;
// wait kills one that does not end.
func wait(ctx context.Context, cmd *exec.Cmd) error {
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-ended:
		return err
	case <-time.After(stopTimeout):
		_ = cmd.Process.Kill()
		return <-ended
	}
}

// maxHeader bounds the first message of a relay.
const maxHeader = 4 << 20

// readAttachment reads the first message of a relay, and not a byte more.
func readAttachment(conn *net.UnixConn) (*attachment, error) {
	var line []byte
	for one := make([]byte, 1); len(line) < maxHeader; line = append(line, one[0]) {
		if _, err := conn.Read(one); err != nil {
			return nil, &console.Error{Code: console.ExitNotFound, Text: "the host went away", Hint: "exthost dev DIR --attach"}
		}
		if one[0] == '\n' {
			break
		}
	}
	todo := new(attachment)
	if err := json.Unmarshal(line, todo); err != nil || len(todo.Argv) == 0 {
		return nil, &console.Error{Code: console.ExitNotFound, Text: conn.RemoteAddr().String() + " is the socket of something else", Hint: "exthost dev DIR --attach says which"}
	}
	return todo, nil
}

// cmd is the command, as the host would run it.
func (t *attachment) cmd(command []string) (*exec.Cmd, error) {
	path, _ := process.Lookup(t.Env)("PATH")
	file, err := process.Resolve(command[0], t.Dir, path)
	if command[0] == "exthost" {
		file, err = os.Executable()
	}
	if err != nil {
		return nil, err
	}
	return &exec.Cmd{Path: file, Args: command, Dir: t.Dir, Env: t.Env}, nil
}
