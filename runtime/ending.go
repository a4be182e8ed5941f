package runtime

import (
	"cmp"
	"context"
	"errors"
	"io"
	"time"

	"github.com/exthost/exthost/internal/jsonrpc"
	"github.com/exthost/exthost/internal/jsonrpc/ndjson"
	"github.com/exthost/exthost/protocol"
)

const (
	// exitGrace is how long before the end of the process the end of its stdout
	// may come and still be the same event.
	exitGrace = 500 * time.Millisecond
	// drainGrace is how long the last output of a dead process may take to be
	// read. Its end ends it, unless a grandchild holds the other end of the pipe.
	drainGrace = 100 * time.Millisecond
	// farewellTimeout bounds what is written before stdin is closed.
	farewellTimeout = 100 * time.Millisecond
	// stopTimeout is how long a killed process may take to be gone.
	stopTimeout = 5 * time.Second
)

// end ends the run for a reason of ours. The first reason counts.
func (c *child) end(fault *protocol.Error) {
	select {
	case c.fatal <- fault:
	default:
	}
}

// stop takes the child down the ladder, from a word of farewell to SIGKILL.
func (c *child) stop(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	writing, cancel := context.WithTimeout(ctx, farewellTimeout)
	defer cancel()
	c.conn.Settle(writing) // the last call to be given up may be why we stop
	if c.traits.shutdown && c.handshake.Load() != nil {
		_ = c.wire.Write(writing, jsonrpc.Message{
			ID: []byte("0"), Method: protocol.MethodShutdown, Params: []byte(`{"reason":"the host stops the extension"}`),
		}) // the end of stdin says the same
	}
	if err := c.body.Stop(ctx, c.spec.Options.ShutdownGrace); err != nil {
		c.spec.Logger.Error("extension does not die", "error", err)
	}
}

// bury sees to it that the process is dead and what it wrote is delivered.
func (c *child) bury() {
	c.body.Kill()
	select {
	case <-c.body.Done():
	case <-time.After(stopTimeout):
		c.spec.Logger.Error("extension does not die", "pid", c.body.PID())
	}
	c.drained()
	c.conn.Close()
}

// drained waits for the connection of a dead process to end, which nothing holds up
// any more, and reports whether it did: a grandchild out of reach may hold the other
// end of the pipe.
func (c *child) drained() bool {
	c.conn.DrainFast()
	select {
	case <-c.served:
		return true
	case <-time.After(drainGrace):
		return false
	}
}

// disconnected says why the connection ended. The end of stdout is mostly the
// first sign of the end of the process.
func (c *child) disconnected() *protocol.Error {
	if fault := c.abuse(); fault != nil {
		return fault
	}
	if c.exits() {
		<-c.body.Done()
		return c.exited()
	}
	if errors.Is(c.broken, io.EOF) {
		return protocol.Errorf(protocol.StdoutClosed, "it closed its stdout but went on running, and was killed")
	}
	return protocol.Errorf(protocol.WriteStalled, "the pipes to it broke (%v) and it was killed", c.broken)
}

// exits reports whether the process ends of itself. One that is seen to end may take
// its time, which is that of a busy machine.
func (c *child) exits() bool {
	wait := cmp.Or(c.spec.exitGrace, exitGrace)
	for given := time.Duration(0); given < stopTimeout; given += wait {
		select {
		case <-c.body.Exited():
			return true
		case <-time.After(wait):
		}
		if !c.body.Dying() {
			break
		}
	}
	return false
}

// abuse says how the child made the connection end, nil if it did not.
func (c *child) abuse() *protocol.Error {
	if fault := hungUp(c.broken, c.handshake.Load() != nil); fault != nil {
		return fault
	}
	switch {
	case errors.Is(c.broken, ndjson.ErrLineTooLong):
		return protocol.Errorf(protocol.LineTooLong,
			"it wrote a line longer than max_line_bytes (%d) and was killed", c.spec.Options.MaxLineBytes)
	case errors.Is(c.broken, ndjson.ErrStalled):
		return protocol.Errorf(protocol.WriteStalled, "it stopped reading its stdin and was killed")
	case errors.Is(c.broken, ndjson.ErrNoise):
		return c.noise.verdict()
	}
	return nil
}

// exited says how the process ended: by itself, unless it died of the closing of
// a pipe that it had abused.
func (c *child) exited() *protocol.Error {
	if c.drained() {
		if fault := c.abuse(); fault != nil {
			return fault
		}
	}
	when := ""
	if c.handshake.Load() == nil {
		when = " during the handshake"
	}
	return protocol.Errorf(protocol.ChildExited, "the process ended%s: %v", when, c.body.exit())
}

// unshaken says why the handshake failed.
func (c *child) unshaken(err error) *protocol.Error {
	fault := faultOf(err, protocol.HandshakeInvalid)
	if n := c.conn.Stats().Unknown; n > 0 && fault.Kind == protocol.HandshakeTimeout {
		return protocol.Errorf(protocol.HandshakeInvalid,
			"it answered %d times with an id that was never sent, and never to the handshake", n)
	}
	return fault
}

// obituary completes cause with the evidence; a run that was stopped has one too,
// for the calls that were still in flight.
func (c *child) obituary(cause *protocol.Error) *protocol.Error {
	if cause == nil {
		cause = protocol.Errorf(protocol.ShuttingDown, "it was stopped")
	}
	line := ""
	if cause.Evidence != nil {
		line = cause.Evidence.Line
	}
	select {
	case <-c.served:
		line = cmp.Or(line, c.noise.half)
	default:
	}
	cause.Evidence = c.body.evidence()
	cause.Evidence.Line = line
	return blame(c.spec, cause)
}

// epitaph returns a copy of the cause for somebody who may add to it.
func (c *child) epitaph() *protocol.Error {
	fault, evidence := *c.cause, *c.cause.Evidence
	fault.Evidence = &evidence
	return &fault
}
