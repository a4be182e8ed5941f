package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/exthost/exthost/internal/testing/processtest"
)

// isolatedManifest is an extension that leaves a daemon behind. The daemon has left the extension's group, session,
// environment and ancestors.
const isolatedManifest = `
[plugin]
id = "daemon"
version = "0.1.0"
[capabilities]
tools = ["add", "search", "delete"]
[transport]
command = "sh"
args = ["-c", "(env -i PATH=$PATH setsid sh -c 'exec sleep 36017' &); exec exthost extension notes"]
[runtime]
isolate = "pid"
`

// When a serving host is killed, nothing of an extension in a pid namespace is left, whatever it did to hide. status
// and info show the namespace for this extension only.
func TestIsolatedExtension(t *testing.T) {
	processtest.Leaks(t)
	processtest.Needs(t, "setsid")
	plain := strings.NewReplacer(`"daemon"`, `"plain"`, `isolate = "pid"`, "", "36017", "0").Replace(isolatedManifest)
	dir := project(t, map[string]string{
		"extensions/daemon/plugin.toml": isolatedManifest,
		"extensions/plain/plugin.toml":  plain,
	})
	s := startServe(t, dir)
	if out, _ := ask(t, dir, "status", "-o", "json"); strings.Contains(out, "it cannot have a pid namespace") {
		t.Skipf("NOT TESTED: %s: this system gives no pid namespace: %s", t.Name(), out)
	}
	status, _ := ask(t, dir, "status")
	if strings.Count(status, "pid namespace") != 1 || !strings.Contains(status, "processes held by process group") {
		t.Errorf("status:\n%s", status)
	}
	if info, _ := ask(t, dir, "status", "daemon"); !strings.Contains(info, "+ pid namespace") {
		t.Errorf("info:\n%s", info)
	}
	for deadline := time.Now().Add(patience); len(sleepers()) == 0; {
		if time.Now().After(deadline) {
			t.Fatal("there is no daemon")
		}
	}
	if err := s.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-s.read
	_ = s.Wait() // its exit is not tested
	for killed := time.Now(); len(sleepers()) > 0; time.Sleep(time.Millisecond) {
		if time.Since(killed) > patience {
			t.Fatalf("%q lives %v after the host's end", sleepers(), patience)
		}
	}
}

// sleepers returns the running daemons.
func sleepers() (pids []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		if cmdline, _ := os.ReadFile(file); bytes.Equal(cmdline, []byte("sleep\x0036017\x00")) {
			pids = append(pids, filepath.Base(filepath.Dir(file)))
		}
	}
	return pids
}
