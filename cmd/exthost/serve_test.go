package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/testing/processtest"
)

// patience is how long to wait for the program.
const patience = 60 * time.Second

// project returns a new working directory with these files, manifests among them.
func project(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
			os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const kitManifest = `
[plugin]
id = "kit"
version = "0.1.0"
[transport]
kind = "exec"
command = "cat"
[[tools]]
name = "say"
description = "Says its arguments."
`

const notesManifest = `
[plugin]
id = "notes"
version = "0.1.0"
[capabilities]
tools = ["add", "search", "delete"]
[transport]
command = "exthost"
args = ["extension", "notes"]
`

// served is a running exthost serve.
type served struct {
	*exec.Cmd
	url    string
	stderr *transcript
	read   chan struct{} // closed when stderr has been read to its end
}

// transcript collects output.
type transcript struct {
	mu   sync.Mutex
	said strings.Builder
	more chan struct{} // holds a token after new output
}

func (t *transcript) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case t.more <- struct{}{}:
	default:
	}
	return t.said.Write(p)
}

func (t *transcript) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.said.String()
}

// await waits until text has been said.
func (t *transcript) await(test *testing.T, text string) {
	test.Helper()
	t.until(test, strconv.Quote(text), func(said string) bool { return strings.Contains(said, text) })
}

func (t *transcript) until(test *testing.T, what string, holds func(said string) bool) {
	test.Helper()
	timeout := time.After(patience)
	for !holds(t.String()) {
		select {
		case <-t.more:
		case <-timeout:
			test.Fatalf("no %s in:\n%s", what, t)
		}
	}
}

// startServe runs exthost serve on a free port until it says that it serves.
func startServe(t testing.TB, dir string, args ...string) *served {
	t.Helper()
	return startHost(t, program(dir, append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...))
}

func startHost(t testing.TB, cmd *exec.Cmd) *served {
	t.Helper()
	s := &served{Cmd: cmd, stderr: &transcript{more: make(chan struct{}, 1)}, read: make(chan struct{})}
	stderr, err := s.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	timeout := time.AfterFunc(4*patience, func() { s.Process.Kill() })
	t.Cleanup(func() { timeout.Stop() })
	lines := bufio.NewReader(io.TeeReader(stderr, s.stderr))
	for s.url == "" {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			t.Fatalf("%v; stderr:\n%s", err, s.stderr)
		}
		var said struct{ Msg, At string }
		if json.Unmarshal(line, &said) == nil && said.Msg == "serving" {
			s.url = said.At
		}
	}
	go func() { defer close(s.read); _, _ = io.Copy(io.Discard, lines) }()
	return s
}

func program(dir string, args ...string) *exec.Cmd {
	cmd := exec.Command("exthost", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_STATE_HOME="+dir+"/state", "XDG_CONFIG_HOME="+dir+"/config-home",
		"GORACE="+quickExit)
	return cmd
}

// end sends sig and returns the exit code.
func (s *served) end(t *testing.T, sig os.Signal) int {
	t.Helper()
	if err := s.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
	<-s.read
	if err := s.Wait(); err != nil && s.ProcessState.ExitCode() < 0 {
		t.Fatalf("%v; stderr:\n%s", err, s.stderr)
	}
	return s.ProcessState.ExitCode()
}

func (s *served) call(t testing.TB, tool, arguments string) string {
	t.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s,"_meta":{`+
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`, tool, arguments)
	req, err := http.NewRequest("POST", s.url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"Content-Type":         "application/json",
		"Accept":               "application/json, text/event-stream",
		"MCP-Protocol-Version": "2026-07-28",
		"Mcp-Method":           "tools/call",
		"Mcp-Name":             tool,
	} {
		req.Header.Set(name, value)
	}
	defer http.DefaultClient.CloseIdleConnections()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(answer)
}

// A whole life: one line of log at the start and one at the end, calls, and after the signal nothing is left and the
// exit code is 0.
func TestServeHTTP(t *testing.T) {
	for _, sig := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		t.Run(sig.String(), func(t *testing.T) {
			processtest.Leaks(t)
			s := startServe(t, project(t,
				map[string]string{
					"extensions/kit/plugin.toml":   kitManifest,
					"extensions/notes/plugin.toml": notesManifest,
				}))
			answer := s.call(t, "ext_kit_say", `{"n":12345678901234567890}`)
			if !strings.Contains(answer, `12345678901234567890`) {
				t.Errorf("ext_kit_say answers %s", answer)
			}
			if answer := s.call(t, "ext_notes_add", `{"text":"a"}`); !strings.Contains(answer, `"id":1`) {
				t.Errorf("ext_notes_add answers %s", answer)
			}
			if code := s.end(t, sig); code != console.ExitOK {
				t.Errorf("exit code %d; stderr:\n%s", code, s.stderr)
			}
			if n := strings.Count(s.stderr.String(), "\n"); n != 3 {
				t.Errorf("%d lines on stderr, want three: notes starts, the host serves, it stops:\n%s", n, s.stderr)
			}
		})
	}
}

// SIGHUP reloads; an invalid configuration changes nothing.
func TestServeHangup(t *testing.T) {
	if signal.Ignored(syscall.SIGHUP) {
		t.Skip("SIGHUP is ignored here, as under nohup, and so it is by the program")
	}
	processtest.Leaks(t)
	dir := project(t, map[string]string{"extensions/kit/plugin.toml": kitManifest})
	s := startServe(t, dir)
	late := filepath.Join(dir, "extensions", "late")
	if err := os.MkdirAll(late, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(late, "plugin.toml"),
		[]byte(strings.Replace(kitManifest, `"kit"`, `"late"`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	hangup := func(want string) {
		t.Helper()
		if err := s.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		s.stderr.await(t, want)
	}
	hangup("reloaded")
	if answer := s.call(t, "ext_late_say", `{"n":1}`); !strings.Contains(answer, `1`) ||
		strings.Contains(answer, "error") {
		t.Errorf("ext_late_say answers %s", answer)
	}
	if err := os.WriteFile(filepath.Join(dir, "exthost.yaml"), []byte("extensions:\n  enabeld: false\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	hangup("enabeld")
	if !strings.Contains(s.stderr.String(), "exthost.yaml:2:3") {
		t.Errorf("the mistake is not located:\n%s", s.stderr)
	}
	if answer := s.call(t, "ext_kit_say", `{"n":1}`); strings.Contains(answer, "error") {
		t.Errorf("ext_kit_say answers %s", answer)
	}
	if code := s.end(t, os.Interrupt); code != console.ExitOK {
		t.Errorf("exit code %d; stderr:\n%s", code, s.stderr)
	}
}

// A port in use fails before anything is started.
func TestServePortTaken(t *testing.T) {
	processtest.Leaks(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	dir := project(t, map[string]string{"extensions/kit/plugin.toml": kitManifest})
	out, err := program(dir, "serve", "--listen", taken.Addr().String(), "--node", "n").CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != console.ExitFailed {
		t.Errorf("serve on a taken port ends with %v", err)
	}
	want := "exthost: cannot listen on " + taken.Addr().String() + ": address already in use"
	if runtime.GOOS == "linux" {
		self, err := os.ReadFile("/proc/self/comm")
		if err != nil {
			t.Fatal(err)
		}
		want += fmt.Sprintf("; %s listens there, pid %d", strings.TrimSpace(string(self)), os.Getpid())
	}
	want += "; stop that, or take another port, here any free one\n" +
		"  next: exthost serve --node n --listen 127.0.0.1:0\n"
	if string(out) != want {
		t.Errorf("it says\n%swant\n%s", out, want)
	}
}

// Without a token, a host that other machines can reach does not start.
func TestServeExposed(t *testing.T) {
	processtest.Leaks(t)
	out, err := program(project(t, nil), "serve", "--listen", "0.0.0.0:0").CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != console.ExitInvalid ||
		!strings.Contains(string(out), "no token is set") {
		t.Errorf("serve on 0.0.0.0 without a token: %v, %s", err, out)
	}
	weak := program(project(t, map[string]string{"exthost.yaml": "server: {auth: {token_env: WEAK}}"}), "serve",
		"--listen", "0.0.0.0:0")
	weak.Env = append(weak.Env, "WEAK="+strings.Repeat("x", 19))
	out, err = weak.CombinedOutput()
	if !errors.As(err, &exit) || exit.ExitCode() != console.ExitInvalid ||
		!strings.Contains(string(out), "its token of 19 characters can be guessed: at least 20 are needed") ||
		!strings.Contains(string(out), "next: openssl rand -hex 32") || !strings.Contains(string(out), "without TLS") {
		t.Errorf("serve on 0.0.0.0 with a short token: %v, %s", err, out)
	}
}

// A short token is only a warning if no other machine can connect.
func TestServeWithAShortToken(t *testing.T) {
	processtest.Leaks(t)
	t.Setenv("WEAK", "x")
	s := startServe(t, project(t, map[string]string{"exthost.yaml": "server: {auth: {token_env: WEAK}}"}))
	s.end(t, os.Interrupt)
	if !strings.Contains(s.stderr.String(), "the token can be guessed") {
		t.Errorf("%s", s.stderr)
	}
}

// A client may end a host by a signal instead of closing stdin.
func TestServeStdioTerminated(t *testing.T) {
	processtest.Leaks(t)
	dir := project(t, map[string]string{"extensions/notes/plugin.toml": notesManifest})
	cmd := program(dir, "serve", "--stdio", "--own")
	stdin, lines := processtest.Piped(t, cmd)
	defer time.AfterFunc(patience, func() { cmd.Process.Kill() }).Stop()
	fmt.Fprintln(stdin, `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	if line, err := lines.ReadString('\n'); err != nil || !strings.Contains(line, `"id":1`) {
		t.Fatalf("ping is answered %q, %v", line, err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if rest, _ := io.ReadAll(lines); len(rest) > 0 {
		t.Errorf("after SIGTERM: %q", rest)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("serve --stdio --own ends with %v", err)
	}
}

// When nobody reads stdout, the program stops its extensions and ends quietly.
func TestBrokenPipe(t *testing.T) {
	processtest.Leaks(t)
	dir := project(t, map[string]string{"extensions/notes/plugin.toml": notesManifest})
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	defer w.Close()
	var stderr bytes.Buffer
	cmd := program(dir, "tools", "list")
	cmd.Stdout, cmd.Stderr = w, &stderr
	if err := cmd.Run(); err != nil || stderr.Len() > 0 {
		t.Errorf("%v, stderr %q", err, &stderr)
	}
}

// An interrupted call exits with 8 and ends the extension.
func TestInterruptedCall(t *testing.T) {
	processtest.Leaks(t)
	dir := project(t, map[string]string{
		"extensions/kit/plugin.toml": kitManifest + `command = ["sh", "-c", "echo > running; exec sleep 60"]` + "\n",
	})
	fifo := filepath.Join(dir, "extensions/kit/running")
	if err := exec.Command("mkfifo", fifo).Run(); err != nil {
		t.Skip("mkfifo is missing: an interrupted call is not tested")
	}
	var stderr bytes.Buffer
	cmd := program(dir, "call", "ext_kit_say")
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer time.AfterFunc(patience, func() { cmd.Process.Kill() }).Stop()
	if _, err := os.ReadFile(fifo); err != nil { // until the tool runs
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != console.ExitCanceled {
		t.Errorf("exit code %d, stderr %q", code, &stderr)
	}
}
