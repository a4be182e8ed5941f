package dev

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/proc/process"
)

// attachCommand returns exthost dev attach, which runs the extension that an exthost dev --attach waits for.
func attachCommand(c *console.Console) *cobra.Command {
	var socket string
	cmd := &cobra.Command{
		Use:   "attach SOCKET [-- COMMAND [ARG...]]",
		Short: "Run an extension here, for exthost dev --attach elsewhere",
		Long: "Run the extension that an exthost dev --attach waits for, in its directory and with its\n" +
			"environment. Its stdin and stdout are connected to the host, its stderr to this terminal.\n" +
			"COMMAND runs in place of the extension's own command: a debugger that runs the extension and\n" +
			"listens on a port for its user. When the command ends, attach again. exthost dev prints\n" +
			"SOCKET.",
		Example: "  exthost dev attach /tmp/exthost-attach-1/weather.sock\n" +
			"  exthost dev attach /tmp/exthost-attach-1/weather.sock -- \\\n    python3 -m debugpy --listen 5678 " +
			"--wait-for-client main.py\n" +
			"  exthost dev attach /tmp/exthost-attach-1/weather.sock -- \\\n    node --inspect-brk main.mjs",
		RunE: func(cmd *cobra.Command, args []string) error {
			if socket != "" {
				return relay(cmd.Context(), c, socket, args)
			}
			if len(args) == 0 || len(args) > 1 && cmd.ArgsLenAtDash() != 1 {
				return console.Usagef("exthost dev DIR --attach says which",
					"exthost dev attach needs the socket of a waiting host, then -- and a command if need be")
			}
			return attach(cmd.Context(), c, args[0], args[1:])
		},
	}
	cmd.Flags().StringVar(&socket, "relay", "", "be what the host runs in place of the extension")
	_ = cmd.Flags().MarkHidden("relay")
	return cmd
}

// attachment is the first message of a relay: how to run the extension.
type attachment struct {
	Dir  string   `json:"dir"`
	Argv []string `json:"argv"`
	Env  []string `json:"env"`
}

// stopTimeout is how long a process may take to end after Ctrl-C.
const stopTimeout = 3 * time.Second

func attach(ctx context.Context, c *console.Console, socket string, command []string) error {
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return &console.Error{
			Code: console.ExitNotFound,
			Text: "no host waits at " + socket + ", or it has what it waited for",
			Hint: "exthost dev DIR --attach",
		}
	}
	defer conn.Close()
	in := bufio.NewReaderSize(conn, maxHeader)
	todo, err := readAttachment(in, socket)
	if err != nil {
		return err
	}
	if len(command) == 0 {
		command = todo.Argv
	}
	cmd, err := todo.cmd(ctx, command)
	if err != nil {
		return err
	}
	stdin, err := cmd.StdinPipe() // a pipe, as the host itself would use
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr = struct{ io.Writer }{conn}, c.Err
	if err := cmd.Start(); err != nil {
		return &console.Error{Code: console.ExitFailed, Text: fmt.Sprintf("%s: %v", command[0], err)}
	}
	var fed sync.WaitGroup
	defer fed.Wait()
	defer conn.Close()
	fed.Go(func() { _, _ = io.Copy(stdin, in); stdin.Close() })
	fmt.Fprintf(c.Err, "attached as pid %d: %s\n", cmd.Process.Pid, console.Safe(strings.Join(command, " ")))
	if exit := (*exec.ExitError)(nil); errors.As(cmd.Wait(), &exit) && ctx.Err() == nil {
		return &console.Error{Code: console.ExitExtension, Text: "it ended: " + exit.String()}
	}
	return nil
}

// maxHeader is the largest first message of a relay, in bytes.
const maxHeader = 4 << 20

// readAttachment reads the first message of a relay.
func readAttachment(in *bufio.Reader, socket string) (*attachment, error) {
	line, err := in.ReadSlice('\n')
	if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
		return nil, &console.Error{
			Code: console.ExitNotFound,
			Text: "the host went away",
			Hint: "exthost dev DIR --attach",
		}
	}
	todo := new(attachment)
	if err := json.Unmarshal(line, todo); err != nil || len(todo.Argv) == 0 {
		return nil, &console.Error{
			Code: console.ExitNotFound,
			Text: socket + " is the socket of something else",
			Hint: "exthost dev DIR --attach says which",
		}
	}
	return todo, nil
}

// cmd returns the command with the environment that the host would give it. Ctrl-C ends ctx and also reaches the
// process, which is killed if it has not ended after stopTimeout.
func (t *attachment) cmd(ctx context.Context, command []string) (*exec.Cmd, error) {
	path, _ := process.Lookup(t.Env)("PATH")
	file, err := process.Resolve(command[0], t.Dir, path)
	if command[0] == "exthost" {
		file, err = os.Executable()
	}
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, file)
	cmd.Args, cmd.Dir, cmd.Env = command, t.Dir, t.Env
	cmd.Cancel, cmd.WaitDelay = func() error { return nil }, stopTimeout
	return cmd, nil
}

// relay runs in place of an extension: it passes messages between the host and the attached process. It returns when
// the process ends or when the host closes the relay's stdin.
func relay(ctx context.Context, c *console.Console, socket string, argv []string) error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	// The cookie marks the processes of the host: with it, the host would kill the author's process as a leftover.
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "EXTHOST_COOKIE=") })
	header, err := json.Marshal(attachment{dir, argv, env})
	if err != nil {
		return err
	}
	l, err := listenFor(socket)
	if err != nil {
		return err
	}
	defer l.Close() // also removes the socket
	defer context.AfterFunc(ctx, func() { l.Close() })()
	f := &feed{unheard: func() { l.Close() }, attached: make(chan struct{})}
	go f.run(c.In) // ends with stdin, or with this process
	fmt.Fprintf(c.Err, "I! it is not started; in another terminal: exthost dev attach %s\n", socket)
	conn, err := l.AcceptUnix()
	if err != nil && (f.ended() || ctx.Err() != nil) {
		return nil // no process attached before the end
	}
	if err != nil {
		return err
	}
	l.Close() // only one process can attach
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if _, err := conn.Write(append(header, '\n')); err != nil {
		return err
	}
	f.into(conn)
	if _, err := io.Copy(c.Out, conn); err != nil && ctx.Err() == nil {
		return err
	}
	if f.ended() {
		return nil
	}
	return errors.New("the attached process has ended")
}

// listenFor opens the socket and replaces the socket of an earlier relay.
func listenFor(socket string) (*net.UnixListener, error) {
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return nil, err
	}
	return l, os.Chmod(socket, 0o600)
}

// maxKept is how many bytes of messages are queued until a process attaches. The host blocks when the queue is full.
const maxKept = 4 << 20

// feed passes on the messages of the host, and queues them until a process attaches.
type feed struct {
	unheard func() // called if the host ends before a process attaches

	attached chan struct{} // closed by into

	mu   sync.Mutex // guards the fields below
	kept []byte
	to   *net.UnixConn // nil: no process is attached
	end  bool
}

// run passes on messages until from ends.
func (f *feed) run(from io.Reader) {
	_, _ = io.Copy(f, from)
	f.mu.Lock()
	f.end = true
	to := f.to
	f.mu.Unlock()
	if to == nil {
		f.unheard()
	} else {
		_ = to.CloseWrite()
	}
}

// Write never fails. If the attached process has ended, relay notices that while it reads from the process.
func (f *feed) Write(p []byte) (int, error) {
	f.mu.Lock()
	if f.to == nil && len(f.kept)+len(p) > maxKept {
		f.mu.Unlock()
		<-f.attached // or until this process ends
		f.mu.Lock()
	}
	defer f.mu.Unlock()
	if f.to != nil {
		_, _ = f.to.Write(p)
	} else {
		f.kept = append(f.kept, p...)
	}
	return len(p), nil
}

// into sends the queued messages to conn, and then all later messages.
func (f *feed) into(conn *net.UnixConn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, _ = conn.Write(f.kept)
	f.kept, f.to = nil, conn
	close(f.attached)
	if f.end {
		_ = conn.CloseWrite()
	}
}

func (f *feed) ended() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.end
}
