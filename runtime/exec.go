package runtime

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"time"

	"github.com/exthost/exthost/internal/concurrent/inflight"
	"github.com/exthost/exthost/internal/recording/cassette"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// ExecRuntime runs an extension that has no connection: each call starts a process, and none runs between calls.
type ExecRuntime struct {
	spec      Spec
	startedAt time.Time
	handshake atomic.Pointer[Handshake] // nil until the commands are resolved
	commands  map[string]*template      // by tool name; set before handshake
	missing   map[string]error          // by tool name, why it has no command; set before handshake

	calls    atomic.Uint64
	inFlight atomic.Int64
	running  inflight.Gate   // calls in flight; closed by Kill
	killed   context.Context // ends with Kill
	kill     context.CancelFunc
}

var _ Instance = (*ExecRuntime)(nil)

func newExec(s Spec) *ExecRuntime {
	e := &ExecRuntime{spec: s, startedAt: time.Now()}
	e.killed, e.kill = context.WithCancel(context.Background())
	return e
}

// Serve implements [Instance]. It resolves the commands of all tools and waits. When ctx ends, it kills the calls in
// flight.
func (e *ExecRuntime) Serve(ctx context.Context, ready func()) error {
	h, err := e.prepare()
	if err != nil {
		return withExtension(&e.spec, SpawnFailed(err))
	}
	e.spec.Record.Start(cassette.Start{Transport: manifest.KindExec, Protocol: manifest.KindExec})
	e.handshake.Store(h)
	e.spec.Record.Offer(h.recorded)
	ready()
	select {
	case <-ctx.Done():
		e.Kill()
	case <-e.killed.Done():
		err = withExtension(&e.spec, protocol.Errorf(protocol.ShuttingDown, "it was killed"))
	}
	<-e.running.Close()
	e.spec.Record.End(cassette.End{})
	return err
}

// Kill implements [Instance]. It kills all calls and admits no more.
func (e *ExecRuntime) Kill() {
	e.running.Close()
	e.kill()
}

// prepare resolves the command of each tool. It drops tools without a command, and fails if none is left.
func (e *ExecRuntime) prepare() (*Handshake, error) {
	m := e.spec.Manifest
	r := reviewOffer(e.spec.ID, declaredOffer(m), m.Capabilities)
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
	h.Diagnostics = r.diagnostics
	if len(h.Tools) == 0 && failed != nil {
		return nil, failed
	}
	return h, nil
}

func (e *ExecRuntime) template(t *manifest.ToolSpec) (*template, error) {
	if len(t.Command) > 0 {
		argv, err := resolved(&e.spec, t.Command)
		return newTemplate(argv), err
	}
	argv, err := CommandLine(&e.spec)
	return newTemplate(argv), err
}

// Call implements [Instance].
func (e *ExecRuntime) Call(ctx context.Context, r *Request) (json.RawMessage, error) {
	if !e.running.Enter() {
		return nil, withExtension(&e.spec, protocol.Errorf(protocol.ShuttingDown, "it is stopping"))
	}
	defer e.running.Leave()
	if e.handshake.Load() == nil {
		return nil, withExtension(&e.spec,
			protocol.Errorf(protocol.NotReady, "its commands have not been looked for yet"))
	}
	id := e.calls.Add(1)
	e.inFlight.Add(1)
	defer e.inFlight.Add(-1)
	e.recordCall(id, r)
	raw, fault := e.call(ctx, r)
	e.recordAnswer(id, raw, fault)
	if fault != nil {
		return nil, withExtension(&e.spec, fault)
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
	return withExtension(&e.spec, noMethod(manifest.KindExec, method))
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
