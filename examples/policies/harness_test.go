package policies_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/grpcpolicy"
	"github.com/exthost/exthost/governance/mcppolicy"
	"github.com/exthost/exthost/governance/nativepolicy"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/runtime"
)

// patience bounds every wait of a test; no wait takes that long.
const patience = 60 * time.Second

// load returns the policy of the template in dir.
func load(t *testing.T, dir string) governance.Spec {
	t.Helper()
	cfg, err := config.Load(config.LoadOptions{
		File:      filepath.Join(dir, "policy.yaml"),
		Dir:       t.TempDir(),
		UserDir:   "none",
		SystemDir: "none",
		Environ:   []string{},
	})
	if err != nil || len(cfg.Plugins) != 1 {
		t.Fatalf("%s: %v", dir, err)
	}
	return cfg.Plugins[0]
}

// build compiles the program of the template in dir.
func build(t *testing.T, dir string) string {
	t.Helper()
	programs, err := processtest.Build("-ldflags=-w", "./examples/policies/"+dir)
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(programs, filepath.Base(dir))
}

// python returns an interpreter with these modules, or skips the test.
func python(t *testing.T, modules ...string) string {
	t.Helper()
	var candidates []string
	if peers := os.Getenv("EXTHOST_PEERS"); peers != "" {
		candidates = append(candidates, filepath.Join(peers, "venv", "bin", "python3"))
	}
	imports := "import " + strings.Join(append(modules, "sys"), ", ")
	for _, p := range append(candidates, "python3") {
		if path, err := exec.LookPath(p); err == nil && exec.Command(path, "-c", imports).Run() == nil {
			return path
		}
	}
	t.Skipf("NOT TESTED: there is no python3 that does %q; run .ci/peers DIR and set EXTHOST_PEERS to DIR", imports)
	return ""
}

// serve runs Serve until the test ends, and returns when it is ready.
func serve(t *testing.T, run func(ctx context.Context, ready func()) error) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- run(ctx, func() { close(ready) }) }()
	t.Cleanup(func() {
		stop()
		select {
		case <-ended:
		case <-time.After(patience):
			t.Error("it does not stop")
		}
	})
	select {
	case <-ready:
	case err := <-ended:
		ended <- err
		t.Fatalf("not ready: %v", err)
	case <-time.After(patience):
		t.Fatal("neither ready nor over")
	}
}

// start runs a policy of any kind as a host does.
func start(t *testing.T, s governance.Spec) governance.Policy {
	t.Helper()
	s.Normalize()
	if problems := s.Validate(); len(problems) > 0 {
		t.Fatalf("spec: %v", problems)
	}
	s.HandshakeTimeout = patience
	env := os.Environ()
	for name, value := range s.Env {
		env = append(env, name+"="+value)
	}
	switch s.Kind {
	case governance.KindGRPC:
		p := grpcpolicy.New(grpcpolicy.Options{Spec: s, Env: env})
		serve(t, p.Serve)
		return p
	case governance.KindMCP:
		transport := manifest.Transport{
			Kind:     manifest.KindStdio,
			Protocol: manifest.ProtocolMCP,
			Cmd:      s.MCP.Cmd,
			Script:   s.MCP.Script,
		}
		for name, value := range s.MCP.Env {
			env = append(env, name+"="+value)
		}
		p, err := mcppolicy.Open(t.Context(), s, instance(t, s, transport, s.MCP.Cwd, env))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	transport := manifest.Transport{Kind: manifest.KindStdio, Protocol: manifest.ProtocolNative, Cmd: s.Cmd}
	return nativepolicy.New(s, instance(t, s, transport, s.Cwd, env))
}

// caller makes an extension's process the Caller of a policy.
type caller struct{ runtime.Instance }

func (c caller) Call(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	return c.Instance.Call(ctx, &runtime.Request{Method: method, Params: params})
}

func instance(t *testing.T, s governance.Spec, transport manifest.Transport, dir string, env []string) caller {
	t.Helper()
	m := &manifest.Manifest{Plugin: manifest.Plugin{ID: s.Name, Version: "0.0.0"}, Transport: transport}
	settings, err := json.Marshal(s.Config)
	if err != nil || s.Config == nil {
		settings = nil
	}
	o := m.Runtime.Resolve(transport)
	o.StartTimeout = patience
	i, err := runtime.New(runtime.Spec{
		ID:          s.Name,
		Dir:         dir,
		Manifest:    m,
		Options:     o,
		Config:      settings,
		HostVersion: "0.0.1",
		Env:         env,
		StateDir:    t.TempDir(),
	})
	if err != nil {
		t.Fatal(err)
	}
	serve(t, i.Serve)
	return caller{i}
}

// scripted is a policy whose process is this test binary running script.
func scripted(t *testing.T, s governance.Spec, script string) governance.Spec {
	t.Helper()
	path, _ := processtest.Script(t, script)
	env := map[string]string{processtest.ScriptVar: script}
	if s.Kind == governance.KindMCP {
		s.MCP = &governance.MCP{Proto: governance.ProtoStdio, Cmd: []string{path}, Env: env, Cwd: t.TempDir()}
	} else {
		s.Cmd, s.Env, s.Cwd = []string{path}, env, t.TempDir()
	}
	return s
}
