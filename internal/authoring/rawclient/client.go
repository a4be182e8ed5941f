// Package rawclient sends raw lines, which may violate the protocol, to an extension's process, and records how the
// process violates it.
package rawclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/exthost/exthost/internal/proc/containment/limited"
	"github.com/exthost/exthost/internal/proc/process"
	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/internal/wire/ndjson"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/runtime"
)

// Timeout is how long to wait for any response.
const Timeout = 10 * time.Second

// MaxQuote is how much text of the process an error quotes, in bytes.
const MaxQuote = 200

// Options configure a [Client]. Spec and Protocol are required.
type Options struct {
	Spec     *runtime.Spec
	Protocol string             // manifest.ProtocolNative, ProtocolMCP or ProtocolLite
	Stderr   func(process.Line) // called for each line of stderr; nil discards them
}

// Client is one process and the requests sent to it. It must be used by one goroutine only.
type Client struct {
	// Set by Handshake:
	Result        json.RawMessage // result of the first request
	HandshakeTime time.Duration
	Early         []string // violations on stdout before the end of the handshake

	received
	o      Options
	proc   *process.Process
	lines  *ndjson.Transport // used for reading only
	meta   string            // _meta of every request to a stateless MCP server
	lastID int

	reading sync.WaitGroup
	ended   chan struct{} // closed at the end of stdout
}

// New returns a client whose process has not been started. It can encode requests already.
func New(o Options) *Client { return &Client{o: o, lastID: 1000} }

// Start starts the process and reads its stdout until it ends. It sends nothing. The caller must call Stop, or Reap if
// the process has ended.
func (c *Client) Start(ctx context.Context) error {
	spec, err := c.o.Spec.Resolved(ctx)
	if err != nil {
		return err
	}
	argv, err := spec.CommandLine()
	if err != nil {
		return err
	}
	c.proc, err = process.Start(ctx, process.Spec{
		Path:          argv[0],
		Args:          argv[1:],
		Dir:           spec.WorkDir(),
		Env:           spec.Env,
		Limits:        limited.Limits(spec.Options.Limits),
		Containment:   spec.Containment,
		Isolate:       spec.Options.Isolate == manifest.IsolatePID,
		NewPrivileges: spec.NewPrivileges,
		Sandbox:       spec.Sandbox,
		StderrLine:    c.o.Stderr,
	})
	if err != nil {
		return err
	}
	c.pending, c.ended = make(map[string]chan jsonrpc.Message), make(chan struct{})
	c.lines = ndjson.New(c.proc.Stdout, c.proc.Stdin,
		ndjson.Options{MaxLineBytes: spec.Options.MaxLineBytes, Noise: c.noise})
	c.reading.Go(c.read)
	return nil
}

// read handles the messages of the process until its stdout ends.
func (c *Client) read() {
	defer close(c.ended)
	for {
		m, err := c.lines.Read()
		if err != nil {
			return
		}
		switch {
		case m.Method != "" && m.ID != nil:
			_ = c.Write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"method not found"}}`,
				m.ID)) // fails when the process has ended
		case m.Method != "":
			c.notify(m)
		default:
			if m.Invalid == nil && m.Bare && c.o.Protocol != manifest.ProtocolLite {
				c.violate(false, `the answer %s is without "jsonrpc":"2.0"`, quote(m.Raw))
			}
			c.deliver(m)
		}
	}
}

// noise records a line that is not a frame.
func (c *Client) noise(line []byte, err error) error {
	c.violate(false, "%q is no frame: %v", quote(line), err)
	return nil
}

// Write writes a line.
func (c *Client) Write(line string) error { return c.WriteRaw(line + "\n") }

// WriteRaw writes text without adding a newline. If the process has ended, the error is from [Client.ExitError].
func (c *Client) WriteRaw(text string) error {
	if err := c.proc.Stdin.SetWriteDeadline(time.Now().Add(Timeout)); err != nil {
		return c.ExitError(err)
	}
	if _, err := c.proc.Stdin.WriteString(text); err != nil {
		return c.ExitError(fmt.Errorf("it does not read its stdin: %w", err))
	}
	return nil
}

// ExitError returns an error with the exit status and the last lines of stderr, or err if the process still runs.
func (c *Client) ExitError(err error) error {
	select {
	case <-c.proc.Done():
	case <-time.After(time.Second):
		if err == nil {
			err = errors.New("it has closed its stdout and lives on")
		}
		return err
	}
	return errors.New("it has ended, " + c.proc.Exit().String() + c.StderrTail())
}

// StderrTail returns the last five lines of stderr, each after a line break.
func (c *Client) StderrTail() string {
	tail := c.proc.Tail()
	if len(tail) == 0 {
		return ""
	}
	return "\nstderr: " + strings.Join(tail[max(0, len(tail)-5):], "\nstderr: ")
}

// Process returns the process.
func (c *Client) Process() *process.Process { return c.proc }

// Ended returns a channel that is closed at the end of stdout.
func (c *Client) Ended() <-chan struct{} { return c.ended }

// Dead reports whether the process has ended or closed its stdout.
func (c *Client) Dead() bool {
	select {
	case <-c.ended:
		return true
	case <-c.proc.Done():
		return true
	default:
		return false
	}
}

// Stop stops the process as the host does, with that grace period, and reaps it. Stop or Reap must be called once.
func (c *Client) Stop(ctx context.Context, grace time.Duration) (violations []string) {
	_ = c.proc.Stop(ctx, grace) // an error means that the process cannot be killed
	return c.Reap()
}

// Reap waits for the reader of an ended process, and returns the violations on stdout that TakeUnsolicited has not
// returned.
func (c *Client) Reap() (violations []string) {
	select {
	case <-c.ended:
	case <-time.After(time.Second): // a descendant holds stdout open
	}
	_ = c.lines.Close() // ends read
	c.reading.Wait()
	return c.violationTexts()
}
