//go:build unix

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/testing/processtest"
)

// client is a client of exthost serve --stdio that waits for each response.
type client struct {
	*exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func startClient(t testing.TB, dir string, args ...string) *client {
	t.Helper()
	c := &client{Cmd: program(dir, append([]string{"serve", "--stdio"}, args...)...)}
	c.begin(t)
	return c
}

func (c *client) begin(t testing.TB) {
	t.Helper()
	var err error
	if c.in, err = c.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.out = bufio.NewReader(out)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	timeout := time.AfterFunc(10*patience, func() { c.Process.Kill() })
	t.Cleanup(func() { timeout.Stop() })
}

// say sends a line and returns the next response.
func (c *client) say(t testing.TB, line string) string {
	t.Helper()
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		t.Fatal(err)
	}
	return c.hear(t)
}

// hear returns the next line that is neither a notification nor a request.
func (c *client) hear(t testing.TB) string {
	t.Helper()
	for {
		line, err := c.out.ReadString('\n')
		if err != nil {
			t.Fatalf("after %q: %v", line, err)
		}
		if !strings.Contains(line, `"method":`) {
			return line
		}
	}
}

// open makes the legacy handshake.
func (c *client) open(t testing.TB) {
	t.Helper()
	if answer := c.say(t, `{"jsonrpc":"2.0","id":"open","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`); !strings.Contains(answer, `"result"`) {
		t.Fatalf("initialize is answered %s", answer)
	}
	_, _ = io.WriteString(c.in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n")
}

// leave closes stdin and expects exit code 0.
func (c *client) leave(t testing.TB) {
	t.Helper()
	_ = c.in.Close()
	_, _ = io.Copy(io.Discard, c.out)
	if err := c.Wait(); err != nil {
		t.Errorf("exthost serve --stdio ends with %v", err)
	}
}

// stopHosts ends the hosts in the background of a directory.
func stopHosts(t testing.TB, dir string) {
	t.Helper()
	if out, err := program(dir, "stop").CombinedOutput(); err != nil {
		t.Errorf("exthost stop: %v, %s", err, out)
	}
}

// hostOf returns the pid of the host that exthost status finds.
func hostOf(t testing.TB, dir string) int {
	t.Helper()
	out, err := program(dir, "status", "-o", "json").Output()
	var s struct {
		Status struct{ Host struct{ PID int } }
	}
	if err != nil || json.Unmarshal(out, &s) != nil || s.Status.Host.PID == 0 {
		t.Fatalf("exthost status: %v, %s", err, out)
	}
	return s.Status.Host.PID
}

// awaitEnd waits for the end of a host. It reaps the host if this process has adopted it.
func awaitEnd(t testing.TB, pid int) {
	t.Helper()
	for began := time.Now(); ; runtime.Gosched() {
		reaped, _ := syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
		if reaped == pid || errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			return
		}
		if time.Since(began) > patience {
			t.Fatalf("host %d does not end", pid)
		}
	}
}

// hostLogs returns the logs of the hosts in the background of a directory.
func hostLogs(t testing.TB, dir string) string {
	t.Helper()
	files, _ := filepath.Glob(filepath.Join(dir, "state/exthost/*/.exthost*.log"))
	var all []byte
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, text...)
	}
	return string(all)
}

// oneHost expects that one host has served the clients of a directory.
func oneHost(t testing.TB, dir string) {
	t.Helper()
	log := hostLogs(t, dir)
	// a host may respond before it logs this
	for began := time.Now(); !strings.Contains(log, `"msg":"serving"`) && time.Since(began) < patience; {
		log = hostLogs(t, dir)
	}
	if strings.Count(log, `"msg":"serving"`) != 1 {
		t.Errorf("want one host:\n%s", log)
	}
}

func call(id int, tool, arguments string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, id, tool,
		arguments)
}

// Fifteen clients that start at once in one directory share one host, with one process of each extension; policies see
// each client as its own caller. A signal to a client's process group does not reach the host. After exthost stop, the
// next call of a client starts another host.
func TestClientsShareHost(t *testing.T) {
	processtest.Leaks(t)
	dir := project(t, map[string]string{
		"extensions/notes/plugin.toml": notesManifest,
		"exthost.yaml":                 "audit: {path: audit.jsonl}\n",
	})
	defer stopHosts(t, dir)
	clients := make([]*client, 15)
	for i := range clients {
		clients[i] = startClient(t, dir)
	}
	for i, c := range clients {
		c.open(t)
		answer := c.say(t, call(1, "ext_notes_add", fmt.Sprintf(`{"text":"note %d"}`, i)))
		if !strings.Contains(answer, fmt.Sprintf(`"id":%d,`, i+1)) {
			t.Errorf("client %d: the notes are not shared: %s", i, answer)
		}
	}
	oneHost(t, dir)
	pid := hostOf(t, dir)
	if group, err := syscall.Getpgid(pid); err != nil || group != pid {
		t.Errorf("the host is in the process group %d, %v", group, err)
	}
	if audit, err := os.ReadFile(filepath.Join(dir, "audit.jsonl")); err != nil {
		t.Error(err)
	} else {
		callers := map[string]bool{}
		for _, m := range regexp.MustCompile(`"caller":"(stdio:[^"]+)"`).FindAllStringSubmatch(string(audit), -1) {
			callers[m[1]] = true
		}
		if len(callers) != len(clients) {
			t.Errorf("the policies saw %d callers: %v", len(callers), callers)
		}
	}
	stopHosts(t, dir)
	awaitEnd(t, pid)
	for i, c := range clients {
		if i < 3 {
			answer := c.say(t, call(2, "ext_notes_search", `{"query":"note"}`))
			if !strings.Contains(answer, `"id":2,"result"`) {
				t.Errorf("after exthost stop: %s", answer)
			}
		}
		c.leave(t)
	}
}

// The host is killed while calls are in flight. Each call gets exactly one error, and the next one works, in the
// session that the relay has opened again.
func TestKilledHostUnderCalls(t *testing.T) {
	processtest.Leaks(t)
	dir := project(t, map[string]string{
		"extensions/kit/plugin.toml": kitManifest + `command = ["sh", "-c", "echo x > running; exec sleep 60"]` +
			"\n",
		"extensions/notes/plugin.toml": notesManifest,
	})
	fifo := filepath.Join(dir, "extensions/kit/running")
	if err := exec.Command("mkfifo", fifo).Run(); err != nil {
		t.Skip("mkfifo is missing: a killed host is not tested")
	}
	defer stopHosts(t, dir)
	for _, versions := range []string{"legacy", "modern"} {
		c, meta := startClient(t, dir), ""
		if versions == "legacy" {
			c.open(t)
		} else {
			meta = `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
		}
		request := func(id, tool, arguments string) string {
			return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q,"arguments":%s%s}}`,
				id, tool, arguments, meta)
		}
		answer := c.say(t, request("0", "ext_notes_add", `{"text":"x"}`))
		if !strings.Contains(answer, `"id":0,"result"`) {
			t.Fatalf("%s: %s", versions, answer)
		}
		flying := []string{`1`, `"two"`, `3`}
		for _, id := range flying {
			_, _ = io.WriteString(c.in, request(id, "ext_kit_say", `{}`)+"\n")
			if _, err := os.ReadFile(fifo); err != nil { // until the tool runs
				t.Fatal(err)
			}
		}
		if err := syscall.Kill(hostOf(t, dir), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		failed := map[string]int{}
		for range flying {
			var m struct {
				ID    json.RawMessage
				Error struct {
					Code    int
					Message string
					Data    struct{ Kind, Outcome string }
				}
			}
			answer := c.hear(t)
			if err := json.Unmarshal([]byte(answer), &m); err != nil || m.Error.Code != -32030 ||
				m.Error.Data.Outcome != "unknown" {
				t.Errorf("%s: a call in flight is answered %s", versions, answer)
			}
			failed[string(m.ID)]++
		}
		if diff := cmp.Diff(map[string]int{`1`: 1, `"two"`: 1, `3`: 1}, failed); diff != "" {
			t.Errorf("%s: errors (-want +got):\n%s", versions, diff)
		}
		answer = c.say(t, request("4", "ext_notes_search", `{"query":"x"}`))
		if !strings.Contains(answer, `"id":4,"result"`) {
			t.Errorf("%s: the next call: %s", versions, answer)
		}
		c.leave(t)
	}
}

const varManifest = `
[plugin]
id = "vars"
version = "0.1.0"
[transport]
kind = "exec"
command = "true"
[requires]
env = ["SHARED_TOKEN"]
[[tools]]
name = "show"
description = "Shows a variable."
command = ["sh", "-c", "echo token=$SHARED_TOKEN"]
`

// Clients do not share a host if a variable that an extension declares, or a flag, differs; other variables do not
// matter. Values appear in no name and no log.
func TestClientsWithOtherVariablesShareNoHost(t *testing.T) {
	processtest.Leaks(t)
	dir := project(t, map[string]string{
		"extensions/vars/plugin.toml": varManifest,
		"other/kit/plugin.toml":       kitManifest,
	})
	defer stopHosts(t, dir)
	t.Setenv("SHARED_TOKEN", "first-secret")
	a := startClient(t, dir)
	a.open(t)
	t.Setenv("UNRELATED", "x")
	same := startClient(t, dir)
	same.open(t)
	t.Setenv("SHARED_TOKEN", "second-secret")
	t.Setenv("EXTHOST_LOG_LEVEL", "debug")
	var stderr bytes.Buffer
	b := &client{Cmd: program(dir, "serve", "--stdio")}
	b.Stderr = &stderr
	b.begin(t)
	b.open(t)
	flags := startClient(t, dir, "--extensions", "other")
	flags.open(t)
	for _, tt := range []struct {
		of   *client
		want string
	}{{a, "token=first-secret"}, {same, "token=first-secret"}, {b, "token=second-secret"}} {
		if answer := tt.of.say(t, call(1, "ext_vars_show", `{}`)); !strings.Contains(answer, tt.want) {
			t.Errorf("want %s: %s", tt.want, answer)
		}
	}
	answer := flags.say(t, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	if !strings.Contains(answer, "ext_kit_say") || strings.Contains(answer, "ext_vars_show") {
		t.Errorf("with --extensions: %s", answer)
	}
	if out, err := program(dir, "status").Output(); err != nil ||
		!regexp.MustCompile(`log in .*/\.exthost\.log\n.*beside it, .*: pid \d+, \d+\n`).Match(out) {
		t.Errorf("status: %v, %s", err, out)
	}
	log := hostLogs(t, dir)
	if n := strings.Count(log, `"msg":"serving"`); n != 3 {
		t.Errorf("%d hosts:\n%s", n, log)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "state/exthost/*/.*"))
	for _, file := range files {
		text, _ := os.ReadFile(file)
		if strings.Contains(file+string(text), "-secret") {
			t.Errorf("a secret is in %s: %s", file, text)
		}
	}
	for _, c := range []*client{a, same, b, flags} {
		c.leave(t)
	}
	const why = "the client has other values of EXTHOST_LOG_LEVEL, SHARED_TOKEN"
	if n := strings.Count(log, `"msg":"a client on stdio gets another host","client":"stdio:`+
		fmt.Sprint(b.Process.Pid)); n != 1 || !strings.Contains(log, why) {
		t.Errorf("the log tells %d times why another host was started:\n%s", n, log)
	}
	if said := regexp.MustCompile(
		`^warn: started another host for this client, because it cannot share what runs in this directory: pid \d+: (.*)\n$`).FindStringSubmatch(stderr.String()); said == nil || said[1] != why {
		t.Errorf("stderr: %q, want %q", &stderr, why)
	}
}

// After a change of the manifests a variable matters: a client with another value gets another host at its next call.
func TestClientMovesWhenAVariableMatters(t *testing.T) {
	processtest.Leaks(t)
	const needs = "[requires]\nenv = [\"SHARED_TOKEN\"]\n"
	dir := project(t, map[string]string{"extensions/vars/plugin.toml": strings.Replace(varManifest, needs, "", 1)})
	defer stopHosts(t, dir)
	t.Setenv("SHARED_TOKEN", "one")
	a := startClient(t, dir)
	a.open(t)
	t.Setenv("SHARED_TOKEN", "two")
	b := startClient(t, dir)
	b.open(t)
	oneHost(t, dir)
	if err := os.WriteFile(filepath.Join(dir, "extensions/vars/plugin.toml"), []byte(varManifest), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := program(dir, "reload").CombinedOutput(); err != nil {
		t.Fatalf("reload: %v, %s", err, out)
	}
	for c, want := range map[*client]string{a: "token=one", b: "token=two"} {
		if answer := c.say(t, call(1, "ext_vars_show", `{}`)); !strings.Contains(answer, want) {
			t.Errorf("want %s: %s", want, answer)
		}
		c.leave(t)
	}
}

// A host in the background ends when it has had no client for server.idle_exit. An exthost serve of the directory takes
// over the clients on stdio.
func TestHostOfClients(t *testing.T) {
	processtest.Leaks(t)
	dir := project(t, map[string]string{
		"extensions/notes/plugin.toml": notesManifest,
		"exthost.yaml":                 "server: {idle_exit: 1ms}\n",
	})
	c := startClient(t, dir)
	c.open(t)
	pid := hostOf(t, dir)
	c.leave(t)
	awaitEnd(t, pid)
	s := startServe(t, dir)
	c = startClient(t, dir)
	c.open(t)
	answer := c.say(t, call(1, "ext_notes_add", `{"text":"of stdio"}`))
	if !strings.Contains(answer, `"id":1,"result"`) {
		t.Errorf("ext_notes_add answers %s", answer)
	}
	if answer := s.call(t, "ext_notes_search", `{"query":"stdio"}`); !strings.Contains(answer, "of stdio") {
		t.Errorf("the host on HTTP has another state: %s", answer)
	}
	c.leave(t)
	if code := s.end(t, os.Interrupt); code != console.ExitOK {
		t.Errorf("exit code %d, %s", code, s.stderr)
	}
}

// A client of a new program version gets a host of that version; the old host ends with its last client.
func TestNewProgramGetsItsOwnHost(t *testing.T) {
	processtest.Leaks(t)
	dir := project(t, map[string]string{"extensions/kit/plugin.toml": kitManifest})
	defer stopHosts(t, dir)
	old := startClient(t, dir)
	old.open(t)
	oldHost := hostOf(t, dir)
	path, err := exec.LookPath("exthost")
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	upgraded := filepath.Join(t.TempDir(), "exthost")
	if err := os.WriteFile(upgraded, data, 0o755); err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	c := client{Cmd: program(dir, "serve", "--stdio")}
	c.Path, c.Stderr = upgraded, &stderr
	c.begin(t)
	c.open(t)
	if answer := old.say(t, call(1, "ext_kit_say", `{"n":1}`)); !strings.Contains(answer, `"id":1,"result"`) {
		t.Errorf("the old client: %s", answer)
	}
	old.leave(t)
	awaitEnd(t, oldHost)
	if answer := c.say(t, call(1, "ext_kit_say", `{"n":1}`)); !strings.Contains(answer, `"id":1,"result"`) {
		t.Errorf("the new client: %s", answer)
	}
	c.leave(t)
	if !strings.Contains(stderr.String(),
		"started another host for this client, because it cannot share what runs in this directory: pid ") {
		t.Errorf("nobody is told: %s", &stderr)
	}
}

// Lines longer than the buffer of a relay pass in both directions, and a path too long for a socket works.
func TestLongLinesAndPaths(t *testing.T) {
	processtest.Leaks(t)
	dir := project(t, map[string]string{"extensions/kit/plugin.toml": kitManifest})
	t.Setenv("EXTHOST_EXTENSIONS_MAX_DEPTH", "4") // a variable of the configuration, which the host gets too
	dir = filepath.Join(dir, strings.Repeat("long/", 30))
	if err := os.MkdirAll(filepath.Join(dir, "extensions/kit"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "extensions/kit/plugin.toml"), []byte(kitManifest), 0o600); err != nil {
		t.Fatal(err)
	}
	defer stopHosts(t, dir)
	c := startClient(t, dir)
	c.open(t)
	long := strings.Repeat("0123456789abcde\\n", 40<<10)
	answer := c.say(t, call(1, "ext_kit_say", `{"text":"`+long+`"}`))
	if !strings.Contains(answer, `"id":1,"result"`) || strings.Count(answer, "0123456789abcde") < 40<<10 {
		t.Errorf("%d bytes: %.200s", len(answer), answer)
	}
	c.leave(t)
}
