package runtime

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"github.com/exthost/exthost/internal/process"
	"github.com/exthost/exthost/internal/rawjson"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// stderrShown is how many of the last stderr lines a failure's message quotes.
const stderrShown = 5

// execute runs one command to its end.
func (e *ExecRuntime) execute(ctx context.Context, argv []string, stdin []byte) (json.RawMessage, *protocol.Error) {
	proc, err := process.Start(ctx, process.Spec{
		Path: argv[0], Args: argv[1:], Dir: workDir(&e.spec), Env: e.spec.Env,
		Limits: process.Limits(e.spec.Options.Limits), Containment: e.spec.Containment, Isolate: e.spec.Options.Isolate == manifest.IsolatePID,
		StderrLine: func(l process.Line) { logStderr(e.spec.Logger, l) },
	})
	if err != nil && ctx.Err() != nil {
		return nil, ended(ctx, "before its process was started")
	}
	if err != nil {
		return nil, spawnFailed(err)
	}
	written := make(chan struct{})
	go func() { // ends with the process at the latest, which closes Stdin
		defer close(written)
		_, _ = proc.Stdin.Write(stdin)
		proc.Stdin.Close()
	}()
	out := readOutput(proc.Stdout, e.spec.Options.MaxLineBytes)
	fault := e.await(ctx, proc, out)
	out.end()
	<-written
	if fault == nil {
		fault = out.fault
	}
	if fault == nil && proc.Exit().Success() { // it has ended, or await had said why not
		return outputResult(out.data), nil
	}
	return nil, exitFault(fault, proc)
}

// await waits for the end of the process and kills it when it must not go on.
func (e *ExecRuntime) await(ctx context.Context, proc *process.Process, out *output) (fault *protocol.Error) {
	clock, stop := clockOf(e.spec.Options.CallTimeout)
	defer stop()
	select {
	case <-proc.Done():
		return nil
	case <-out.excess:
	case <-ctx.Done():
		fault = ended(ctx, "and its process was killed")
	case <-clock:
		fault = protocol.Errorf(protocol.CallTimeout, "it did not end within call_timeout (%v) and was killed", e.spec.Options.CallTimeout)
	case <-e.stopped:
		fault = protocol.Errorf(protocol.ShuttingDown, "the host is stopping, and its process was killed")
	}
	proc.Kill()
	select {
	case <-proc.Done():
	case <-time.After(stopTimeout):
		e.spec.Logger.Error("extension does not die", "pid", proc.PID())
	}
	return fault
}

func ended(ctx context.Context, how string) *protocol.Error {
	kind := protocol.Canceled
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		kind = protocol.CallTimeout
	}
	return protocol.Errorf(kind, "the call was given up %s: %w", how, ctx.Err())
}

// output collects the stdout of one process up to a limit.
type output struct {
	file   *os.File
	done   chan struct{}
	excess chan struct{} // closed when there is more than the limit
	data   []byte
	fault  *protocol.Error
}

func readOutput(f *os.File, limit int) *output {
	o := &output{file: f, done: make(chan struct{}), excess: make(chan struct{})}
	go func() {
		defer close(o.done)
		o.data, _ = io.ReadAll(io.LimitReader(f, int64(limit)+1))
		if len(o.data) > limit {
			o.fault = protocol.Errorf(protocol.LineTooLong, "it wrote more than max_line_bytes (%d) to stdout and was killed", limit)
			close(o.excess)
		}
	}()
	return o
}

// end waits for the last output of a dead process.
func (o *output) end() {
	select {
	case <-o.done:
	case <-time.After(drainGrace): // a grandchild out of reach holds the pipe
	}
	o.file.Close()
	<-o.done
}

// outputResult makes a result of what a process wrote: JSON, else text.
func outputResult(data []byte) json.RawMessage {
	if trimmed := bytes.TrimSpace(data); json.Valid(trimmed) {
		return toolResult(trimmed)
	}
	text := bytes.ToValidUTF8(bytes.TrimSuffix(data, []byte("\n")), []byte("\uFFFD"))
	return textResult(rawjson.AppendText(nil, text), nil)
}

// exitFault completes fault with what the process left; without one, the way it
// ended is the fault.
func exitFault(fault *protocol.Error, proc *process.Process) *protocol.Error {
	evidence := evidenceOf(proc)
	switch {
	case fault != nil:
		fault.Outcome = "unknown"
	case evidence.ExitCode == nil:
		fault = protocol.Errorf(protocol.ChildExited, "its process ended: %v", proc.Exit())
		fault.Outcome = "unknown"
	default:
		fault = protocol.Errorf(protocol.ExtensionError, "exit status %d", *evidence.ExitCode)
		if lines := evidence.Stderr; len(lines) > 0 {
			fault.Message += ": " + strings.Join(lines[max(0, len(lines)-stderrShown):], "\n")
		}
		fault.Data = mustJSON(map[string]int{"exit_code": *evidence.ExitCode})
	}
	fault.Evidence = evidence
	return fault
}
