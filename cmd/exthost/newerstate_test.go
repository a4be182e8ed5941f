//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/testing/processtest"
)

// TestStateOfANewerVersion marks the state of a directory as that of a newer version while its host runs and has a
// client. Commands of this version still reach that host. None of them starts a host of its own or retires that one.
func TestStateOfANewerVersion(t *testing.T) {
	processtest.Leaks(t)
	dir := project(t, map[string]string{"extensions/kit/plugin.toml": kitManifest})
	c := startClient(t, dir)
	c.open(t)
	newer := hostOf(t, dir)
	formats, _ := filepath.Glob(filepath.Join(dir, "state/exthost/*/.exthost.format"))
	if len(formats) != 1 {
		t.Fatalf("files with a format: %q", formats)
	}
	refused := func(args ...string) {
		t.Helper()
		cmd := program(dir, args...)
		out, err := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != console.ExitGated ||
			!strings.Contains(string(out), formats[0]) || !strings.Contains(string(out), "XDG_STATE_HOME") {
			t.Errorf("exthost %q: exit code %d, %v, %s", args, code, err, out)
		}
	}
	const marked = `{"format":2,"exthost":"9.0.0"}`
	if err := os.WriteFile(formats[0], []byte(marked), 0o600); err != nil {
		t.Fatal(err)
	}
	refused("serve", "--listen", "127.0.0.1:0")
	refused("serve", "--stdio")
	refused("serve", "--stdio", "--own")
	if pid := hostOf(t, dir); pid != newer {
		t.Errorf("the host is now %d, and was %d", pid, newer)
	}
	if out, code := ask(t, dir, "call", "ext_kit_say", "n=1"); code != console.ExitOK {
		t.Errorf("a call of that host: exit code %d, %s", code, out)
	}
	if answer := c.say(t, call(1, "ext_kit_say", `{"n":1}`)); !strings.Contains(answer, `"id":1,"result"`) {
		t.Errorf("its client: %s", answer)
	}
	c.leave(t)
	stopHosts(t, dir)
	awaitEnd(t, newer)
	refused("call", "ext_kit_say", "n=1") // these would open a host themselves
	refused("tools", "list")
	if data, err := os.ReadFile(formats[0]); err != nil || string(data) != marked {
		t.Errorf("the file is now %q, %v", data, err)
	}
}
