package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/exthost/exthost/internal/process/processtest"
)

// daemonManifest is an extension that leaves a daemon in a session of its own,
// and says the daemon's pid and its own in a file.
const daemonManifest = `
[plugin]
id = "daemon"
version = "0.1.0"
[capabilities]
tools = ["add", "search", "delete"]
[transport]
command = "sh"
args = ["-c", "(setsid sh -c 'echo $$ > pids; exec sleep 3600' &); until [ -s pids ]; do sleep 0.01; done; echo $$ >> pids; exec exthost extension notes"]
`

// TestK1HostKilled kills a serving host: its extension, the extension's daemon
// and the guardian go, and so they do when it is asked to end.
func TestK1HostKilled(t *testing.T) {
	processtest.Leaks(t)
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		dir := project(t, map[string]string{"extensions/daemon/plugin.toml": daemonManifest})
		s := startServe(t, dir)
		raw, err := os.ReadFile(filepath.Join(dir, "extensions/daemon/pids"))
		if err != nil {
			t.Fatal(err)
		}
		pids := append(strings.Fields(string(raw)), guardianOf(t, s.Process.Pid))
		if len(pids) != 3 {
			t.Fatalf("pids: %q", pids)
		}
		if err := s.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		<-s.read
		_ = s.Wait() // what it returns is not what is looked at
		killed := time.Now()
		for _, pid := range pids {
			for alive(pid) {
				if time.Since(killed) > time.Second {
					t.Fatalf("%v: %s is alive a second after the host's end", sig, pid)
				}
				time.Sleep(time.Millisecond)
			}
		}
	}
}

// guardianOf waits for the guardian of the host pid.
func guardianOf(t *testing.T, pid int) string {
	want := fmt.Appendf(nil, "exthost-guardian-1\x00of\x00%d\x00", pid)
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, file := range files {
			if cmdline, _ := os.ReadFile(file); bytes.Equal(cmdline, want) {
				return filepath.Base(filepath.Dir(file))
			}
		}
	}
	t.Fatalf("the host %s has no guardian", strconv.Itoa(pid))
	return ""
}

// alive reports whether pid runs; a zombie does not.
func alive(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	return err == nil && !bytes.Contains(stat, []byte(") Z "))
}
