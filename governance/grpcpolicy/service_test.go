package grpcpolicy_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/grpcpolicy"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/protocol"
)

// own gives the test a private directory for its sockets.
func own(t testing.TB) {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "xp")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", dir)
	t.Cleanup(func() { os.RemoveAll(dir) })
}

func TestLife(t *testing.T) {
	processtest.Leaks(t)
	own(t)
	s := spec(t, "plugin name=guard category=content flows=request,RESPONSE commit=abc ready=3 journal=journal")
	s.Config = map[string]any{"level": 3}
	s.CommitHash = "abc"
	s.Flows = []governance.Flow{governance.Request, governance.Response}
	p := started(t, s)
	info := p.Info()
	if info.PID == 0 || info.Handshake <= 0 || info.StartedAt.IsZero() || info.Metadata.GetCommitHash() != "abc" {
		t.Errorf("info: %+v", info)
	}
	dirs := sockets(t)
	if len(dirs) != 1 {
		t.Fatalf("directories of sockets: %v", dirs)
	}
	if dir, err := os.Stat(dirs[0]); err != nil || dir.Mode().Perm() != 0o700 {
		t.Errorf("%v: %v, %v", dirs, dir.Mode(), err)
	}
	if d, err := p.ask(governance.Request, call("allow")); err != nil || d.Action != governance.Allow {
		t.Errorf("decision: %+v, %v", d, err)
	}
	p.stop()
	if err := p.end(); err != nil {
		t.Errorf("asked to stop, Serve returns %v", err)
	}
	if d, err := p.ask(governance.Request, call("allow")); protocol.KindOf(err) != protocol.NotReady ||
		d.Action != governance.Allow {
		t.Errorf("after the end: %+v, %v", d, err)
	}
	if got := sockets(t); len(got) > 0 {
		t.Errorf("left behind: %v", got)
	}
	if said, err := os.ReadFile(filepath.Join(s.Cwd, "journal")); err != nil || string(said) != "shutdown\n" {
		t.Errorf("journal: %q, %v", said, err)
	}
	want := `INFO configured {"level":3}`
	if !slices.ContainsFunc(p.log.lines, func(l string) bool { return strings.HasSuffix(l, want[5:]) }) {
		t.Errorf("what it printed is not logged: %q", p.log.lines)
	}
}

// TestHandshakeFails has one plugin per reason.
func TestHandshakeFails(t *testing.T) {
	for name, tt := range map[string]struct {
		script string
		mod    func(*governance.Spec)
		kind   protocol.Kind
		want   string
	}{
		"name": {"plugin name=other", nil, protocol.HandshakeInvalid,
			`its name is "other", and the configuration says "guard"`},
		"category": {"plugin category=audit", nil, protocol.HandshakeInvalid,
			`its category is "audit", and the configuration says "content"`},
		"commit": {"plugin commit=abd", func(s *governance.Spec) { s.CommitHash = "abc" }, protocol.HandshakeInvalid,
			`its commit is "abd"`},
		"no commit": {"plugin", func(s *governance.Spec) { s.CommitHash = "abc" }, protocol.HandshakeInvalid,
			`its commit is ""`},
		"flows": {"plugin flows=request",
			func(s *governance.Spec) { s.Flows = []governance.Flow{governance.Request, governance.Response} },
			protocol.HandshakeInvalid, `its flows is "request", and the configuration says "response"`},
		"config": {"plugin configure=no_such_level", nil, protocol.HandshakeInvalid,
			"accept its config: no_such_level (InvalidArgument)"},
		"never ready": {"plugin ready=0", soon, protocol.HandshakeTimeout,
			"not ready within LIMIT: warming up"},
		"dies at once": {"err E! no licence; exit 4", nil, protocol.ChildExited,
			"ended during the handshake: exit status 4"},
		"dies in metadata": {"plugin die=GetMetadata", nil, protocol.ChildExited,
			"ended during the handshake: exit status 3"},
		"dies in configure": {"plugin die=Configure", nil, protocol.ChildExited,
			"ended during the handshake: exit status 3"},
		"dies in readiness": {"plugin die=CheckReady", nil, protocol.ChildExited,
			"ended during the handshake: exit status 3"},
		"hangs in metadata": {"plugin hang=GetMetadata", soon, protocol.HandshakeTimeout,
			"answer GetMetadata within LIMIT"},
		"hangs in configure": {"plugin hang=Configure", soon, protocol.HandshakeTimeout,
			"accept its config within LIMIT"},
		"hangs in readiness": {"plugin hang=CheckReady", soon, protocol.HandshakeTimeout,
			"say whether it is ready within LIMIT"},
		"no socket":           {"socket none", soon, protocol.HandshakeTimeout, "listen on its socket within LIMIT"},
		"a file for a socket": {"socket file", soon, protocol.HandshakeTimeout, "listen on its socket within LIMIT"},
		"a silent socket":     {"socket silent", soon, protocol.HandshakeTimeout, "answer GetMetadata within LIMIT"},
		"a babbling socket": {"socket garbage", nil, protocol.HandshakeInvalid,
			"answer GetMetadata: the connection broke"},
		"no program": {"", func(s *governance.Spec) { s.Cmd = []string{"./missing"} }, protocol.SpawnFailed,
			"not found"},
		"no directory": {"", func(s *governance.Spec) { s.Cwd += "/missing" }, protocol.SpawnFailed,
			"working directory"},
	} {
		t.Run(name, func(t *testing.T) {
			processtest.Leaks(t)
			own(t)
			s := spec(t, tt.script)
			if tt.mod != nil {
				tt.mod(&s)
			}
			p := start(t, s)
			e := fault(t, p.end())
			// the machine is busy
			for s.HandshakeTimeout > 0 && s.HandshakeTimeout < patience && !isFault(e, tt.kind, tt.want, &s) {
				s.HandshakeTimeout *= 4
				p = start(t, s)
				e = fault(t, p.end())
			}
			if !isFault(e, tt.kind, tt.want, &s) {
				t.Errorf("error: %v\nwant %s: … %s", e, tt.kind, tt.want)
			}
			select {
			case <-p.ready:
				t.Error("it was called ready")
			default:
			}
			if e.Kind == protocol.ChildExited &&
				(e.Evidence == nil || e.Evidence.ExitCode == nil || len(e.Evidence.Stderr) == 0) {
				t.Errorf("evidence: %+v", e.Evidence)
			}
			if left := sockets(t); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func isFault(e *protocol.Error, kind protocol.Kind, want string, s *governance.Spec) bool {
	return e.Kind == kind && strings.Contains(e.Message, strings.Replace(want, "LIMIT", s.HandshakeTimeout.String(), 1))
}

func soon(s *governance.Spec) { s.HandshakeTimeout = 500 * time.Millisecond }

// Empty, additional and differently spelt metadata is not a mismatch.
func TestHandshakeAcceptsEmptyMetadata(t *testing.T) {
	processtest.Leaks(t)
	own(t)
	s := spec(t, "plugin")
	s.Flows = []governance.Flow{governance.Response}
	started(t, s)
}

// The end of ctx ends the handshake too.
func TestStopWhileStarting(t *testing.T) {
	processtest.Leaks(t)
	own(t)
	p := start(t, spec(t, "out running; socket none"))
	<-p.log.spoke
	p.stop()
	if err := p.end(); err != nil {
		t.Errorf("asked to stop, Serve returns %v", err)
	}
}

// TestDeathEndsCalls has pending calls when the process dies, is killed, closes its socket,
// or is stopped.
func TestDeathEndsCalls(t *testing.T) {
	for name, tt := range map[string]struct {
		kill func(p *policy)
		kind protocol.Kind
		want string
	}{
		"dies": {func(p *policy) { _, _ = p.ask(governance.Request, call("die")) }, protocol.ChildExited,
			"the process ended: exit status 3"},
		"killed": {func(p *policy) { p.Kill() }, protocol.ChildExited, "the process ended: killed by SIGKILL"},
		"severs": {func(p *policy) { _, _ = p.ask(governance.Request, call("sever")) }, protocol.StdoutClosed,
			"gave up its socket"},
		"stops": {func(p *policy) { p.stop() }, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			processtest.Leaks(t)
			own(t)
			p := started(t, spec(t, "plugin"))
			under := make(chan error, 8)
			for range cap(under) {
				go func() {
					d, err := p.ask(governance.Request, call("hang"))
					if err == nil {
						t.Errorf("a decision of nobody: %+v", d)
					}
					under <- err
				}()
			}
			if _, err := p.ask(governance.Request, call("allow")); err != nil { // other calls are served meanwhile
				t.Error(err)
			}
			tt.kill(p)
			for range cap(under) {
				if kind := protocol.KindOf(<-under); kind != protocol.ChildExited && kind != protocol.NotReady {
					t.Errorf("a call under way ended with %s", kind)
				}
			}
			err := p.end()
			if tt.kind == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if e := fault(t, err); e.Kind != tt.kind || !strings.Contains(e.Message, tt.want) {
				t.Errorf("Serve: %v, want %s: … %s", e, tt.kind, tt.want)
			}
		})
	}
}

// A plugin that ignores Shutdown and SIGTERM is killed.
func TestStopLadder(t *testing.T) {
	processtest.Leaks(t)
	own(t)
	p := started(t, spec(t, "ignore; plugin hang=Shutdown"))
	p.stop()
	if err := p.end(); err != nil {
		t.Error(err)
	}
}

// TestEnvironment checks that the policy gets the allowed variables and those of the
// protocol, whatever their previous value.
func TestEnvironment(t *testing.T) {
	processtest.Leaks(t)
	own(t)
	t.Setenv("MY_API_TOKEN", "canary")
	t.Setenv("MCPV_PLUGIN_NAME", "canary")
	t.Setenv("LD_PRELOAD_CANARY", "canary")
	s := spec(t, "env; exit 1")
	p := start(t, s)
	fault(t, p.end())
	got := make(map[string]string)
	for _, line := range p.log.lines {
		_, line, _ = strings.Cut(line, " ")
		name, value, _ := strings.Cut(line, "=")
		if strings.HasPrefix(name, "MCP") {
			got[name] = value
		}
		if strings.Contains(line, "canary") {
			t.Errorf("passed on: %s", line)
		}
	}
	socket := got["MCPV_PLUGIN_SOCKET"]
	if len(socket) == 0 || len(socket) >= 100 || !filepath.IsAbs(socket) {
		t.Errorf("socket: %q", socket)
	}
	want := map[string]string{
		"MCPV_PLUGIN_SOCKET":   socket,
		"MCPD_PLUGIN_SOCKET":   socket,
		"MCPV_PLUGIN_NAME":     "guard",
		"MCPV_PLUGIN_CATEGORY": "content",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the contract (-want +got):\n%s", diff)
	}
}

// A TMPDIR that is too long for a socket is not used.
func TestSocketPathIsShort(t *testing.T) {
	processtest.Leaks(t)
	long := filepath.Join(t.TempDir(), strings.Repeat("long", 25))
	if err := os.Mkdir(long, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", long)
	started(t, spec(t, "plugin"))
	if left := sockets(t); len(left) > 0 {
		t.Errorf("in a path that is too long: %v", left)
	}
}

func TestServeUnstarted(t *testing.T) {
	s := grpcpolicy.New(grpcpolicy.Options{})
	s.Kill()
	if info := s.Info(); info.PID != 0 {
		t.Errorf("info of nothing: %+v", info)
	}
	d, err := s.Decide(context.Background(), governance.Request, call("allow"))
	if protocol.KindOf(err) != protocol.NotReady {
		t.Errorf("nobody decided: %+v, %v", d, err)
	}
}
