package main

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/testing/processtest"
)

// A locked package starts and works without any network.
func TestPackageStartsWithoutNetwork(t *testing.T) {
	if _, err := exec.LookPath("node"); err != nil {
		t.Skipf("NOT TESTED: %s: node is missing", t.Name())
	}
	processtest.Leaks(t)
	dir := project(t, map[string]string{
		"forecast/package.json": `{"name": "forecast", "version": "1.0.0", "bin": "server.js"}`,
		"forecast/server.js": `
const {readFileSync} = require('fs')
const devices = readFileSync('/proc/net/dev', 'utf8').split('\n').slice(2).map((line) => line.split(':')[0].trim()).filter((name) => name)
require('readline').createInterface({input: process.stdin}).on('line', (line) => {
  const {id, method, params} = JSON.parse(line)
  const results = {
    initialize: () => ({protocolVersion: params.protocolVersion, capabilities: {tools: {}}, serverInfo: {name: 'forecast', version: '1'}}),
    'tools/list': () => ({tools: [{name: 'devices', inputSchema: {type: 'object'}}]}),
    'tools/call': () => ({content: [{type: 'text', text: devices.join(' ')}]}),
  }
  if (id !== undefined) console.log(JSON.stringify({jsonrpc: '2.0', id, result: (results[method] || (() => ({})))()}))
})
`,
	})
	t.Setenv("XDG_STATE_HOME", filepath.Join(dir, "state"))
	t.Cleanup(func() { _, _ = ask(t, dir, "remove", "forecast") }) // read-only directories
	if out, code := ask(t, dir, "add", "./forecast", "--yes"); code != 0 {
		t.Fatalf("exit code %d: %s", code, out)
	}
	cmd := program(dir, "call", "ext_forecast_devices")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWNET | syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Skipf("NOT TESTED: %s: a network namespace: %v", t.Name(), err)
	}
	if devices := strings.TrimSpace(string(out)); err != nil || devices != "lo" {
		t.Errorf("%v: it has the devices %s", err, out)
	}
}

// While a person reads what a package would run, the lock file does not name the package yet. Otherwise it could run
// already with extensions.trust = "lock".
func TestLockFileIsWrittenAfterTheAnswer(t *testing.T) {
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("NOT TESTED: node is missing")
	}
	processtest.Leaks(t)
	dir := project(t, map[string]string{
		"weather/package.json": `{"name": "weather", "version": "1.0.0", "bin": "index.js"}`,
		"weather/index.js":     "",
	})
	t.Setenv("XDG_STATE_HOME", filepath.Join(dir, "state"))
	person, tty := terminal(t)
	cmd := program(dir, "add", "./weather")
	cmd.Stdin, cmd.Stderr, cmd.Env = tty, tty, append(cmd.Env, "EXTHOST_TRUST=")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer kill.Stop()
	tty.Close()
	read, answered := "", false
	var buf [4096]byte
	for {
		n, err := person.Read(buf[:])
		if err != nil { // the program has ended
			break
		}
		if read += string(buf[:n]); answered || !strings.Contains(read, "d details: ") {
			continue
		}
		if _, err := os.Lstat(filepath.Join(dir, "exthost.lock")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("before the answer: %v", err)
		}
		answered = true
		if _, err := person.WriteString("n"); err != nil {
			t.Fatal(err)
		}
	}
	if _ = cmd.Wait(); !answered || cmd.ProcessState.ExitCode() != console.ExitDenied {
		t.Errorf("exit %d\n%s", cmd.ProcessState.ExitCode(), read)
	}
	for _, name := range []string{"exthost.lock", "extensions"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("after no, %s: %v", name, err)
		}
	}
}
