package runtime

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/exthost/exthost/internal/proc/containment/limited"
	"github.com/exthost/exthost/internal/proc/process"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// stderrShown is how many of the last stderr lines the message of a failure includes.
const stderrShown = 5

// execute runs one command until it ends.
func (e *ExecRuntime) execute(ctx context.Context, argv []string, stdin []byte) (json.RawMessage, *protocol.Error) {
	still, fault := e.spec.permitted(ctx)
	if fault != nil {
		return nil, fault
	}
	given, fault := e.spec.resolved(ctx)
	if fault != nil {
		return nil, fault
	}
	proc, err := process.Start(ctx, process.Spec{
		Path:          argv[0],
		Args:          argv[1:],
		Dir:           workDir(&e.spec),
		Env:           given.Env,
		Limits:        limited.Limits(e.spec.Options.Limits),
		Containment:   e.spec.Containment,
		Isolate:       e.spec.Options.Isolate == manifest.IsolatePID,
		NewPrivileges: e.spec.NewPrivileges,
		Sandbox:       e.spec.Sandbox,
		StderrLine:    func(l process.Line) { logStderr(e.spec.Logger, l) },
	})
	if err != nil && ctx.Err() != nil {
		return nil, contextFault(ctx, "before its process was started")
	}
	if err != nil {
		return nil, SpawnFailed(err)
	}
	if e.spec.Tap.Tapped() {
		e.spec.Tap.Show(proc.PID(), true, mustJSON(map[string]any{"command": argv, "stdin": string(stdin)}))
	}
	written := make(chan struct{})
	go func() { // ends with the process at the latest, whose end closes Stdin
		defer close(written)
		_, _ = proc.Stdin.Write(stdin)
		proc.Stdin.Close()
	}()
	out := proc.CollectStdout(e.spec.Options.MaxLineBytes)
	fault = e.await(ctx, proc, out.Overflow)
	data, complete := out.End(drainGrace)
	<-written
	e.showEnd(proc, data, fault)
	if changed := still(); changed != nil {
		fault = changed
		e.spec.Logger.Error("the answer of a command is refused", "reason", protocol.Reason(fault), "pid", proc.PID())
	}
	if fault == nil && !complete {
		fault = protocol.Errorf(protocol.LineTooLong, "it wrote more than max_line_bytes (%d) to stdout and was killed",
			e.spec.Options.MaxLineBytes)
	}
	if fault == nil && proc.Exit().Success() { // await returns nil only after the exit
		return outputResult(data), nil
	}
	return nil, exitFault(fault, proc)
}

// showEnd shows the exit and the output of a command to the tap.
func (e *ExecRuntime) showEnd(proc *process.Process, out []byte, fault *protocol.Error) {
	if !e.spec.Tap.Tapped() {
		return
	}
	ended := "killed"
	if fault == nil {
		ended = proc.Exit().String()
	}
	e.spec.Tap.Show(proc.PID(), false, mustJSON(map[string]string{"stdout": string(out), "ended": ended}))
}

// await waits for the exit of the process, or kills it when a limit is reached.
func (e *ExecRuntime) await(ctx context.Context, proc *process.Process, overflow <-chan struct{},
) (fault *protocol.Error) {
	due := time.Now().Add(e.spec.Options.CallTimeout)
	clock, stop := timerFor(e.spec.Options.CallTimeout)
	defer stop()
	select {
	case <-proc.Done():
		return nil
	case <-overflow:
	case <-ctx.Done():
		if _, ok := lastLook(deadlineOf(ctx), proc.Done()); ok {
			return nil
		}
		fault = contextFault(ctx, "and its process was killed")
	case <-clock:
		if _, ok := lastLook(due, proc.Done()); ok {
			return nil
		}
		fault = protocol.Errorf(protocol.CallTimeout, "it did not end within call_timeout (%v) and was killed",
			e.spec.Options.CallTimeout)
	case <-e.killed.Done():
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

func contextFault(ctx context.Context, how string) *protocol.Error {
	kind := protocol.Canceled
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		kind = protocol.CallTimeout
	}
	return protocol.Errorf(kind, "the call was given up %s: %w", how, ctx.Err())
}

// outputResult converts the output of a process to a result: JSON if it is valid, else text.
func outputResult(data []byte) json.RawMessage {
	if trimmed := bytes.TrimSpace(data); json.Valid(trimmed) {
		return toolResult(trimmed)
	}
	text := bytes.ToValidUTF8(bytes.TrimSuffix(data, []byte("\n")), []byte("\uFFFD"))
	return textResult(rawjson.AppendText(nil, text), nil)
}

// exitFault adds the evidence of the process to fault. If fault is nil, the exit status becomes the fault.
func exitFault(fault *protocol.Error, proc *process.Process) *protocol.Error {
	evidence := EvidenceOf(proc)
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
