//go:build unix

package hooks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/internal/proc/process"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/protocol"
)

func TestMain(m *testing.M) { processtest.Main(m, nil) }

// scripts is a directory of executables and their runner.
type scripts struct {
	t      *testing.T
	dir    string
	runner *Runner
	log    *bytes.Buffer
}

func newScripts(t *testing.T) *scripts {
	processtest.Leaks(t)
	containment := process.Contain("")
	log := new(bytes.Buffer)
	s := &scripts{
		t:   t,
		dir: t.TempDir(),
		log: log,
		runner: NewRunner(RunnerOptions{
			Containment: containment,
			Logger:      slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
			Redact:      func(text string) string { return strings.ReplaceAll(text, "hunter2", "***") },
		}),
	}
	t.Cleanup(containment.Close)
	t.Cleanup(s.runner.Close)
	return s
}

func (s *scripts) add(name, text string, mode os.FileMode) string {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		s.t.Fatal(err)
	}
	return path
}

// sh returns the handler of a shell script.
func (s *scripts) sh(p Point, script string, more ...func(*Command)) Handler {
	s.t.Helper()
	c := Command{
		Handler: Handler{Name: "hook", Point: p},
		Argv:    []string{"sh", "-c", script},
		Dir:     s.dir,
		Env:     []string{"PATH=" + os.Getenv("PATH"), "A=1", "A=2"},
	}
	for _, f := range more {
		f(&c)
	}
	h, err := s.runner.Handler(c)
	if err != nil {
		s.t.Fatal(err)
	}
	return h
}

func (s *scripts) run(p Point, script string, more ...func(*Command)) (Outcome, error) {
	s.t.Helper()
	payload := map[Point]string{
		BeforeToolCall: `{"command":"rm -rf /","n":12345678901234567890}`,
		AfterToolCall:  `{"content":[{"type":"text","text":"done"}]}`,
	}[p]
	if payload == "" {
		payload = `{"prompt":"hi"}`
	}
	return NewSet(Options{}, s.sh(p, script, more...)).Run(s.t.Context(), &Event{
		Point:     p,
		Session:   "s1",
		Caller:    "ada",
		Extension: "shell",
		Tool:      "ext_shell_run",
		OwnName:   "run",
		Call:      "call_1",
		Payload:   json.RawMessage(payload),
		Arguments: json.RawMessage(`{"command":"ls"}`),
		Took:      1500 * time.Millisecond,
		Error:     protocol.Errorf(protocol.CallTimeout, "too slow"),
	})
}

// The outputs and exit codes of Claude Code's documentation, and those that hooks of Gemini CLI and Cursor have beside
// them, and the resulting outcome.
func TestClaudeContract(t *testing.T) {
	s := newScripts(t)
	for _, tt := range []struct {
		name    string
		point   Point
		script  string
		want    Decision
		denied  bool
		reason  string
		payload string // "" is unchanged
		context string
	}{
		{"silence", BeforeToolCall, `exit 0`, None, false, "", "", ""},
		{"text is no context of a tool", BeforeToolCall, `echo looks fine`, None, false, "", "", ""},
		{"text is context", BeforeMessage, `echo; echo today is Monday`, None, false, "", "", "today is Monday"},
		{"text is context", SessionStart, `echo today is Monday`, None, false, "", "", "today is Monday"},
		{"exit 2", BeforeToolCall, `echo no deletions >&2; exit 2`, Deny, true, "no deletions", "", ""},
		{"exit 2 without a word", BeforeToolCall, `exit 2`, Deny, true, "exit status 2", "", ""},
		{"exit 2 beats allow", BeforeToolCall,
			`echo '{"hookSpecificOutput":{"permissionDecision":"allow"}}'; echo no >&2; exit 2`, Deny, true, "no", "",
			""},
		{"exit 2 with a reason in JSON", BeforeToolCall, `echo '{"reason":"policy 7"}'; echo no >&2; exit 2`, Deny,
			true, "policy 7", "", ""},
		{"exit 2 with broken JSON", BeforeToolCall, `echo '{"decision":'; echo no >&2; exit 2`, Deny, true, "no", "",
			""},
		{"exit 2 of a prompt", BeforeMessage, `echo no secrets >&2; exit 2`, Deny, true, "no secrets", "", ""},
		{"exit 2 after a tool", AfterToolCall, `echo the file does not compile >&2; exit 2`, None, false, "", "",
			"the file does not compile"},
		{"exit 2 after a failure", ToolCallFailed, `echo try again >&2; exit 2`, None, false, "", "", "try again"},
		{"exit 2 at the end of a turn", AfterMessage, `echo tests fail >&2; exit 2`, Deny, false, "tests fail", "", ""},
		{"exit 2 that means nothing", SessionEnd, `echo no >&2; exit 2`, None, false, "", "", ""},
		{"deny", BeforeToolCall,
			`echo '{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"never"}}'`, Deny, true, "never", "", ""},
		{"ask, and nobody is there", BeforeToolCall,
			`echo '{"hookSpecificOutput":{"permissionDecision":"ask","permissionDecisionReason":"sure?"}}'`, Ask, true,
			"sure?", "", ""},
		{"defer", BeforeToolCall, `echo '{"hookSpecificOutput":{"permissionDecision":"defer"}}'`, Ask, true, "", "",
			""},
		{"allow", BeforeToolCall,
			`echo '{"hookSpecificOutput":{"permissionDecision":"allow","permissionDecisionReason":"fine"},"suppressOutput":true}'`, Allow, false, "fine", "", ""},
		{"old words", BeforeToolCall, `echo '{"decision":"approve","reason":"ok"}'`, Allow, false, "ok", "", ""},
		{"old words", BeforeToolCall, `echo '{"decision":"block","reason":"old"}'`, Deny, true, "old", "", ""},
		{"new words win", BeforeToolCall,
			`echo '{"decision":"approve","hookSpecificOutput":{"permissionDecision":"deny","permissionDecisionReason":"new"}}'`, Deny, true, "new", "", ""},
		{"updatedInput is all of it", BeforeToolCall,
			`echo '{"hookSpecificOutput":{"permissionDecision":"allow","updatedInput":{"command":"ls","keep":null}}}'`,
			Allow, false, "", `{"command":"ls","keep":null}`, ""},
		{"override is a part of it", BeforeToolCall, `echo '{"override":{"command":null}}'`, None, false, "",
			`{"n":12345678901234567890}`, ""},
		{"additionalContext", BeforeToolCall,
			`echo '{"hookSpecificOutput":{"additionalContext":"on a shared machine"}}'`, None, false, "", "",
			"on a shared machine"},
		{"feedback", AfterToolCall,
			`echo '{"decision":"block","reason":"lint fails","hookSpecificOutput":{"additionalContext":"line 3"}}'`,
			None, false, "", "", "lint fails\nline 3"},
		{"a text for a result", AfterToolCall, `echo '{"hookSpecificOutput":{"updatedToolOutput":"redacted"}}'`, None,
			false, "", `{"content":[{"type":"text","text":"redacted"}]}`, ""},
		{"a result for a result", AfterToolCall,
			`echo '{"hookSpecificOutput":{"updatedMCPToolOutput":{"content":[],"isError":true}}}'`, None, false, "",
			`{"content":[],"isError":true}`, ""},
		{"an object for a result", AfterToolCall, `echo '{"hookSpecificOutput":{"updatedToolOutput":{"a":1}}}'`, None,
			false, "", `{"content":[{"type":"text","text":"{\"a\":1}"}],"structuredContent":{"a":1}}`, ""},
		{"Gemini CLI denies", BeforeToolCall, `echo '{"decision":"deny","reason":"never"}'`, Deny, true, "never", "", ""},
		{"Gemini CLI changes a part", BeforeToolCall, `echo '{"hookSpecificOutput":{"tool_input":{"command":"ls"}}}'`,
			None, false, "", `{"command":"ls","n":12345678901234567890}`, ""},
		{"Cursor denies", BeforeToolCall,
			`echo '{"permission":"deny","user_message":"for people","agent_message":"for models"}'`, Deny, true,
			"for models", "", ""},
		{"Cursor asks", BeforeToolCall, `echo '{"permission":"ask","user_message":"sure?"}'`, Ask, true, "sure?", "", ""},
		{"Cursor changes all of it", BeforeToolCall, `echo '{"permission":"allow","updated_input":{"command":"ls"}}'`,
			Allow, false, "", `{"command":"ls"}`, ""},
		{"Cursor refuses a prompt", BeforeMessage, `echo '{"continue":false,"user_message":"no secrets"}'`, Deny, true,
			"no secrets", "", ""},
		{"Cursor replaces a result", AfterToolCall,
			`echo '{"updated_mcp_tool_output":"redacted","additional_context":"see the log"}'`, None, false, "",
			`{"content":[{"type":"text","text":"redacted"}]}`, "see the log"},
		{"Cursor denies with another exit code", BeforeToolCall,
			`echo '{"permission":"deny","agent_message":"and a crash"}'; exit 1`, Deny, true, "and a crash", "", ""},
		{"continue false", BeforeToolCall, `echo '{"continue":false,"stopReason":"build broken"}'`, Deny, true,
			"build broken", "", ""},
		{"continue false after a tool", AfterToolCall, `echo '{"continue":false,"stopReason":"build broken"}'`, None,
			false, "build broken", "", ""},
		{"continue true", BeforeToolCall, `echo '{"continue":true,"systemMessage":"hello"}'`, None, false, "", "", ""},
		{"go on", AfterMessage, `echo '{"decision":"block","reason":"tests fail"}'`, Deny, false, "tests fail", "", ""},
		{"JSON behind noise", BeforeToolCall,
			`echo 'Welcome to your shell!'; echo '{"decision":"block","reason":"late"}'`, Deny, true, "late", "", ""},
		{"a denial with another exit code", BeforeToolCall,
			`echo '{"decision":"block","reason":"and a crash"}'; exit 1`, Deny, true, "and a crash", "", ""},
		{"held back", AfterToolCall, `echo '{"decision":"deny","reason":"secret"}'`, Deny, true, "secret", "", ""},
		{"secrets in reasons", BeforeToolCall, `echo password is hunter2 >&2; exit 2`, Deny, true, "password is ***",
			"", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, err := s.run(tt.point, tt.script)
			if out.Decision != tt.want || (err != nil) != tt.denied || out.Reason != tt.reason ||
				strings.Join(out.Context, "|") != tt.context {
				t.Errorf("%+v, %v", out, err)
			}
			if out.Steps[0].Err != nil {
				t.Errorf("failed: %v", out.Steps[0].Err)
			}
			if out.Changed != (tt.payload != "") || tt.payload != "" && string(out.Payload) != tt.payload {
				t.Errorf("payload %s, want %s", out.Payload, tt.payload)
			}
		})
	}
	if !strings.Contains(s.log.String(), "msg=hello") {
		t.Error("systemMessage was not logged")
	}
}

// The input of a hook in the form of Claude Code.
func TestCommandInput(t *testing.T) {
	s := newScripts(t)
	for p, want := range map[Point]string{
		BeforeToolCall: `{"caller":"ada","cwd":"DIR","extension_id":"shell","hook_event_name":"PreToolUse","permission_mode":"default","session_id":"s1",` +
			`"tool_input":{"command":"rm -rf /","n":12345678901234567890},"tool_name":"ext_shell_run","tool_use_id":"call_1","transcript_path":""}`,
		AfterToolCall: `{"caller":"ada","cwd":"DIR","duration_ms":1500,"extension_id":"shell","hook_event_name":"PostToolUse","permission_mode":"default","session_id":"s1",` +
			`"tool_input":{"command":"ls"},"tool_name":"ext_shell_run","tool_response":{"content":[{"type":"text","text":"done"}]},"tool_use_id":"call_1","transcript_path":""}`,
		ToolCallFailed: `{"caller":"ada","cwd":"DIR","error":"too slow","error_kind":"call_timeout","extension_id":"shell","hook_event_name":"PostToolUseFailure","is_interrupt":false,"permission_mode":"default","session_id":"s1",` +
			`"tool_input":{"command":"ls"},"tool_name":"ext_shell_run","tool_use_id":"call_1","transcript_path":""}`,
		BeforeMessage:      `{"prompt":"hi","caller":"ada","cwd":"DIR","extension_id":"shell","hook_event_name":"UserPromptSubmit","permission_mode":"default","session_id":"s1","transcript_path":""}`,
		BeforeModelRequest: `{"prompt":"hi","caller":"ada","cwd":"DIR","extension_id":"shell","hook_event_name":"BeforeModelRequest","permission_mode":"default","session_id":"s1","transcript_path":""}`,
	} {
		if _, err := s.run(p, `cat > input; echo "$EXTHOST_EVENT $EXTHOST_SESSION_ID $EXTHOST_TOOL $A" > env; pwd > cwd`); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(s.dir, "input"))
		if diff := cmp.Diff(strings.ReplaceAll(want, "DIR", s.dir)+"\n", string(got)); diff != "" || err != nil {
			t.Errorf("%s: %s %v", p, diff, err)
		}
		env, _ := os.ReadFile(filepath.Join(s.dir, "env"))
		if want := fmt.Sprintf("%s s1 ext_shell_run 2\n", p); string(env) != want {
			t.Errorf("%s: environment %q, want %q", p, env, want)
		}
	}
}

// Every failure of a command is judged by on_error and leaves no process behind.
func TestHostileCommands(t *testing.T) {
	s := newScripts(t)
	for _, tt := range []struct {
		name, script, want string
	}{
		{"hangs", `sleep 600`, "no answer within"},
		{"ignores SIGTERM", `trap '' TERM; while :; do sleep 600; done`, "no answer within"},
		{"reads nothing and hangs", `exec sleep 600 <&-`, "no answer within"},
		{"endless output", `yes`, "more than 4 MiB"},
		{"100 MB at once", `head -c 100000000 /dev/zero`, "more than 4 MiB"},
		{"any other exit code", `echo 'cannot open the rules' >&2; exit 1`, "exit status 1: cannot open the rules"},
		{"not found in its shell", `no-such-guard --check`, "exit status 127"},
		{"killed", `kill -9 $$`, "killed by SIGKILL"},
		{"broken JSON", `echo '{"decision":"deny"'`, "begins as JSON"},
		{"invalid UTF-8 in JSON", `printf '{"override":{"a":"\377"}}'`, "invalid UTF-8"},
		{"two objects", `echo '{}{"decision":"block"}'`, "begins as JSON"},
		{"wrong type", `echo '{"continue":"false"}'`, "cannot be used"},
		{"unknown decision", `echo '{"decision":"maybe"}'`, `decision "maybe"`},
		{"allow in spite of a failure", `echo '{"decision":"approve"}'; exit 1`, "exit status 1"},
		{"an input that is no object", `echo '{"hookSpecificOutput":{"updatedInput":[1]}}'`, "not an object"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, onError := range []OnError{AllowOnError, DenyOnError} {
				out, err := s.run(BeforeToolCall, tt.script, func(c *Command) {
					c.OnError, c.Timeout = onError, 20*time.Second
					if strings.HasPrefix(tt.want, "no answer") {
						c.Timeout = 300 * time.Millisecond
					}
				})
				if (err != nil) != (onError == DenyOnError) || out.Changed {
					t.Errorf("on_error %s: %+v, %v", onError, out, err)
				}
				if failure := out.Steps[0].Err; failure == nil || !strings.Contains(failure.Error(), tt.want) {
					t.Errorf("failure %v, want %q", failure, tt.want)
				}
			}
		})
	}
}

// Unusual results that are not failures.
func TestUnusualCommands(t *testing.T) {
	s := newScripts(t)
	for _, tt := range []struct {
		name, script, reason string
	}{
		{"invalid UTF-8 on stderr", `printf 'no \377\376 here\n' >&2; exit 2`, `no \xff\xfe here`},
		{"escape sequences on stderr", `printf '\033[31mred\n' >&2; exit 2`, `\x1b[31mred`},
		{"a flood on stderr", `yes too much | head -n 1000000 >&2; exit 2`,
			strings.Repeat("too much\n", 19) + "too much"},
		{"a grandchild that holds the pipe", `sleep 600 & echo no >&2; exit 2`, "no"},
		{"a grandchild in a session of its own", `setsid sleep 600 & echo no >&2; exit 2`, "no"},
		{"closes everything", `exec >&-; echo no >&2; exec <&-; exit 2`, "no"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if strings.HasPrefix(tt.script, "setsid") {
				processtest.Needs(t, "setsid")
			}
			out, err := s.run(BeforeToolCall, tt.script)
			if err == nil || out.Reason != tt.reason || !json.Valid(json.RawMessage(mustQuote(out.Reason))) {
				t.Errorf("reason %q, %v\nwant %q", out.Reason, err, tt.reason)
			}
		})
	}
}

func mustQuote(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

// The payload exceeds the pipe's buffer, and the command reads it late or never.
func TestLargePayload(t *testing.T) {
	s := newScripts(t)
	e := Event{Point: BeforeToolCall, Payload: json.RawMessage(`{"text":"` + strings.Repeat("x", 3<<20) + `"}`)}
	out, err := NewSet(Options{},
		s.sh(BeforeToolCall, `n=$(wc -c); echo "{\"override\":{\"text\":$n}}"`)).Run(t.Context(), &e)
	if err != nil || string(out.Payload) != fmt.Sprintf(`{"text":%d}`, len(e.commandInput(s.dir))) {
		t.Errorf("%.100s, %v", out.Payload, err)
	}
	if _, err := NewSet(Options{}, s.sh(BeforeToolCall, `exit 0`)).Run(t.Context(), &e); err != nil {
		t.Error(err)
	}
}

// A command that can never run is an error at load time.
func TestMissingCommands(t *testing.T) {
	s := newScripts(t)
	good := s.add("good.sh", "#!/bin/sh\n", 0o755)
	s.add("plain.sh", "#!/bin/sh\n", 0o644)
	s.add("crlf.sh", "#!/bin/sh\r\nexit 2\r\n", 0o755)
	s.add("interpreter", "#!/opt/no/python3\n", 0o755)
	for _, tt := range []struct {
		argv []string
		want string // part of the error; "" is none
	}{
		{[]string{good}, ""},
		{[]string{"./good.sh"}, ""},
		{[]string{"${HERE}/good.sh", "${HERE}"}, ""},
		{[]string{"sh", "-c", "exit 0"}, ""},
		{[]string{"sh", "-c", `echo ${X:-a}${Y%%b*} | cat`}, ""}, // replaced by the shell
		{[]string{"sh", "-c", `"$HERE"/good.sh --strict`}, ""},
		{[]string{"sh", "-c", `$UNKNOWN/hooks/x.sh`}, ""}, // may be set at run time
		{[]string{"sh", "-c", `if [ -f /x ]; then exit 2; fi`}, ""},
		{nil, "empty"},
		{[]string{"./gone.sh"}, "not found"},
		{[]string{"no-such-guard"}, "not found on PATH"},
		{[]string{"./plain.sh"}, "chmod +x"},
		{[]string{"."}, "not found"},
		{[]string{"./"}, "directory"},
		{[]string{"./crlf.sh"}, "CR LF"},
		{[]string{"./interpreter"}, "/opt/no/python3"},
		{[]string{"${GONE}/x"}, "GONE"},
		{[]string{"sh", "-c", `"$HERE"/gone.sh --strict`}, "gone.sh: not found"},
		{[]string{"sh", "-c", `"${HERE}/gone.sh"`}, "gone.sh: not found"},
		{[]string{"sh", "-c", `./plain.sh arg`}, "chmod +x"},
		{[]string{"bash", "-c", `/opt/no/guard`}, "/opt/no/guard: not found"},
	} {
		if _, err := exec.LookPath("bash"); err != nil && len(tt.argv) > 0 && tt.argv[0] == "bash" {
			t.Logf("NOT TESTED: %q needs bash, which is missing", tt.argv)
			continue
		}
		_, err := s.runner.Handler(Command{
			Handler: Handler{Point: BeforeToolCall},
			Argv:    tt.argv,
			Dir:     s.dir,
			Env:     []string{"PATH=" + os.Getenv("PATH"), "HERE=" + s.dir},
		})
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v, want %q", tt.argv, err, tt.want)
		}
	}
	_, err := s.runner.Handler(Command{
		Handler: Handler{Point: BeforeToolCall, Matcher: "("},
		Argv:    []string{good},
	})
	if err == nil {
		t.Error("a bad matcher is accepted")
	}
	if _, err := s.runner.Handler(Command{Handler: Handler{Point: "PreToolUse"}, Argv: []string{good}}); err == nil {
		t.Error("no point is accepted")
	}
}

// At most MaxProcesses run at once; the others wait within their timeout.
func TestCommandsAreBounded(t *testing.T) {
	processtest.Leaks(t)
	dir := t.TempDir()
	r := NewRunner(RunnerOptions{MaxProcesses: 2})
	t.Cleanup(r.Close)
	h, err := r.Handler(Command{
		Handler: Handler{Point: BeforeToolCall},
		Argv: []string{
			"sh",
			"-c",
			`echo . >> started; mkdir a 2>/dev/null || mkdir b 2>/dev/null || exit 3; sleep 0.05; rmdir b 2>/dev/null || rmdir a; exit 0`,
		},
		Dir: dir,
		Env: []string{"PATH=" + os.Getenv("PATH")},
	})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := h.Run(t.Context(), &Event{Point: BeforeToolCall}); err != nil {
				t.Errorf("more than two at once: %v", err)
			}
		})
	}
	wg.Wait()
	started, _ := os.ReadFile(filepath.Join(dir, "started"))
	if n := strings.Count(string(started), "."); n != 8 {
		t.Errorf("%d ran", n)
	}
}

// Close kills running commands, wakes waiting ones and refuses new ones.
func TestCloseEndsCommands(t *testing.T) {
	processtest.Leaks(t)
	r := NewRunner(RunnerOptions{MaxProcesses: 1})
	dir := t.TempDir()
	fifo := filepath.Join(dir, "ready")
	if err := exec.Command("mkfifo", fifo).Run(); err != nil {
		t.Skip(err)
	}
	h, err := r.Handler(Command{
		Handler: Handler{Point: BeforeToolCall},
		Argv:    []string{"sh", "-c", "trap '' TERM; echo x > ready; sleep 600"},
		Dir:     dir,
		Env:     []string{"PATH=" + os.Getenv("PATH")},
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 2)
	for range 2 {
		go func() { _, err := h.Run(t.Context(), &Event{Point: BeforeToolCall}); ended <- err }()
	}
	if _, err := os.ReadFile(fifo); err != nil { // one command runs
		t.Fatal(err)
	}
	r.Close()
	r.Close()
	for range 2 {
		if err := <-ended; !errors.Is(err, errClosed) {
			t.Errorf("ended with %v", err)
		}
	}
	if _, err := h.Run(t.Context(), &Event{Point: BeforeToolCall}); !errors.Is(err, errClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// A caller that cancels does not wait until the command has been stopped.
func TestCallerLeavesCommand(t *testing.T) {
	s := newScripts(t)
	fifo := filepath.Join(s.dir, "ready")
	if err := exec.Command("mkfifo", fifo).Run(); err != nil {
		t.Skip(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { _, _ = os.ReadFile(fifo); cancel() }()
	_, err := NewSet(Options{}, s.sh(BeforeToolCall, `trap '' TERM; echo x > ready; sleep 600`)).Run(ctx,
		&Event{Point: BeforeToolCall})
	if protocol.KindOf(err) != protocol.Canceled {
		t.Errorf("%v", err)
	}
}

func TestPython(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("needs python3")
	}
	s := newScripts(t)
	s.add("guard.py", `#!/usr/bin/env python3
import json, sys
event = json.load(sys.stdin)
if "rm -rf" in event["tool_input"].get("command", ""):
    print(json.dumps({"hookSpecificOutput": {"hookEventName": event["hook_event_name"],
        "permissionDecision": "deny", "permissionDecisionReason": "no " + event["tool_name"]}}))
`, 0o755)
	out, err := s.run(BeforeToolCall, `./guard.py`)
	if err == nil || out.Reason != "no ext_shell_run" {
		t.Errorf("%+v, %v", out, err)
	}
}

// A reply is dropped if the program may have been replaced after it was permitted.
func TestRefusedAfterTheRun(t *testing.T) {
	s := newScripts(t)
	swapped := protocol.Errorf(protocol.Untrusted, "check.sh was replaced")
	permit := func(context.Context) (func() error, error) { return func() error { return swapped }, nil }
	const allow = `{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow", "updatedInput": {"command": "evil"}}}`
	outcome, err := s.run(BeforeToolCall, "echo '"+allow+"'", func(c *Command) { c.Permit = permit })
	if err == nil || strings.Contains(string(outcome.Payload), "evil") ||
		!strings.Contains(err.Error(), "check.sh was replaced") {
		t.Errorf("%+v, %v", outcome, err)
	}
}
