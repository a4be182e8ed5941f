package runtime

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"github.com/exthost/exthost/internal/concurrent"
	"github.com/exthost/exthost/internal/proc/containment/limited"
	"github.com/exthost/exthost/internal/proc/process"
	"github.com/exthost/exthost/internal/recording/cassette"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// ExecRuntime runs an extension that has no connection: each call starts a process, and none runs between calls.
type ExecRuntime struct {
	spec      Spec
	startedAt time.Time
	handshake atomic.Pointer[Handshake] // nil until the commands are resolved
	commands  map[string]*template      // by tool name; set before handshake
	missing   map[string]error          // by tool name: why the tool has no command; set before handshake

	calls    atomic.Uint64
	inFlight atomic.Int64
	running  concurrent.Gate // calls in flight; closed by Kill
	killed   context.Context // canceled by Kill, and with the cause of Serve's ctx
	kill     context.CancelCauseFunc
}

var _ Instance = (*ExecRuntime)(nil)

func newExec(s Spec) *ExecRuntime {
	e := &ExecRuntime{spec: s, startedAt: time.Now()}
	e.killed, e.kill = context.WithCancelCause(context.Background())
	return e
}

// Serve implements [Instance]. It resolves the commands of all tools and waits for the end of ctx. Then it kills the
// calls in flight.
func (e *ExecRuntime) Serve(ctx context.Context, ready func()) error {
	h, err := e.prepare()
	if err != nil {
		return e.spec.withID(SpawnFailed(err))
	}
	e.spec.Record.Start(cassette.Start{Transport: manifest.KindExec, Protocol: manifest.KindExec})
	e.handshake.Store(h)
	e.spec.Record.Offer(h.recorded)
	ready()
	select {
	case <-ctx.Done():
		e.end(context.Cause(ctx))
	case <-e.killed.Done():
		err = e.spec.withID(protocol.Errorf(protocol.ShuttingDown, "it was killed"))
	}
	<-e.running.Close()
	e.spec.Record.End(cassette.End{})
	return err
}

// Kill implements [Instance]. It kills all calls and admits no more.
func (e *ExecRuntime) Kill() { e.end(nil) }

func (e *ExecRuntime) end(cause error) {
	e.running.Close()
	e.kill(cause)
}

// prepare resolves the command of each tool. It drops tools without a command, and fails if none is left.
func (e *ExecRuntime) prepare() (*Handshake, error) {
	m := e.spec.Manifest
	r := reviewDescriptors(e.spec.ID, declaredDescriptors(m), m.Capabilities)
	h := &Handshake{Protocol: manifest.KindExec}
	e.commands, e.missing = make(map[string]*template, len(m.Tools)), make(map[string]error)
	var failed error
	for i := range m.Tools {
		t, err := e.template(&m.Tools[i])
		if err != nil {
			failed = err
			e.missing[m.Tools[i].Name] = err
			r.warn("spawn_failed", "", "tool %q is dropped: %v", m.Tools[i].Name, err)
			continue
		}
		e.commands[m.Tools[i].Name] = t
	}
	for _, t := range r.tools {
		if e.commands[t.Name] != nil {
			h.Tools = append(h.Tools, t)
		}
	}
	h.Undeclared, h.Diagnostics = r.dropped, r.diagnostics
	if len(h.Tools) == 0 && failed != nil {
		return nil, failed
	}
	return h, nil
}

func (e *ExecRuntime) template(t *manifest.ToolSpec) (*template, error) {
	if len(t.Command) > 0 {
		argv, err := e.spec.command(t.Command)
		return newTemplate(argv), err
	}
	argv, err := e.spec.CommandLine()
	return newTemplate(argv), err
}

// Call implements [Instance].
func (e *ExecRuntime) Call(ctx context.Context, r *Request) (json.RawMessage, error) {
	if !e.running.Enter() {
		return nil, e.spec.withID(protocol.Errorf(protocol.ShuttingDown, "it is stopping"))
	}
	defer e.running.Leave()
	if e.handshake.Load() == nil {
		return nil, e.spec.withID(protocol.Errorf(protocol.NotReady, "its commands have not been looked for yet"))
	}
	id := e.calls.Add(1)
	e.inFlight.Add(1)
	defer e.inFlight.Add(-1)
	e.recordCall(id, r)
	raw, fault := e.call(ctx, r)
	e.recordAnswer(id, raw, fault)
	if fault != nil {
		return nil, e.spec.withID(fault)
	}
	return raw, nil
}

func (e *ExecRuntime) call(ctx context.Context, r *Request) (json.RawMessage, *protocol.Error) {
	if r.Method != protocol.MethodToolsCall {
		return nil, noMethod(manifest.KindExec, r.Method)
	}
	name := textOf(r.Params, "name")
	command := e.commands[name]
	switch err := e.missing[name]; {
	case err != nil:
		return nil, SpawnFailed(err)
	case command == nil:
		return nil, noTool(name)
	}
	argv, stdin, fault := command.fill(arguments(r))
	if fault != nil {
		return nil, fault
	}
	return e.execute(ctx, argv, stdin)
}

// Notify implements [Instance]. It always fails, as no process runs.
func (e *ExecRuntime) Notify(_ context.Context, method string, _ json.RawMessage) error {
	return e.spec.withID(noMethod(manifest.KindExec, method))
}

// Handshake implements [Instance].
func (e *ExecRuntime) Handshake() *Handshake { return e.handshake.Load() }

// Info implements [Instance].
func (e *ExecRuntime) Info() Info {
	return Info{
		StartedAt: e.startedAt,
		Protocol:  manifest.KindExec,
		Calls:     e.calls.Load(),
		InFlight:  int(e.inFlight.Load()),
	}
}

// template is a command line whose words may be {placeholders}.
type template struct {
	argv []string
	uses bool // it has placeholders, so the arguments are not passed on stdin
}

var placeholder = regexp.MustCompile(`^\{[A-Za-z_][A-Za-z0-9_.-]*\}$`)

func newTemplate(argv []string) *template {
	t := &template{argv: argv}
	for _, word := range argv[min(1, len(argv)):] {
		t.uses = t.uses || placeholder.MatchString(word)
	}
	return t
}

// fill returns the command line of a call and its stdin: the arguments as one line of JSON, or nothing if the command
// line has placeholders.
func (t *template) fill(args json.RawMessage) (argv []string, stdin []byte, fault *protocol.Error) {
	if !t.uses {
		return t.argv, append(args[:len(args):len(args)], '\n'), nil
	}
	argv = make([]string, 0, len(t.argv))
	options := true // a word with a leading "-" can be an option
	for i, word := range t.argv {
		if word == "--" {
			options = false
		}
		if i > 0 && placeholder.MatchString(word) {
			name := word[1 : len(word)-1]
			if word, fault = argument(args, name, options); fault != nil {
				return nil, nil, fault
			}
		}
		argv = append(argv, word)
	}
	return argv, nil, nil
}

// argument returns one argument as a word of a command line: the text of a string, the JSON of any other value.
func argument(args json.RawMessage, name string, options bool) (string, *protocol.Error) {
	value := rawjson.Get(args, name)
	if value == nil || string(value) == "null" {
		return "", protocol.Errorf(protocol.InvalidArguments, "argument %q is missing: the command line needs it", name)
	}
	word := string(value)
	if value[0] == '"' {
		_ = json.Unmarshal(value, &word) // params are already known to be valid
	}
	switch {
	case strings.ContainsRune(word, 0):
		return "", protocol.Errorf(protocol.InvalidArguments,
			"argument %q holds a NUL character, which no command line can", name)
	case options && strings.HasPrefix(word, "-"):
		return "", protocol.Errorf(protocol.InvalidArguments,
			`argument %q begins with "-" and would be read as an option`, name)
	}
	return word, nil
}

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
		Dir:           e.spec.WorkDir(),
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
	go func() { // returns when the process ends at the latest, as that closes Stdin
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
		e.spec.Logger.Error("the output of a command was refused", "reason", protocol.Reason(fault), "pid", proc.PID())
	}
	if fault == nil && !complete {
		fault = protocol.Errorf(protocol.LineTooLong, "it wrote more than max_line_bytes (%d) to stdout and was killed",
			e.spec.Options.MaxLineBytes)
	}
	if fault == nil && proc.Exit().Success() { // await returns nil only after the exit
		return outputResult(data), nil
	}
	fault = exitFault(fault, proc)
	if fault.Kind == protocol.ExtensionError {
		fault.Message += e.spec.lineEnds(argv)
	}
	e.spec.suspectSandbox(fault)
	return nil, fault
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
		fault = protocol.Errorf(protocol.ShuttingDown, "%s, and its process was killed",
			stopReason(e.killed, "the host is stopping"))
	}
	proc.Kill()
	select {
	case <-proc.Done():
	case <-time.After(stopTimeout):
		e.spec.Logger.Error("process survived SIGKILL", "pid", proc.PID())
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
		result, _ := toolResult(trimmed)
		return result
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
