package relay

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"

	"github.com/exthost/exthost/internal/local/daemon"
	"github.com/exthost/exthost/internal/secret/clienttoken"
)

const maxCaller = 64

// Client describes a relay's client, and where to look for hosts.
type Client struct {
	StateDir string // of the working directory
	Flags    Flags
	Toolset  string   // requested toolset; "": the host's default
	ToolMode string   // requested tool list mode; "": as configured
	As       string   // configured client name; "" for none
	Strict   bool     // refuse a host in which anything is broken
	Environ  []string // NAME=value
	// Start starts a host in the background and returns when it accepts clients. The host inherits turn; see
	// [Start].
	Start func(ctx context.Context, turn *os.File) error
	// Warn shows the user a warning; may be nil.
	Warn func(text string)

	caller  string         // unique name; "" before the first Connect
	build   string         // required build of the host
	started bool           // this Connect has started a host
	silent  map[int]string // errors of hosts that did not answer this Connect, by pid
}

// Connect returns a connection to a host that has accepted the client: a running one, or else a new one. Of
// several clients at once, only one starts a host. The error is a *Fault if the host does not start or refuses a
// strict client.
func (c *Client) Connect(ctx context.Context) (*net.UnixConn, error) {
	if c.caller == "" {
		c.caller = fmt.Sprintf("%s%d-%s", clienttoken.Stdio, os.Getpid(), strings.ToLower(rand.Text()[:8]))
	}
	var err error
	if c.build, err = installed(); err != nil {
		return nil, err
	}
	c.silent, c.started = make(map[int]string), false
	if conn, _, err := c.find(ctx); conn != nil || err != nil {
		return conn, err
	}
	turn, err := c.turn(ctx)
	if err != nil {
		return nil, err
	}
	defer turn.Close()
	conn, others, err := c.find(ctx)
	if conn != nil || err != nil { // another client has started a host
		return conn, err
	}
	if err := c.Start(ctx, turn); err != nil {
		return nil, err
	}
	c.started = true
	if others != nil && c.Warn != nil {
		c.Warn("started another host for this client, because it cannot share what runs in this directory: " +
			strings.Join(others, "; "))
	}
	conn, refused, err := c.find(ctx)
	if conn == nil && err == nil {
		err = &Fault{
			Text: "a host was started, and does not take this client: " + strings.Join(refused, "; "),
			Hint: "exthost stop, then try again",
			Code: 1,
		}
	}
	return conn, err
}

// turn waits until no other client is starting a host. Until the returned file is closed, no other client starts one.
func (c *Client) turn(ctx context.Context) (*os.File, error) {
	waiting, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	turn, err := daemon.Exclusive(waiting, c.StateDir)
	switch {
	case err == nil, ctx.Err() != nil:
		return turn, err
	case waiting.Err() != nil:
		return nil, &Fault{
			Text: fmt.Sprintf("another client starts a host, which does not answer after %v", startTimeout),
			Hint: "exthost serve --stdio --own",
			Code: 8,
		}
	}
	return nil, &Fault{
		Text: fmt.Sprintf("the state directory cannot be used: %v", err),
		Hint: "set XDG_STATE_HOME to a directory that can be written",
		Code: 1,
	}
}

// find tries the running hosts in order until one accepts the client. refused are the reasons why the others do not.
func (c *Client) find(ctx context.Context) (conn *net.UnixConn, refused []string, err error) {
	all, err := daemon.FindAll(ctx, c.StateDir)
	if err != nil {
		return nil, nil, err
	}
	for _, info := range all {
		if info.Clients == "" {
			continue
		}
		reason, silent := c.silent[info.PID]
		if info.Stopped() {
			reason, silent = "it is stopped, by SIGSTOP or Ctrl-Z", true
		}
		if !silent {
			conn, why, err := c.attach(ctx, info)
			switch fault, _ := errors.AsType[*Fault](err); {
			case conn != nil || ctx.Err() != nil:
				return conn, nil, ctx.Err()
			case fault != nil:
				return nil, nil, fault
			case err != nil: // the host has just ended, or is stopped
				why = "it does not answer: " + err.Error()
				if errors.Is(err, os.ErrDeadlineExceeded) {
					c.silent[info.PID] = why
				}
			}
			reason = why
		}
		refused = append(refused, fmt.Sprintf("pid %d: %s", info.PID, reason))
	}
	return nil, refused, nil
}

// attach asks one host to accept the client. refused is the host's reason not to.
func (c *Client) attach(ctx context.Context, info daemon.Info) (conn *net.UnixConn, refused string, err error) {
	conn, hello, err := greet(ctx, info)
	if err != nil {
		return nil, "", err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer func() {
		if !stop() || err != nil || refused != "" {
			_ = conn.Close()
			conn = nil
		}
	}()
	// this process is an extension, and must not use the client name c.As in another host either
	if hello.Refused != "" && c.As != "" {
		return conn, "", notNamed(hello.Refused)
	}
	if hello.Refused != "" || hello.Wire != wireVersion || hello.Build != c.build {
		if hello.Wire == wireVersion { // the outdated host exits with its last client; this client gets a new one
			_ = send(conn, request{Verb: verbRetire})
		}
		return conn, cmp.Or(hello.Refused, "it is another build, of version "+hello.Version), nil
	}
	q := request{
		Verb:    verbAttach,
		Caller:  c.caller,
		As:      c.As,
		Toolset: c.Toolset,
		Tools:   c.ToolMode,
		Flags:   c.Flags,
		Strict:  c.Strict,
		Started: c.started,
		Env:     parseEnviron(c.Environ).digests(hello.Nonce),
	}
	if err := send(conn, q); err != nil {
		return conn, "", err
	}
	timeout := helloTimeout
	if c.Strict {
		timeout = 0 // the host starts its extensions first; ctx limits the wait
	}
	var a answer
	if err := receive(conn, timeout, &a); err != nil {
		return conn, "", err
	}
	switch {
	case a.Fault != nil:
		return conn, "", a.Fault
	case !a.OK:
		return conn, a.Refused, nil
	}
	return conn, "", nil
}

// notNamed returns the fault for a process that may not use a client name.
func notNamed(why string) *Fault {
	return &Fault{
		Text: "--as is for clients, and a host that runs here does not take this process for one: " + why,
		Code: exitDenied,
	}
}

// exitDenied is the exit code for a denied action.
const exitDenied = 6

// Stranger returns why this process may not use a client name, even in a host of its own: a running host of the state
// directory considers this process one of its children. If no host does, Stranger returns nil.
func Stranger(ctx context.Context, stateDir string) *Fault {
	all, _ := daemon.FindAll(ctx, stateDir) // hosts that do not answer are ignored
	for _, info := range all {
		if info.Clients == "" || info.Stopped() {
			continue
		}
		conn, hello, err := greet(ctx, info)
		if err != nil {
			continue
		}
		_ = conn.Close()
		if hello.Refused != "" {
			return notNamed(hello.Refused)
		}
	}
	return nil
}

// greet connects to a host and reads its greeting.
func greet(ctx context.Context, info daemon.Info) (*net.UnixConn, greeting, error) {
	var hello greeting
	conn, err := info.DialClients(ctx)
	if err != nil {
		return nil, hello, err
	}
	if err := receive(conn, helloTimeout, &hello); err != nil {
		return nil, hello, errors.Join(err, conn.Close())
	}
	return conn, hello, nil
}

// Stop stops a host and waits until its process has ended. It works across program versions.
func Stop(ctx context.Context, info daemon.Info) error {
	conn, hello, err := greet(ctx, info)
	if err != nil {
		return err
	}
	defer conn.Close()
	if hello.Refused != "" {
		return errors.New(hello.Refused)
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if err := send(conn, request{Verb: verbStop}); err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, conn) // until the process ends
	return ctx.Err()
}
