package grpcpolicy_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/grpcpolicy"
	"github.com/exthost/exthost/internal/proc/process"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/protocol"
)

// patience bounds every wait for an event; no test waits that long.
const patience = 60 * time.Second

// policy is a service under test and its call of Serve.
type policy struct {
	*grpcpolicy.Service
	t     testing.TB
	log   *logged
	stop  context.CancelFunc
	ready chan struct{}
	ended chan error
}

// spec is a policy whose process is this test binary running script.
func spec(t testing.TB, script string) governance.Spec {
	path, env := processtest.Script(t, script)
	s := governance.Spec{
		Name:     "guard",
		Category: governance.Content,
		Cmd:      []string{path},
		Cwd:      t.TempDir(),
		Env:      map[string]string{processtest.ScriptVar: env[0][len(processtest.ScriptVar)+1:]},
	}
	s.Normalize()
	s.HandshakeTimeout = patience
	return s
}

// start runs Serve until the test ends.
func start(t testing.TB, s governance.Spec) *policy {
	t.Helper()
	set := map[string]string{"TMPDIR": os.TempDir()}
	maps.Copy(set, s.Env)
	env, _ := process.Environ(os.Environ(), process.EnvPolicy{Set: set})
	log := &logged{spoke: make(chan struct{})}
	p := &policy{
		Service: grpcpolicy.New(grpcpolicy.Options{Spec: s, Env: env, Logger: slog.New(log)}),
		t:       t,
		log:     log,
		ready:   make(chan struct{}),
		ended:   make(chan error, 1),
	}
	var ctx context.Context
	ctx, p.stop = context.WithCancel(context.Background())
	go func() { p.ended <- p.Serve(ctx, func() { close(p.ready) }) }()
	t.Cleanup(func() {
		p.stop()
		p.end()
	})
	return p
}

// started waits until the policy is ready.
func started(t testing.TB, s governance.Spec) *policy {
	t.Helper()
	p := start(t, s)
	select {
	case <-p.ready:
	case err := <-p.ended:
		t.Fatalf("not ready: %v", err)
	case <-time.After(patience):
		t.Fatal("neither ready nor over")
	}
	return p
}

// end waits until Serve returns; further calls return the same error.
func (p *policy) end() error {
	p.t.Helper()
	select {
	case err := <-p.ended:
		p.ended <- err
		return err
	case <-time.After(patience):
		p.t.Fatal("Serve does not return")
		return nil
	}
}

// call is a tools/call of tool.
func call(tool string) *governance.Exchange {
	return &governance.Exchange{
		ID:        "d1",
		Method:    "tools/call",
		Caller:    "ann",
		Session:   "s1",
		Extension: "files",
		Tool:      tool,
		ToChild:   true,
		Request: json.RawMessage(`{"name":"` + tool +
			`","arguments":{"path":"/etc","n":12345678901234567890},"later":1}`),
	}
}

func (p *policy) ask(flow governance.Flow, x *governance.Exchange) (governance.Decision, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return p.Decide(ctx, flow, x)
}

// fault returns err as a *protocol.Error.
func fault(t testing.TB, err error) *protocol.Error {
	t.Helper()
	e, ok := errors.AsType[*protocol.Error](err)
	if !ok {
		t.Fatalf("error %v (%T) is no *protocol.Error", err, err)
	}
	return e
}

// sockets returns the existing directories of sockets.
func sockets(t testing.TB) []string {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(os.TempDir(), "exthost-*"))
	if err != nil {
		t.Fatal(err)
	}
	return dirs
}
