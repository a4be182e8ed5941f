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
	"github.com/exthost/exthost/internal/local/relay/variables"
	"github.com/exthost/exthost/internal/secret/clienttoken"
)

const maxCaller = 64

// Client is what a relay says of its client, and where it looks for hosts.
type Client struct {
	StateDir string // of the directory
	Flags    Flags
	Toolset  string   // of the client; "": that of the host for clients without one
	ToolMode string   // of the client; "": that of the configuration
	As       string   // the named client that it is; "": none
	Strict   bool     // take no host in which anything is broken
	Environ  []string // NAME=value
	// Start starts a host in the background and returns when it takes clients. turn is what
	// the host inherits; see [Start].
	Start func(ctx context.Context, turn *os.File) error
	// Warn tells a person something; nil tells nobody.
	Warn func(text string)

	caller  string         // "" before the first Connect
	build   string         // of the program that a host must be
	started bool           // this Connect has started a host
	silent  map[int]string // hosts that have not answered this Connect, by pid, with the error
}

// Connect returns a connection to a host of the directory that has taken the client: to one
// that runs, else to a new one. Of clients that come at the same time, one starts a host.
// The error is a *Fault if the host does not start or refuses a strict client.
func (c *Client) Connect(ctx context.Context) (*net.UnixConn, error) {
	if c.caller == "" {
		c.caller = fmt.Sprintf("%s%d-%s", clienttoken.Stdio, os.Getpid(), strings.ToLower(rand.Text()[:8]))
	}
	var err error
	if c.build, err = Installed(); err != nil {
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
	if conn != nil || err != nil { // of a client that came first
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

// turn waits until no other client starts a host.
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

// find asks the hosts that run, one after another. refused has their reasons.
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
			case err != nil: // it has just ended, or is stopped
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

// attach asks one host.
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
	if hello.Refused != "" && c.As != "" { // an extension, which must not take a name in another host either
		return conn, "", notNamed(hello.Refused)
	}
	if hello.Refused != "" || hello.Wire != wireVersion || hello.Build != c.build {
		if hello.Wire == wireVersion { // it ends with its last client, and this one gets a host of its own program
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
		Env:     variables.Parse(c.Environ).Digests(hello.Nonce),
	}
	if err := send(conn, q); err != nil {
		return conn, "", err
	}
	timeout := helloTimeout
	if c.Strict {
		timeout = 0 // the extensions start first; ctx ends the wait
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

// notNamed is why a process is no named client.
func notNamed(why string) *Fault {
	return &Fault{
		Text: "--as is for clients, and a host that runs here does not take this process for one: " + why,
		Code: exitDenied,
	}
}

// exitDenied is the exit code of what is not allowed.
const exitDenied = 6

// Stranger returns why a process must not be a named client, also not in a host of its own: a host that
// runs with the state directory takes it for one of its children. It is nil if none does.
func Stranger(ctx context.Context, stateDir string) *Fault {
	all, _ := daemon.FindAll(ctx, stateDir) // who does not answer has no say
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

// greet connects to a host and reads what it says of itself.
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

// Stop has a host end, and returns when its process has ended. The host of another program
// understands it too.
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
	_, _ = io.Copy(io.Discard, conn) // until the end of the process
	return ctx.Err()
}
