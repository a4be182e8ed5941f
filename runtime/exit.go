package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/exthost/exthost/internal/proc/process"
	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/internal/wire/ndjson"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

const (
	// exitGrace is how long to wait, after the end of stdout, for the process to exit. If it exits, the exit is
	// reported as the reason for the end of the run.
	exitGrace = 500 * time.Millisecond
	// drainGrace is how long to wait for more of a dead process's last output, which does not end while a grandchild
	// has the pipe open.
	drainGrace = 500 * time.Millisecond
	// shutdownWriteTimeout bounds the writes before stdin is closed.
	shutdownWriteTimeout = 100 * time.Millisecond
	// stopTimeout bounds how long a killed process may take to end, and a broken connection to close.
	stopTimeout = 5 * time.Second
)

// errStopping is the reason that a service is given for the cancellation of its calls.
var errStopping = errors.New("the host stops")

// end makes the run end with fault as the reason. Only the first reason counts.
func (c *child) end(fault *protocol.Error) {
	select {
	case c.endReason <- fault:
	default:
	}
}

// stop stops the child in steps: shutdown request, end of stdin, SIGTERM, SIGKILL.
func (c *child) stop(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	writing, cancel := context.WithTimeout(ctx, shutdownWriteTimeout)
	defer cancel()
	if c.spec.Manifest.Transport.Kind == manifest.KindNATS { // the service goes on without the host
		c.conn.AbandonAll(errStopping)
	}
	c.conn.Settle(writing) // writes pending cancellations first
	if c.traits.shutdown && c.handshake.Load() != nil {
		c.strays.ending.Store(true)
		_ = c.wire.Write(writing, jsonrpc.Message{
			ID:     []byte("0"),
			Method: protocol.MethodShutdown,
			Params: []byte(`{"reason":"the host stops the extension"}`),
		}) // if this fails, the end of stdin still stops the child
	}
	if err := c.endpoint.Stop(ctx, c.spec.Options.ShutdownGrace); err != nil {
		c.spec.Logger.Error("process survived SIGKILL", "error", err)
	}
}

// reap makes sure that the process has ended and its last output is processed.
func (c *child) reap() {
	c.endpoint.Kill()
	select {
	case <-c.endpoint.Done():
	case <-time.After(stopTimeout):
		c.spec.Logger.Error("process survived SIGKILL", "pid", c.endpoint.PID())
	}
	c.drainOutput()
	c.conn.Close()
}

// drainOutput waits until the connection to a dead process ends, and reports whether it has ended. An escaped
// grandchild may prevent that by having the pipe open. On a busy machine much output takes longer than drainGrace, so
// it waits on while the output is being read.
func (c *child) drainOutput() bool {
	c.conn.DrainFast()
	read := c.linesRead()
	for given := time.Duration(0); given < stopTimeout; given += drainGrace {
		select {
		case <-c.connDone:
			return true
		case <-time.After(drainGrace):
		}
		now := c.linesRead()
		if now == read {
			break
		}
		read = now
	}
	return false
}

// linesRead counts what has been read from the child: messages, pieces of long ones, and noise.
func (c *child) linesRead() uint64 {
	n := c.conn.Stats()
	return n.Signs + n.Noise
}

// disconnected returns why the connection ended. The end of stdout is usually the first sign that the process exits.
func (c *child) disconnected() *protocol.Error {
	if fault := c.protocolViolation(); fault != nil {
		return fault
	}
	if c.processExits() {
		<-c.endpoint.Done()
		return c.exited()
	}
	if errors.Is(c.connErr, io.EOF) {
		return protocol.Errorf(protocol.StdoutClosed, "it closed its stdout but went on running, and was killed")
	}
	return protocol.Errorf(protocol.WriteStalled, "the pipes to it broke (%v) and it was killed", c.connErr)
}

// processExits reports whether the process exits by itself. On a busy machine that may take longer than exitGrace, so
// it waits on while the process is exiting.
func (c *child) processExits() bool {
	wait := cmp.Or(c.spec.exitGrace, exitGrace)
	for given := time.Duration(0); given < stopTimeout; given += wait {
		select {
		case <-c.endpoint.Exited():
			return true
		case <-time.After(wait):
		}
		if !c.endpoint.Dying() {
			break
		}
	}
	return false
}

// protocolViolation returns the violation of the child that ended the connection; nil if there was none.
func (c *child) protocolViolation() *protocol.Error {
	if fault := recordedDeath(c.connErr); fault != nil {
		return fault
	}
	if fault := connectionFault(c.connErr, c.handshake.Load() != nil); fault != nil {
		return fault
	}
	switch {
	case errors.Is(c.connErr, ndjson.ErrLineTooLong):
		return protocol.Errorf(protocol.LineTooLong,
			"it wrote a line longer than max_line_bytes (%d) and was killed", c.spec.Options.MaxLineBytes)
	case errors.Is(c.connErr, ndjson.ErrStalled):
		return protocol.Errorf(protocol.WriteStalled, "it read nothing from its stdin for %v and was killed",
			c.spec.stallTimeout())
	case errors.Is(c.connErr, ndjson.ErrNoise):
		return c.noise.fault()
	}
	return nil
}

// exited returns why the process exited: a protocol violation, after which the host closed the pipe, or the exit
// status.
func (c *child) exited() *protocol.Error {
	if c.drainOutput() {
		if fault := c.protocolViolation(); fault != nil {
			return fault
		}
	}
	when := ""
	if c.handshake.Load() == nil {
		when = " during the handshake"
	}
	fault := protocol.Errorf(protocol.ChildExited, "the process ended%s: %v", when, c.endpoint.exit())
	if argv, err := c.spec.CommandLine(); err == nil {
		fault.Message += c.spec.lineEnds(argv)
	}
	return fault
}

// lineEnds returns, as the end of a message about a command that has failed, that its script has CR LF line endings; ""
// if it has none.
func (s *Spec) lineEnds(argv []string) string {
	script := process.CRLFScript(argv, s.WorkDir())
	if script == "" {
		return ""
	}
	return fmt.Sprintf("; the lines of %s end in CR LF, and its interpreter takes the CR for text: save it with Unix "+
		"line endings", filepath.Base(script))
}

func (c *child) handshakeError(err error) *protocol.Error {
	fault := faultOf(err, protocol.HandshakeInvalid)
	if n := c.conn.Stats().Unknown; n > 0 && fault.Kind == protocol.HandshakeTimeout {
		return protocol.Errorf(protocol.HandshakeInvalid,
			"it answered %d times with an id that was never sent%s, and never to the handshake; an answer repeats "+
				"the id of its request",
			n, c.strays.latest())
	}
	if line, why := c.unended(); why != "" && fault.Kind == protocol.HandshakeTimeout {
		fault = protocol.Errorf(protocol.HandshakeInvalid, "%s (%v); %s", fault.Message,
			c.spec.Options.StartTimeout, why)
		fault.Evidence = &protocol.Evidence{Line: line}
	}
	return fault
}

// finalError adds the evidence to cause. A run that was stopped by the end of ctx has a final error too, for the calls
// in flight.
func (c *child) finalError(ctx context.Context, cause *protocol.Error) *protocol.Error {
	if cause == nil {
		cause = protocol.Errorf(protocol.ShuttingDown, "%s", stopReason(ctx, "it was stopped"))
	}
	line, noise := "", ""
	if cause.Evidence != nil {
		line = cause.Evidence.Line
	}
	select {
	case <-c.connDone:
		line, noise = cmp.Or(line, c.noise.partial), c.noise.last
	default:
	}
	ready := c.handshake.Load() != nil
	cause.Evidence = c.endpoint.evidence(ready)
	if cause.Evidence.Line = line; !ready { // what the child printed instead of an answer shows which program it is
		cause.Evidence.Line = cmp.Or(line, noise)
	}
	if cause.Kind == protocol.HandshakeTimeout {
		c.explainSilence(cause)
	}
	c.spec.explainUnrun(cause)
	c.spec.suspectSandbox(cause)
	return c.spec.withID(cause)
}

// stopReason returns the cause of the end of ctx; other if none was stated.
func stopReason(ctx context.Context, other string) string {
	if why := context.Cause(ctx); why != nil && !errors.Is(why, context.Canceled) {
		return why.Error()
	}
	return other
}

// explainSilence adds to the error of an unanswered handshake the timeout and a hint at its cause, taken from what the
// child has written.
func (c *child) explainSilence(fault *protocol.Error) {
	fault.Message += fmt.Sprintf(" (%v)", c.spec.Options.StartTimeout)
	switch {
	case fault.Evidence.Line != "":
		fault.Kind = protocol.HandshakeInvalid
		fault.Message += "; it wrote text to stdout instead: state the arguments that make it serve its protocol on " +
			"stdio, and have it log to stderr"
	case len(fault.Evidence.Stderr) > 0:
		fault.Message += "; its last lines on stderr may say what it waits for, such as the network or a login"
	default:
		fault.Message += "; raise start_timeout if it is only slow to start"
	}
}

// copyError returns a copy of the final error. The caller may change the copy.
func (c *child) copyError() *protocol.Error {
	fault, evidence := *c.cause, *c.cause.Evidence
	fault.Evidence = &evidence
	return &fault
}
