package main

import (
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

	"github.com/exthost/exthost/internal/process"
)

func (a *app) attachCommand() *cobra.Command {
	var relay string
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
			if relay != "" {
				return a.relay(cmd.Context(), relay, args)
			}
			if len(args) == 0 || len(args) > 1 && cmd.ArgsLenAtDash() != 1 {
				return usagef("exthost dev DIR --attach says which", "exthost attach needs the socket of a waiting host, then -- and a command if need be")
			}
			return a.attach(cmd.Context(), args[0], args[1:])
		},
	}
	cmd.Flags().StringVar(&relay, "relay", "", "be what the host runs in place of the extension")
	_ = cmd.Flags().MarkHidden("relay")
	return cmd
}

// attachment is what a relay tells who attaches: how to run the extension.
type attachment struct {
	Dir  string   `json:"dir"`
	Argv []string `json:"argv"`
	Env  []string `json:"env"`
}

// relay stands in for an extension: what the host says goes to who attaches, and back.
// It ends with the attached process, so that the host knows, and when the host closes
// its stdin.
func (a *app) relay(ctx context.Context, socket string, argv []string) error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	// Without the mark that has its processes killed with the host: this one is the author's.
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "EXTHOST_COOKIE=") })
	header, err := json.Marshal(attachment{dir, argv, env})
	if err != nil {
		return err
	}
	l, err := listenFor(socket)
	if err != nil {
		return err
	}
	defer l.Close() // and removes the socket
	defer context.AfterFunc(ctx, func() { l.Close() })()
	f := &feed{closed: func() { l.Close() }}
	go f.run(a.in) // ends with stdin, or with this process
	fmt.Fprintf(a.err, "I! it is not started; in another terminal: exthost attach %s\n", socket)
	conn, err := l.AcceptUnix()
	if err != nil && (f.ended() || ctx.Err() != nil) {
		return nil // nobody has come, and nobody is waited for any more
	}
	if err != nil {
		return err
	}
	l.Close() // one is enough
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if _, err := conn.Write(append(header, '\n')); err != nil {
		return err
	}
	f.into(conn)
	if _, err := io.Copy(a.out, conn); err != nil && ctx.Err() == nil {
		return err
	}
	if f.ended() {
		return nil
	}
	return errors.New("the attached process has ended")
}

// listenFor opens the socket, in the place of one that a relay before has left.
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

// feed passes on what the host says, and keeps it until there is somebody to hear it.
type feed struct {
	closed func() // called when the host has no more to say and nobody has heard it

	mu   sync.Mutex // guards what follows
	kept []byte
	to   *net.UnixConn // nil: nobody yet
	end  bool
}

func (f *feed) run(from io.Reader) {
	chunk := make([]byte, 64<<10)
	for {
		n, err := from.Read(chunk)
		f.mu.Lock()
		if f.to != nil {
			_, _ = f.to.Write(chunk[:n]) // whose end is noticed where it is read
		} else {
			f.kept = append(f.kept, chunk[:n]...)
		}
		if err == nil {
			f.mu.Unlock()
			continue
		}
		f.end = true
		to := f.to
		f.mu.Unlock()
		if to == nil {
			f.closed()
		} else {
			_ = to.CloseWrite()
		}
		return
	}
}

// into passes everything on to conn.
func (f *feed) into(conn *net.UnixConn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, _ = conn.Write(f.kept)
	f.kept, f.to = nil, conn
	if f.end {
		_ = conn.CloseWrite()
	}
}

func (f *feed) ended() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.end
}

// attachPatience is how long a process may take to end after Ctrl-C.
const attachPatience = 3 * time.Second

// attach runs the extension that a relay waits for.
func (a *app) attach(ctx context.Context, socket string, command []string) error {
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return &exitError{code: exitNotFound, text: "no host waits at " + socket + ", or it has what it waited for", hint: "exthost dev DIR --attach"}
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
	stdin, err := cmd.StdinPipe() // as it has from a host
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = struct{ io.Writer }{conn}, a.err, attachPatience
	if err := cmd.Start(); err != nil {
		return &exitError{code: exitFailed, text: fmt.Sprintf("%s: %v", command[0], err)}
	}
	var told sync.WaitGroup
	defer told.Wait()
	defer conn.Close()
	told.Go(func() { _, _ = io.Copy(stdin, conn); stdin.Close() })
	fmt.Fprintf(a.err, "attached as pid %d: %s\n", cmd.Process.Pid, safe(strings.Join(command, " ")))
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err = <-ended:
	case <-ctx.Done(): // it has heard Ctrl-C too
		select {
		case err = <-ended:
		case <-time.After(attachPatience):
			_ = cmd.Process.Kill()
			err = <-ended
		}
	}
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && ctx.Err() == nil {
		return &exitError{code: exitExtension, text: "it ended: " + exit.String()}
	}
	return nil
}

// maxHeader bounds what a relay says first.
const maxHeader = 4 << 20

// readAttachment reads what a relay says first, and not a byte more.
func readAttachment(conn *net.UnixConn) (*attachment, error) {
	var line []byte
	for one := make([]byte, 1); len(line) < maxHeader; line = append(line, one[0]) {
		if _, err := conn.Read(one); err != nil {
			return nil, &exitError{code: exitNotFound, text: "the host went away", hint: "exthost dev DIR --attach"}
		}
		if one[0] == '\n' {
			break
		}
	}
	todo := new(attachment)
	if err := json.Unmarshal(line, todo); err != nil || len(todo.Argv) == 0 {
		return nil, &exitError{code: exitNotFound, text: conn.RemoteAddr().String() + " is the socket of something else", hint: "exthost dev DIR --attach says which"}
	}
	return todo, nil
}

// cmd is the command, run as the host would run the extension.
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
