package exthost_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

func TestCallEveryKind(t *testing.T) {
	processtest.Leaks(t)
	f := hosttest.NewFolder(t)
	f.Add("native", hosttest.Child("sdk", ""))
	f.Add("official", hosttest.Plays("mcp", `protocol = "mcp"`))
	f.Add("lines", `[transport]
script = "lines.sh"
protocol = "lite"
[[tools]]
name = "hello"
description = "Says hello."
`)
	f.Write("lines/lines.sh", `#!/bin/sh
while read -r line; do
	id=${line##*\"id\":}
	echo "{\"id\":${id%%[!0-9]*},\"result\":\"hello\"}"
done
`)
	f.Add("once", `[transport]
kind = "exec"
command = "echo"
[[tools]]
name = "say"
description = "Says it."
command = ["echo", "{text}"]
input_schema = { type = "object", required = ["text"], properties = { text = { type = "string" } } }
`)
	h := f.Open(exthost.Options{})
	for _, d := range h.Status().Diagnostics {
		if d.Level == protocol.LevelError {
			t.Error(d)
		}
	}
	for _, tt := range []struct {
		tool string
		args any
		want string
	}{
		{"ext_native_greet", map[string]any{"name": "Ada"}, "Hello, Ada!"},
		{"ext_official_upper", map[string]any{"text": "über"}, "ÜBER"},
		{"ext_lines_hello", nil, "hello"},
		{"ext_once_say", json.RawMessage(`{"text":"a $(b) 'c'"}`), "a $(b) 'c'"},
	} {
		got, err := h.Call(hosttest.Deadline(t), tt.tool, tt.args)
		if err != nil || strings.TrimSpace(got.Text()) != tt.want || got.IsError() {
			t.Errorf("%s = %s, %v; want %q", tt.tool, got, err, tt.want)
		}
	}
}

func TestArgumentsArriveAsSent(t *testing.T) {
	h := hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", "")).Open(exthost.Options{})
	const sent = `{"n":12345678901234567890,"f":1.0e+2,"ü":"\u00fc","z":{"b":1,"a":[]},"dup":[1,1]}`
	got, err := h.Call(hosttest.Deadline(t), "ext_x_echo", json.RawMessage(sent))
	if err != nil || string(got.Structured()) != sent {
		t.Errorf("echo = %s, %v\nwant %s", got, err, sent)
	}
}

// All pipes are UTF-8, whatever the machine's encoding is.
func TestBundledScriptsReadUTF8(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("NOT TESTED: extensions/echo and extensions/calc need python3, which is missing")
	}
	processtest.Leaks(t)
	f := &hosttest.Folder{T: t, Dir: "extensions"}
	cfg := f.Config()
	cfg.Extensions.Allowlist = []string{"echo", "calc"}
	h := f.OpenWith(cfg, exthost.Options{Environ: append(os.Environ(), "PYTHONIOENCODING=ascii")})
	for tool, tt := range map[string]struct{ argument, sent, want string }{
		"ext_echo_echo":      {"text", "żółw", "żółw"},
		"ext_calc_calculate": {"expression", "2×3", "U+00D7"}, // named in an error
	} {
		if got, err := h.Call(hosttest.Deadline(t), tool, map[string]any{tt.argument: tt.sent}); err != nil ||
			!strings.Contains(got.Text(), tt.want) {
			t.Errorf("%s: %s, %v", tool, got, err)
		}
	}
}

// Only a front may say who calls.
func TestCallersMetaIsRemoved(t *testing.T) {
	h := hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", "")).Add("told",
		hosttest.Child("sdk", "[context]\npassthrough = true\n")).Open(exthost.Options{})
	for _, sent := range []string{
		`{"a":1,"_meta":{"agent_id":"root"}}`,
		`{"\u005fmeta":{"agent_id":"root"},"a":1}`,
		`{"_meta":1,"a":1,"_meta":2}`,
	} {
		got, err := h.Call(hosttest.Deadline(t), "ext_x_echo", json.RawMessage(sent))
		if err != nil || string(got.Structured()) != `{"a":1}` {
			t.Errorf("echo(%s) = %s, %v", sent, got, err)
		}
	}
	result, err := h.Do(hosttest.Deadline(t), &protocol.Call{
		Session: &protocol.Session{ID: "s1", Caller: "ada"},
		Method:  protocol.MethodToolsCall,
		Params:  json.RawMessage(`{"name":"ext_told_echo","arguments":{"_meta":{"agent_id":"root"}}}`),
	})
	want := `{"_meta":{"agent_id":"ada","session_id":"s1"}}`
	if got := string(protocol.ToolResult(result).Structured()); err != nil || got != want {
		t.Errorf("passthrough: %s, %v; want %s", got, err, want)
	}
}

func TestErrorsNameTheCulprit(t *testing.T) {
	h := hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", "")).Open(exthost.Options{})
	for _, tt := range []struct {
		tool, args string
		kind       protocol.Kind
		text       string
	}{
		{"ext_x_gret", `{}`, protocol.ToolNotFound, `did you mean "ext_x_greet"?`},
		{"ext_x_greet", `{"nmae":"Ada"}`, protocol.InvalidArguments, "name"},
		{"ext_x_greet", `[1]`, protocol.InvalidArguments, "object"},
		{"ext_x_greet", `{"name":`, protocol.InvalidArguments, "JSON"},
		{"ext_x_refuse", `{}`, protocol.ExtensionError, "closed"},
		{"ext_x_greet", `{},"name":"ext_x_die"`, protocol.InvalidArguments, "JSON"},
	} {
		_, err := h.Call(hosttest.Deadline(t), tt.tool, json.RawMessage(tt.args))
		var e *protocol.Error
		if !errors.As(err, &e) || e.Kind != tt.kind || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s(%s): %v; want %s with %q", tt.tool, tt.args, err, tt.kind, tt.text)
		}
		if tt.kind == protocol.ExtensionError &&
			(e.Code != -32050 || string(e.Data) != `{"until":12345678901234567890}` || e.Extension != "x") {
			t.Errorf("the extension's own error arrived as %+v", e)
		}
	}
	result, err := h.Call(hosttest.Deadline(t), "ext_x_fail", nil)
	if err != nil || !result.IsError() || result.Text() != "it is Monday" {
		t.Errorf("fail = %s, %v", result, err)
	}
}

// A hung, a broken and a gated extension do not affect a good one.
func TestBrokenExtensionsDoNotAffectGoodOnes(t *testing.T) {
	processtest.Leaks(t)
	f := hosttest.NewFolder(t)
	f.Add("good", hosttest.Child("sdk", ""))
	f.Add("hung", hosttest.Child("hang", "[runtime]\nstart_timeout = \"600ms\"\n"))
	f.Add("crash", hosttest.Child("err cannot find my config; exit 3", ""))
	f.Add("broken", "[transport]\ncomand = \"x\"\n")
	f.Add("gated", hosttest.Child("sdk",
		"[requires]\nbins = [\"no-such-program\"]\nhint = { no-such-program = \"apt install it\" }\n"))
	h := f.Open(exthost.Options{Mode: exthost.Mode{Background: true}})
	if _, err := h.Call(hosttest.Deadline(t), "ext_good_greet", map[string]any{"name": "Ada"}); err != nil {
		t.Errorf("while another hangs: %v", err)
	}
	if err := h.Ready(hosttest.Deadline(t)); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string][3]string{
		"good":  {"ready", "", ""},
		"hung":  {"failed", "start_timeout", "handshake_timeout"},
		"crash": {"failed", "exit", "child_exited"},
		"gated": {"skipped", "no-such-program", "requirement_missing"},
	} {
		s := hosttest.StatusOf(t, h, id)
		if s.State != want[0] || !strings.Contains(s.Reason, want[1]) {
			t.Errorf("%s is %s: %q; want %s with %q", id, s.State, s.Reason, want[0], want[1])
		}
		if want[2] != "" && !slices.ContainsFunc(h.Status().Diagnostics,
			func(d protocol.Diagnostic) bool { return d.Extension == id && d.Code == want[2] }) {
			t.Errorf("no diagnostic %s for %s in %v", want[2], id, h.Status().Diagnostics)
		}
	}
	if !slices.ContainsFunc(h.Status().Diagnostics, func(d protocol.Diagnostic) bool {
		return d.Line == 5 && strings.Contains(d.Message, "comand") && strings.HasSuffix(d.Path, "broken/plugin.toml")
	}) {
		t.Errorf("the typo in broken/plugin.toml is not located: %v", h.Status().Diagnostics)
	}
	_, err := h.Call(hosttest.Deadline(t), "ext_crash_x", nil)
	if protocol.KindOf(err) != protocol.Failed || !strings.Contains(err.Error(), "exthost status crash") {
		t.Errorf("a tool of a crashed extension: %v", err)
	}
}

func TestCrashEvidenceAndRestart(t *testing.T) {
	processtest.Leaks(t)
	h := hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", "")).Open(exthost.Options{})
	_, err := h.Call(hosttest.Deadline(t), "ext_x_die", nil)
	var e *protocol.Error
	if !errors.As(err, &e) || e.Kind != protocol.ChildExited || e.Outcome != "unknown" || e.Evidence == nil ||
		e.Evidence.ExitCode == nil || *e.Evidence.ExitCode != 3 {
		t.Fatalf("die: %+v", err)
	}
	if err := hosttest.Greet(t, h, "Ada"); err != nil {
		t.Errorf("the first restart is immediate, and yet: %v", err)
	}
	if s := hosttest.StatusOf(t, h, "x"); s.Restarts != 1 || s.State != "ready" {
		t.Errorf("status after the restart: %+v", s)
	}
}

// The recovery of an extension is logged at the same level as its death.
func TestRecoveryIsLogged(t *testing.T) {
	processtest.Leaks(t)
	var log bytes.Buffer
	f := hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", ""))
	h := f.Open(exthost.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if _, err := h.Call(hosttest.Deadline(t), "ext_x_die", nil); protocol.KindOf(err) != protocol.ChildExited {
		t.Fatal(err)
	}
	if err := hosttest.Greet(t, h, "Ada"); err != nil {
		t.Fatal(err)
	}
	if err := h.Close(); err != nil { // after the last event
		t.Fatal(err)
	}
	_, after, died := strings.Cut(log.String(), "died, and will be restarted")
	if !died || strings.Count(log.String(), "ready again") != 1 || !strings.Contains(after, "ready again") {
		t.Errorf("log:\n%s", &log)
	}
}

// The log has the reason why an extension does not start, with its last words and without secrets.
func TestLastWordsAreLogged(t *testing.T) {
	processtest.Leaks(t)
	const secret = "s3cr3t-of-the-database"
	var log bytes.Buffer
	f := hosttest.NewFolder(t).Add("x", `[capabilities]
tools = ["t"]
[requires]
env = ["DB_TOKEN"]
[transport]
command = "sh"
args = ["-c", "echo connecting >&2; echo no route to $DB_TOKEN >&2; exit 1"]
`)
	h := f.Open(exthost.Options{
		Environ: []string{"PATH=" + os.Getenv("PATH"), "DB_TOKEN=" + secret},
		Logger:  slog.New(slog.NewTextHandler(&log, nil)),
	})
	want := "its last words: no route to ***"
	if d := h.Status().Diagnostics; len(d) != 2 || !strings.Contains(d[1].Message, want) {
		t.Errorf("diagnostics: %v", d)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), want) || strings.Contains(log.String(), secret) {
		t.Errorf("log:\n%s", &log)
	}
}

func TestCancellationReachesTheExtension(t *testing.T) {
	state := t.TempDir()
	h := hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", "")).Open(exthost.Options{StateDir: state})
	cancelled := func() (sent bool) {
		ctx, cancel := context.WithCancel(hosttest.Deadline(t))
		done := make(chan error, 1)
		go func() {
			_, err := h.Call(ctx, "ext_x_wait", nil)
			done <- err
		}()
		hosttest.Eventually(t, "the call is under way",
			func() bool { return hosttest.StatusOf(t, h, "x").Instances[0].InFlight > 0 })
		cancel()
		e, ok := errors.AsType[*protocol.Error](<-done)
		if !ok || e.Kind != protocol.Canceled {
			t.Errorf("a cancelled call: %+v", e)
		}
		return e.Outcome == "unknown"
	}
	for !cancelled() { // the instance may be busy starting: then the call was not sent
		t.Log("cancelled before it was sent")
	}
	hosttest.Eventually(t, "the tool hears of it and leaves its mark", func() bool {
		_, err := os.Stat(filepath.Join(state, "x", "cancelled"))
		return err == nil
	})
}

func TestProgressComesBeforeTheAnswer(t *testing.T) {
	h := hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", "")).Open(exthost.Options{})
	client := hosttest.NewRecorder()
	_, err := h.Do(hosttest.Deadline(t), &protocol.Call{
		Client: client,
		Method: protocol.MethodToolsCall,
		Params: json.RawMessage(`{"name":"ext_x_work","_meta":{"progressToken":"mine"}}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`notifications/progress {"progressToken":"mine","progress":1,"total":3,"message":"step"}`,
		`notifications/progress {"progressToken":"mine","progress":2,"total":3,"message":"step"}`,
		`notifications/progress {"progressToken":"mine","progress":3,"total":3,"message":"step"}`,
		`notifications/message {"level":"info","data":"almost","_meta":{"progressToken":"mine"}}`,
	}
	if diff := cmp.Diff(want, client.Heard); diff != "" {
		t.Error(diff)
	}
}

// A child gets no undeclared variable that looks like a secret.
func TestChildrenGetNoUndeclaredSecrets(t *testing.T) {
	f := hosttest.NewFolder(t).Add("plain", hosttest.Child("sdk", "")).Add("declares",
		hosttest.Child("sdk", "[requires]\nenv = [\"GITHUB_TOKEN\", \"DENIED_KEY\"]\n"))
	cfg := f.Config()
	cfg.Extensions.Entries = map[string]config.Entry{
		"declares": {EnvDeny: []string{"DENIED_KEY"}, Env: map[string]string{"ADDED": "1"}},
	}
	host := []string{"PATH=" + os.Getenv("PATH"), "HOME=/home/x", "PLAIN=1", "GITHUB_TOKEN=canary-1",
		"DENIED_KEY=canary-2",
		"DATABASE_URL=postgres://u:canary-3@db/x", "LD_PRELOAD=", "my_secret_thing=canary-4"}
	h := f.OpenWith(cfg, exthost.Options{Environ: host})
	for id, want := range map[string]struct{ has, hasNot, withheld, passed []string }{
		"plain": {[]string{"PLAIN=1", "EXTHOST_EXTENSION_ID=plain"}, []string{"canary"},
			[]string{"DATABASE_URL", "DENIED_KEY", "GITHUB_TOKEN", "LD_PRELOAD", "my_secret_thing"}, nil},
		"declares": {[]string{"GITHUB_TOKEN=canary-1", "ADDED=1"}, []string{"canary-2", "canary-3"},
			[]string{"DATABASE_URL", "DENIED_KEY", "LD_PRELOAD", "my_secret_thing"}, []string{"GITHUB_TOKEN"}},
	} {
		got, err := h.Call(hosttest.Deadline(t), "ext_"+id+"_environ", nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range want.has {
			if !strings.Contains(got.Text(), s) {
				t.Errorf("%s lacks %s", id, s)
			}
		}
		for _, s := range want.hasNot {
			if strings.Contains(got.Text(), s) {
				t.Errorf("%s got %s", id, s)
			}
		}
		s := hosttest.StatusOf(t, h, id)
		if diff := cmp.Diff(want.withheld, s.EnvWithheld); diff != "" {
			t.Errorf("%s, withheld: %s", id, diff)
		}
		if diff := cmp.Diff(want.passed, s.EnvPassedSecrets); diff != "" {
			t.Errorf("%s, passed: %s", id, diff)
		}
	}
}

func TestPerSessionInstances(t *testing.T) {
	processtest.Leaks(t)
	h := hosttest.NewFolder(t).Add("x",
		hosttest.Child("sdk", "[runtime]\ninstances = \"per_session\"\n")).Open(exthost.Options{})
	a, b := &protocol.Session{ID: "a"}, &protocol.Session{ID: "b"}
	ctx, end := context.WithCancel(hosttest.Deadline(t))
	if err := h.Attach(ctx, a); err != nil {
		t.Fatal(err)
	}
	call := func(s *protocol.Session, tool string) error {
		_, err := h.Do(hosttest.Deadline(t),
			&protocol.Call{
				Session: s,
				Method:  protocol.MethodToolsCall,
				Params:  json.RawMessage(`{"name":"` + tool + `"}`),
			})
		return err
	}
	if err := errors.Join(call(a, "ext_x_echo"), call(b, "ext_x_echo")); err != nil {
		t.Fatal(err)
	}
	if kind := protocol.KindOf(call(a, "ext_x_die")); kind != protocol.ChildExited {
		t.Errorf("die: %s", kind)
	}
	for _, i := range hosttest.StatusOf(t, h, "x").Instances {
		if strings.HasSuffix(i.Key, "b") && (i.State != "ready" || i.Restarts != 0) {
			t.Errorf("another session's instance: %+v", i)
		}
	}
	end() // ends its instance too
	hosttest.Eventually(t, "the instance ends with its session", func() bool {
		return !slices.ContainsFunc(hosttest.StatusOf(t, h, "x").Instances,
			func(i status.Instance) bool { return strings.HasSuffix(i.Key, "a") && i.State == "ready" })
	})
}

func TestListChangedReachesAttachedSessions(t *testing.T) {
	f := hosttest.NewFolder(t).Add("late", hosttest.Child("sdk", ""))
	client := hosttest.NewRecorder()
	h := f.Open(exthost.Options{Mode: exthost.Mode{Background: true}})
	if err := h.Attach(hosttest.Deadline(t), &protocol.Session{ID: "s", Client: client}); err != nil {
		t.Fatal(err)
	}
	if err := h.Ready(hosttest.Deadline(t)); err != nil {
		t.Fatal(err)
	}
	if len(hosttest.Names(h)) == 0 {
		t.Fatal("no tools")
	}
	select {
	case method := <-client.On:
		if method != protocol.MethodToolsListChanged {
			t.Errorf("told %s", method)
		}
	case <-hosttest.Deadline(t).Done():
		t.Error("the session was not told of the new tools")
	}
}

func TestCloseDuringStart(t *testing.T) {
	processtest.Leaks(t)
	h := hosttest.NewFolder(t).Add("hung", hosttest.Child("ignore; hang", "")).Add("good",
		hosttest.Child("sdk", "")).Open(exthost.Options{
		Mode: exthost.Mode{Background: true},
	})
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	if _, err := h.Call(hosttest.Deadline(t), "ext_good_greet", nil); err == nil {
		t.Error("a closed host answers")
	}
}

// The configuration of MCP clients is expanded, but never with variables that the child may not have.
func TestSidecarVariables(t *testing.T) {
	f := hosttest.NewFolder(t)
	f.Add("side", "[requires]\nenv = [\"GITHUB_TOKEN\"]\n")
	sidecar, err := json.Marshal(map[string]any{"mcpServers": map[string]any{
		"good": map[string]any{"command": hosttest.Exe(t), "env": map[string]string{
			processtest.ScriptVar: "mcp",
			"TOKEN_COPY":          "${GITHUB_TOKEN}",
			"GITHUB_TOKEN":        "${GITHUB_TOKEN}",
			"MODE":                "${MODE:-fast}",
		}},
		"bad": map[string]any{
			"command": hosttest.Exe(t),
			"env":     map[string]string{"AWS_SECRET_ACCESS_KEY": "${AWS_SECRET_ACCESS_KEY}"},
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	f.Write("side/.mcp.json", string(sidecar))
	h := f.Open(exthost.Options{
		Environ: []string{"PATH=" + os.Getenv("PATH"), "GITHUB_TOKEN=t", "AWS_SECRET_ACCESS_KEY=canary"},
	})
	got, err := h.Call(hosttest.Deadline(t), "ext_side_good_environ", nil)
	for _, want := range []string{"TOKEN_COPY=t\n", "MODE=fast\n", "GITHUB_TOKEN=t\n"} {
		if err != nil || !strings.Contains(got.Text()+"\n", want) {
			t.Errorf("the server's environment lacks %q: %s, %v", want, got.Text(), err)
		}
	}
	bad := hosttest.StatusOf(t, h, "side.bad")
	if bad.State != status.StateSkipped || !strings.Contains(bad.Reason, "AWS_SECRET_ACCESS_KEY") ||
		strings.Contains(bad.Reason, "canary") {
		t.Errorf("side.bad: %+v", bad)
	}
}

// closing closes h and sends the result.
func closing(h *exthost.Host) <-chan error {
	closed := make(chan error, 1)
	go func() { closed <- h.Close() }()
	return closed
}

// Close keeps its deadline with a child that ignores everything.
func TestCloseKeepsItsDeadline(t *testing.T) {
	processtest.Leaks(t)
	f := hosttest.NewFolder(t).Add("deaf",
		hosttest.Plays("ignore; hang", "protocol = \"lite\"\n[[tools]]\nname = \"x\"\n"))
	h := f.Open(exthost.Options{})
	ctx, cancel := context.WithCancel(hosttest.Deadline(t))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = h.Call(ctx, "ext_deaf_x", nil)
	}()
	hosttest.Eventually(t, "the call is under way", func() bool {
		s := hosttest.StatusOf(t, h, "deaf")
		return len(s.Instances) > 0 && s.Instances[0].InFlight > 0
	})
	cancel()
	<-done
	select {
	case err := <-closing(h): // the grace of a lite child would be 30 s
		if err != nil {
			t.Error(err)
		}
	case <-hosttest.Deadline(t).Done():
		t.Error("Close waits for the deaf")
	}
}

// Calls that a policy and a child may read differently are refused.
func TestAmbiguousCallsAreRefused(t *testing.T) {
	h := hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", "")).Open(exthost.Options{})
	for params, kind := range map[string]protocol.Kind{
		`{"name":"ext_x_greet","Name":"die","arguments":{}}`:                   protocol.InvalidArguments,
		`{"name":"ext_x_greet","argument\u017f":{},"arguments":{}}`:            protocol.InvalidArguments,
		`{"name":"ext_x_greet"},"method":"tools/call","params":{"name":"die"}`: protocol.InvalidJSON,
		`{"name":"ext_x_greet","arguments":{"name":"Ada"}`:                     protocol.InvalidJSON,
	} {
		_, err := h.Do(hosttest.Deadline(t),
			&protocol.Call{Method: protocol.MethodToolsCall, Params: json.RawMessage(params)})
		if protocol.KindOf(err) != kind {
			t.Errorf("%s: %v, want %s", params, err, kind)
		}
	}
	_, err := h.Do(hosttest.Deadline(t),
		&protocol.Call{
			Method: protocol.MethodToolsCall,
			Notify: true,
			Params: json.RawMessage(`{"name":"ext_x_greet"}`),
		})
	if protocol.KindOf(err) != protocol.ToolNotFound {
		t.Errorf("a call as a notification: %v", err)
	}
	if s := hosttest.StatusOf(t, h, "x"); s.Calls != 0 {
		t.Errorf("%d calls reached the extension", s.Calls)
	}
}

// stuck is a client that never returns from a notification.
type stuck struct{ told, release chan struct{} }

func (s stuck) Call(context.Context, string, json.RawMessage) (json.RawMessage, error) {
	return nil, protocol.Errorf(protocol.ToolNotFound, "not served")
}

func (s stuck) Notify(context.Context, string, json.RawMessage) error {
	s.told <- struct{}{}
	<-s.release
	return nil
}

// A client that ignores its context delays neither other notifications nor the end of the host.
func TestStuckClientDelaysNeitherOthersNorClose(t *testing.T) {
	processtest.Leaks(t)
	f := hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", ""))
	h, err := exthost.Open(context.Background(), f.Config(),
		exthost.Options{
			StateDir: t.TempDir(),
			Logger:   slog.New(slog.DiscardHandler),
			Mode:     exthost.Mode{Background: true},
		})
	if err != nil {
		t.Fatal(err)
	}
	bad := stuck{make(chan struct{}, 1), make(chan struct{})}
	ctx, end := context.WithCancel(context.Background())
	if err := h.Attach(ctx, &protocol.Session{ID: "bad", Client: bad}); err != nil {
		t.Fatal(err)
	}
	<-bad.told
	select {
	case err := <-closing(h):
		if err == nil || !strings.Contains(err.Error(), "client") {
			t.Errorf("Close: %v; want the client that has not returned", err)
		}
	case <-hosttest.Deadline(t).Done():
		t.Error("Close waits for the client")
	}
	end()
	close(bad.release)
	if err := h.Attach(context.Background(),
		&protocol.Session{ID: "late"}); protocol.KindOf(err) != protocol.ShuttingDown {
		t.Errorf("Attach to a closed host: %v", err)
	}
}
