//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/testing/processtest"
)

const talkManifest = `
[plugin]
id = "talk"
version = "0.1.0"
[transport]
kind = "exec"
command = "true"
[[tools]]
name = "say"
description = "Says it on stderr."
command = ["sh", "-c", 'echo "D! $0" >&2; echo "I! $0" >&2; echo done', "{text}"]
input_schema = { type = "object", properties = { text = { type = "string" } } }
`

// ask runs a command of the operator and returns its stdout.
func ask(t *testing.T, dir string, args ...string) (stdout string, code int) {
	t.Helper()
	cmd := program(dir, args...)
	out, err := cmd.Output()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// The lock and the socket of a killed host are not mistaken for a host, and the next host works.
func TestKilledHostIsNoObstacle(t *testing.T) {
	processtest.Leaks(t)
	dir := project(t, map[string]string{
		"extensions/talk/plugin.toml":  talkManifest,
		"extensions/shell/plugin.toml": shellManifest,
	})
	s := startServe(t, dir)
	killed := s.Process.Pid
	if _, code := ask(t, dir, "status"); code != console.ExitOK {
		t.Fatalf("status of a running host: exit code %d", code)
	}
	if err := s.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-s.read
	_ = s.Wait()
	locks, _ := filepath.Glob(filepath.Join(dir, "state/exthost/*/.exthost.lock"))
	lock, err := os.ReadFile(strings.Join(locks, ""))
	if err != nil {
		t.Fatal(err)
	}
	if _, code := ask(t, dir, "status"); code != console.ExitNotFound {
		t.Errorf("status of a killed host: exit code %d", code)
	}
	if out, code := ask(t, dir, "call", "ext_talk_say", "text=x"); code != console.ExitOK || out != "done\n" {
		t.Errorf("a call starts its own extension: %q, exit code %d", out, code)
	}
	s = startServe(t, dir)
	if out, code := ask(t, dir, "status"); code != console.ExitOK ||
		!strings.Contains(out, fmt.Sprintf("pid %d,", s.Process.Pid)) {
		t.Errorf("status of the next host: exit code %d, %s", code, out)
	}
	if code := s.end(t, os.Interrupt); code != console.ExitOK {
		t.Errorf("exit code %d", code)
	}
	said := regexp.MustCompile(
		fmt.Sprintf(`"level":"WARN","msg":"the host before \(pid %d, started 20[^)]*\) did not end by itself(; its guardian ends its processes)?"`, killed)).FindStringSubmatch(s.stderr.String())
	if said == nil || strings.Contains(string(lock), `"guarded":true`) != (said[1] != "") {
		t.Errorf("the next host does not say that the one before was killed: %s", s.stderr)
	}
	s = startServe(t, dir)
	if code := s.end(t, os.Interrupt); code != console.ExitOK ||
		strings.Contains(s.stderr.String(), "the host before") {
		t.Errorf("after an orderly end: exit code %d, %s", code, s.stderr)
	}
}

// shellManifest is an extension that starts with the host.
const shellManifest = `[plugin]
id = "shell"
version = "0.1.0"
[capabilities]
tools = ["t"]
[transport]
command = "sh"
args = ["-c", """
read -r line
echo '{"jsonrpc":"2.0","id":0,"result":{"tools":[{"name":"t","input_schema":{"type":"object"}}]}}'
while read -r line; do :; done
"""]
`

// The lock is in the state directory and the socket in the runtime directory, both accessible only to the user. After
// an orderly end only the empty lock is left.
func TestSocketInRuntimeDirectory(t *testing.T) {
	processtest.Leaks(t)
	dir := project(t, map[string]string{"extensions/talk/plugin.toml": talkManifest})
	runtimeDir, err := os.MkdirTemp("", "run")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(runtimeDir)
	t.Setenv("XDG_RUNTIME_DIR", runtimeDir)
	s := startServe(t, dir)
	sockets, _ := filepath.Glob(filepath.Join(runtimeDir, "exthost-*", "control.sock"))
	if len(sockets) != 1 {
		t.Fatalf("sockets: %q", sockets)
	}
	for path, want := range map[string]os.FileMode{sockets[0]: 0o600, filepath.Dir(sockets[0]): 0o700} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	t.Setenv("XDG_RUNTIME_DIR", "") // as under cron
	if _, code := ask(t, dir, "status"); code != console.ExitOK {
		t.Errorf("it is not found without the variable: exit code %d", code)
	}
	if code := s.end(t, syscall.SIGTERM); code != console.ExitOK {
		t.Errorf("exit code %d", code)
	}
	if left, _ := os.ReadDir(runtimeDir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// stdioHost runs exthost serve --stdio --own with an open stdin.
func stdioHost(t *testing.T, dir string, args ...string) (stop func() error) {
	t.Helper()
	cmd := program(dir, append([]string{"serve", "--stdio", "--own"}, args...)...)
	stdin, stdout := processtest.Piped(t, cmd)
	timeout := time.AfterFunc(patience, func() { cmd.Process.Kill() })
	fmt.Fprintln(stdin, `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	if line, err := stdout.ReadString('\n'); err != nil || !strings.Contains(line, `"id":1`) {
		t.Fatalf("ping is answered %q, %v", line, err)
	}
	return sync.OnceValue(func() error {
		defer timeout.Stop()
		stdin.Close()
		_, _ = io.Copy(io.Discard, stdout)
		return cmd.Wait()
	})
}

// Clients may start --stdio --own in one directory as often as they like. The first has the socket, and does not keep
// an HTTP host from serving.
func TestManyHostsOnStdio(t *testing.T) {
	processtest.Leaks(t)
	dir := project(t, map[string]string{"extensions/talk/plugin.toml": talkManifest})
	first := stdioHost(t, dir)
	defer first()
	second := stdioHost(t, dir)
	defer second()
	if out, code := ask(t, dir, "status"); code != console.ExitOK || !strings.Contains(out, ", stdio\n") {
		t.Errorf("status: exit code %d, %s", code, out)
	}
	s := startServe(t, dir)
	if code := s.end(t, os.Interrupt); code != console.ExitOK ||
		!strings.Contains(s.stderr.String(), "serve --stdio, pid") {
		t.Errorf("an HTTP host beside them: exit code %d, %s", code, s.stderr)
	}
	if err := first(); err != nil {
		t.Error(err)
	}
	if _, code := ask(t, dir, "status"); code != console.ExitNotFound {
		t.Errorf("status after the first has gone: exit code %d", code)
	}
	if err := second(); err != nil {
		t.Error(err)
	}
}

// following is exthost logs -f.
type following struct {
	*exec.Cmd
	lines *bufio.Reader
}

func follow(t *testing.T, dir string, args ...string) *following {
	t.Helper()
	f := &following{Cmd: program(dir, append([]string{"logs", "-f"}, args...)...)}
	stdout, err := f.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	f.lines = bufio.NewReader(stdout)
	if err := f.Start(); err != nil {
		t.Fatal(err)
	}
	timeout := time.AfterFunc(patience, func() { f.Process.Kill() })
	t.Cleanup(func() { timeout.Stop() })
	return f
}

// until reads up to the record with this message.
func (f *following) until(t *testing.T, message string) {
	t.Helper()
	for {
		line, err := f.lines.ReadString('\n')
		if err != nil {
			t.Fatalf("no %q: %v", message, err)
		}
		var r struct{ Extension, Msg string }
		if err := json.Unmarshal([]byte(line), &r); err != nil || r.Extension != "talk" {
			t.Errorf("%q: %v", line, err)
		}
		if r.Msg == message {
			return
		}
	}
}

// logs -f follows new records, and ends with Ctrl-C or the host.
func TestFollowLogs(t *testing.T) {
	processtest.Leaks(t)
	dir := project(t, map[string]string{"extensions/talk/plugin.toml": talkManifest})
	s := startServe(t, dir)
	if _, code := ask(t, dir, "call", "ext_talk_say", "text=before"); code != console.ExitOK {
		t.Fatalf("exit code %d", code)
	}
	interrupted := follow(t, dir, "talk", "-o", "json")
	interrupted.until(t, "before")
	ended := follow(t, dir, "talk", "-o", "json", "--level", "debug")
	ended.until(t, "before")
	ctx, cancel := context.WithCancel(t.Context())
	var calls sync.WaitGroup
	calls.Go(func() { // until the debug record is seen: it is not kept for late followers
		for ctx.Err() == nil {
			ask(t, dir, "call", "ext_talk_say", "text=after")
		}
	})
	interrupted.until(t, "after")
	ended.until(t, "after")
	cancel()
	calls.Wait()
	if err := interrupted.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, interrupted.lines)
	if err := interrupted.Wait(); err != nil {
		t.Errorf("Ctrl-C: %v", err)
	}
	if code := s.end(t, os.Interrupt); code != console.ExitOK {
		t.Errorf("the host: exit code %d, %s", code, s.stderr)
	}
	_, _ = io.Copy(io.Discard, ended.lines)
	if err := ended.Wait(); err != nil {
		t.Errorf("the end of the host: %v", err)
	}
}

// longCall runs a host in a directory with a tool that does not end, and a command that calls it. It returns once the
// tool runs.
func longCall(t *testing.T, configuration ...string) (dir string, s *served, cmd *exec.Cmd, stderr *bytes.Buffer) {
	t.Helper()
	dir = project(t, map[string]string{
		"exthost.yaml":               strings.Join(configuration, ""),
		"extensions/kit/plugin.toml": kitManifest + `command = ["sh", "-c", "echo > running; exec sleep 60"]` + "\n",
	})
	fifo := filepath.Join(dir, "extensions/kit/running")
	if err := exec.Command("mkfifo", fifo).Run(); err != nil {
		t.Skip("mkfifo is missing: a call that does not end is not tested")
	}
	s = startServe(t, dir)
	cmd, stderr = program(dir, "call", "ext_kit_say"), new(bytes.Buffer)
	cmd.Stderr = stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(patience, func() { cmd.Process.Kill() })
	t.Cleanup(func() { late.Stop() })
	if _, err := os.ReadFile(fifo); err != nil { // until the tool runs
		t.Fatal(err)
	}
	return dir, s, cmd, stderr
}

// When the host is killed during a call, the caller is told that the call may have had effects.
func TestCallOfAHostThatIsKilled(t *testing.T) {
	processtest.Leaks(t)
	_, s, cmd, stderr := longCall(t)
	if err := s.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-s.read
	_ = s.Wait()
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != console.ExitFailed ||
		!strings.Contains(stderr.String(), "may have been done\n  next: exthost status") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}

// A call through the host is cancelled with the command.
func TestInterruptedCallOfRunningHost(t *testing.T) {
	processtest.Leaks(t)
	dir, s, cmd, _ := longCall(t)
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != console.ExitCanceled {
		t.Errorf("exit code %d", code)
	}
	for began := time.Now(); ; {
		if out, _ := ask(t, dir, "status", "-o", "json"); strings.Contains(out, `"in_flight": 0`) {
			break
		}
		if time.Since(began) > patience {
			t.Fatal("the call goes on")
		}
	}
	if code := s.end(t, os.Interrupt); code != console.ExitOK {
		t.Errorf("the host: exit code %d", code)
	}
}
