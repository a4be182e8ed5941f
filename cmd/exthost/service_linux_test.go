package main

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/testing/processtest"
)

// The service manager is told that the host serves, lives and ends. Extensions do not get its socket.
func TestServiceManager(t *testing.T) {
	processtest.Leaks(t)
	dir := project(t, map[string]string{
		"extensions/kit/plugin.toml": kitManifest + `command = ["sh", "-c", "echo [$NOTIFY_SOCKET$WATCHDOG_USEC]"]` +
			"\n",
	})
	path := filepath.Join(dir, "notify")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	if err := manager.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	await := func(state string) {
		t.Helper()
		for buffer := make([]byte, 4096); ; {
			n, err := manager.Read(buffer)
			if err != nil {
				t.Fatalf("no %s: %v", state, err)
			}
			if string(buffer[:n]) == state {
				return
			}
		}
	}
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_USEC", "30000")
	s := startServe(t, dir)
	os.Unsetenv("NOTIFY_SOCKET")
	os.Unsetenv("WATCHDOG_USEC")
	await("READY=1")
	await("WATCHDOG=1")
	await("WATCHDOG=1")
	if got := s.call(t, "ext_kit_say", "{}"); !strings.Contains(got, "[]") {
		t.Errorf("the extension gets the manager's variables: %s", got)
	}
	if err := s.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	await("STOPPING=1") // read it before the end: unread keep-alives fill the socket within 0.1 s
	if code := s.end(t, syscall.Signal(0)); code != console.ExitOK {
		t.Errorf("the host: exit code %d, %s", code, s.stderr)
	}
}

// A host with another state directory is found by its directory and by --host, and is named in the error of other
// commands. Disabling an extension changes the files of that host.
func TestHostWithAnotherStateDirectory(t *testing.T) {
	processtest.Leaks(t)
	dir := project(t, map[string]string{"extensions/kit/plugin.toml": kitManifest, "exthost.yaml": ""})
	t.Setenv("XDG_STATE_HOME", "")
	s := startServe(t, dir, "--no-project-config") // with another HOME
	pid := strconv.Itoa(s.Process.Pid)
	other, home := t.TempDir(), t.TempDir()
	elsewhere := func(in string, args ...string) (string, int) {
		cmd := program(in, args...)
		cmd.Env = append(cmd.Env, "HOME="+home, "XDG_STATE_HOME="+home, "XDG_CONFIG_HOME="+home)
		out, _ := cmd.CombinedOutput()
		return string(out), cmd.ProcessState.ExitCode()
	}
	for _, ask := range []struct {
		in   string
		args []string
		code int
		want string
	}{
		{dir, []string{"status"}, console.ExitOK, "pid " + pid},
		{dir, []string{"status", "kit"}, console.ExitOK, "kit"},
		{dir, []string{"call", "ext_kit_say", "text=hello"}, console.ExitOK, "hello"},
		{dir, []string{"check"}, console.ExitFailed, "sudo -u "},
		{other, []string{"status", "--ready", "--host", pid}, console.ExitOK, ""},
		{other, []string{"ps"}, console.ExitOK, pid},
		{other, []string{"ps"}, console.ExitOK, dir},
		{other, []string{"calls", "--host", dir}, console.ExitOK, "ext_kit_say"},
		{other, []string{"status"}, console.ExitNotFound, "elsewhere on this machine: "},
		{other, []string{"status"}, console.ExitNotFound, "next: exthost serve\n"},
		{other, []string{"logs", "--host", "1"}, console.ExitNotFound, "elsewhere on this machine: "},
		{other, []string{"logs", "--host", "1"}, console.ExitNotFound, "next: exthost "},
		{dir, []string{"disable", "kit"}, console.ExitOK, "kit is disabled by the host with pid " + pid},
	} {
		if out, code := elsewhere(ask.in, ask.args...); code != ask.code || !strings.Contains(out, ask.want) {
			t.Errorf("exthost %s: exit code %d, %s", strings.Join(ask.args, " "), code, out)
		}
	}
	if written, _ := filepath.Glob(filepath.Join(home, "*", "*")); len(written) > 0 {
		t.Errorf("the files of who asked were changed: %v", written)
	}
	if out, code := elsewhere(other, "stop", "--host", pid); code != console.ExitOK ||
		!strings.Contains(out, "stopped pid "+pid) {
		t.Errorf("stop: exit code %d, %s", code, out)
	}
	<-s.read
	if err := s.Wait(); err != nil {
		t.Error(err)
	}
}
