//go:build unix

package runtime

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// execSpec is an extension with one tool, echo, that runs script.
func execSpec(t testing.TB, script string, args ...string) Spec {
	s := spec(t, script)
	s.Manifest.Transport.Kind, s.Manifest.Transport.Protocol = manifest.KindExec, ""
	s.Manifest.Transport.Args = args
	s.Manifest.Tools = []manifest.ToolSpec{{Name: "echo"}}
	return s
}

func TestExecArgumentsOnStdin(t *testing.T) {
	processtest.Leaks(t)
	r := start(t, execSpec(t, "cat"))
	for range 2 {
		raw, err := r.callTool()
		const want = `{"content":[{"type":"text","text":"{\"n\":12345678901234567890}"}],"structuredContent":{"n":12345678901234567890}}`
		if err != nil || string(raw) != want {
			t.Errorf("got %s, %v", raw, err)
		}
	}
	if i := r.Info(); i.PID != 0 || i.Calls != 2 || i.InFlight != 0 || i.Protocol != "exec" {
		t.Errorf("info = %+v", i)
	}
	if h := r.Handshake(); h.Protocol != "exec" || len(h.Tools) != 1 {
		t.Errorf("handshake = %+v", h)
	}
	if _, err := r.request("resources/list", `{}`); protocol.KindOf(err) != protocol.ToolNotFound {
		t.Errorf("another method: %v", err)
	}
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	_, err := r.callTool()
	wantKind(t, err, protocol.ShuttingDown)
}

func TestExecPlaceholders(t *testing.T) {
	processtest.Leaks(t)
	r := start(t, execSpec(t, "args; cat", "{s}", "x{s}", "{n}", "--", "{dash}"))
	call := func(args string) (string, error) {
		raw, err := r.request(protocol.MethodToolsCall, `{"name":"echo","arguments":`+args+`}`)
		return protocol.ToolResult(raw).Text(), err
	}
	got, err := call(`{"s":"a b; $(rm) *","n":{"x":1e3},"dash":"-rf"}`)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a b; $(rm) *", "x{s}", `{"x":1e3}`, "--", "-rf"},
		strings.Split(got, "\n")[1:]); diff != "" {
		t.Error(diff)
	}
	for args, says := range map[string]string{
		`{"s":"--upload-pack=x","n":1,"dash":""}`: `"s" begins with "-"`,
		`{"s":"a","n":-1,"dash":""}`:              `"n" begins with "-"`,
		`{"s":"a\u0000b","n":1,"dash":""}`:        `"s" holds a NUL`,
		`{"s":"a","dash":""}`:                     `"n" is missing`,
	} {
		_, err := call(args)
		wantContains(t, wantKind(t, err, protocol.InvalidArguments).Error(), says)
	}
}

func TestExecResults(t *testing.T) {
	processtest.Leaks(t)
	for script, want := range map[string]string{
		`out plain "text"; out 2`:           `{"content":[{"type":"text","text":"plain \"text\"\n2"}]}`,
		`out {"content":[],"isError":true}`: `{"content":[],"isError":true}`,
		`out "quoted"`:                      `{"content":[{"type":"text","text":"quoted"}]}`,
		`err only talk`:                     `{"content":[{"type":"text","text":""}]}`,
		`say caf\xff`:                       `{"content":[{"type":"text","text":"caf` + "\uFFFD" + `"}]}`,
	} {
		raw, err := start(t, execSpec(t, script)).callTool()
		if err != nil || string(raw) != want {
			t.Errorf("%s: got %s, %v, want %s", script, raw, err, want)
		}
	}
}

func TestExecFailure(t *testing.T) {
	processtest.Leaks(t)
	_, err := start(t, execSpec(t, "out half; err no such city; exit 3")).callTool()
	fault := wantKind(t, err, protocol.ExtensionError)
	wantContains(t, fault.Error(), "exit status 3: no such city")
	if e := fault.Evidence; *e.ExitCode != 3 || string(fault.Data) != `{"exit_code":3}` || fault.Outcome != "" {
		t.Errorf("error = %+v", fault)
	}
	_, err = start(t, execSpec(t, "kill 9")).callTool()
	if fault := wantKind(t, err, protocol.ChildExited); fault.Evidence.Signal != "SIGKILL" ||
		fault.Outcome != "unknown" {
		t.Errorf("error = %+v", fault)
	}
}

func TestExecLimits(t *testing.T) {
	processtest.Leaks(t)
	s := execSpec(t, "bytes 1000000000; hang")
	s.Options.MaxLineBytes = 1 << 20
	_, err := start(t, s).callTool()
	wantKind(t, err, protocol.LineTooLong)

	s = execSpec(t, "fork hang; hang")
	s.Options.CallTimeout = 100 * time.Millisecond
	_, err = start(t, s).callTool()
	if fault := wantKind(t, err, protocol.CallTimeout); fault.Outcome != "unknown" ||
		fault.Evidence.Signal != "SIGKILL" {
		t.Errorf("error = %+v", fault)
	}
}

func TestExecIsCutShort(t *testing.T) {
	processtest.Leaks(t)
	s, m := execSpec(t, "sync begun; hang"), newMeeting(t)
	s.Env = append(s.Env, m.env())
	r := start(t, s)
	ctx, cancel := context.WithCancel(context.Background())
	canceled := r.goCall(ctx, request(`{"name":"echo"}`, ""))
	m.await("begun")()
	cancel()
	wantKind(t, await(t, canceled).err, protocol.Canceled)

	stopped := r.goCall(context.Background(), request(`{"name":"echo"}`, ""))
	m.await("begun")()
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	if fault := wantKind(t, await(t, stopped).err, protocol.ShuttingDown); !strings.HasPrefix(fault.Message,
		errTestStops.Error()+", and its process was killed") {
		t.Errorf("message = %q, want the cause of the stop", fault.Message)
	}
}

// TestExecGrandchildHoldsStdout gets the output of the process even though a grandchild holds its stdout.
func TestExecGrandchildHoldsStdout(t *testing.T) {
	processtest.Leaks(t)
	s, m := execSpec(t, "out mine; orphan sync held"), newMeeting(t)
	s.Env = append(s.Env, m.env())
	r := start(t, s)
	raw, err := r.callTool()
	m.await("held")()
	if err != nil || protocol.ToolResult(raw).Text() != "mine" {
		t.Errorf("got %s, %v", raw, err)
	}
}

func TestExecToolsWithCommands(t *testing.T) {
	processtest.Leaks(t)
	s := execSpec(t, "args")
	self := s.Manifest.Transport.Command
	s.Manifest.Transport.Command = ""
	s.Manifest.Tools = []manifest.ToolSpec{
		{Name: "echo", Command: manifest.Command{self, "one", "{n}"}},
		{Name: "broken", Command: manifest.Command{"no-such-program"}},
	}
	r := start(t, s)
	h := r.Handshake()
	if len(h.Tools) != 1 || len(h.Diagnostics) != 1 || h.Diagnostics[0].Code != "spawn_failed" {
		t.Errorf("handshake = %+v", h)
	}
	raw, err := r.callTool()
	if got := protocol.ToolResult(raw).Text(); err != nil || got != self+"\none\n12345678901234567890" {
		t.Errorf("got %q, %v", got, err)
	}
	s.Manifest.Tools = s.Manifest.Tools[1:]
	launch(t, s).end(protocol.SpawnFailed)
}

func TestCommandLine(t *testing.T) {
	dir := t.TempDir()
	bin := filepath.Join(dir, "bin")
	for _, f := range []string{"bin/python3", "bin/tool", "main.py"} {
		path := filepath.Join(dir, f)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		transport manifest.Transport
		want      []string
	}{
		{manifest.Transport{Command: "./bin/tool", Args: []string{"-v"}}, []string{bin + "/tool", "-v"}},
		{manifest.Transport{Command: "tool"}, []string{bin + "/tool"}},
		{manifest.Transport{Cmd: []string{"tool", "a b"}}, []string{bin + "/tool", "a b"}},
		{manifest.Transport{Script: "main.py", Args: []string{"x"}}, []string{bin + "/python3", dir + "/main.py", "x"}},
	} {
		s := &Spec{Dir: dir, Env: []string{"PATH=" + bin}, Manifest: &manifest.Manifest{Transport: c.transport}}
		got, err := s.CommandLine()
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
			t.Errorf("%+v: %v\n%s", c.transport, err, diff)
		}
	}
}

// Example shows a run from start to end.
func Example() {
	m := &manifest.Manifest{
		Plugin:    manifest.Plugin{ID: "greeter", Version: "1.0.0"},
		Transport: manifest.Transport{Kind: manifest.KindExec, Cmd: []string{"/bin/echo", "hello", "{name}"}},
		Tools:     []manifest.ToolSpec{{Name: "greet"}},
	}
	greeter, err := New(Spec{ID: "greeter", Dir: "/", Manifest: m, Options: m.Runtime.Resolve(m.Transport)})
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ready, gone := make(chan struct{}), make(chan error)
	go func() { gone <- greeter.Serve(ctx, func() { close(ready) }) }()
	<-ready
	result, err := greeter.Call(ctx, &Request{
		Method: protocol.MethodToolsCall,
		Params: json.RawMessage(`{"name":"greet","arguments":{"name":"world"}}`),
	})
	fmt.Println(protocol.ToolResult(result).Text(), err)
	stop()
	fmt.Println(<-gone)
	// Output:
	// hello world <nil>
	// <nil>
}
