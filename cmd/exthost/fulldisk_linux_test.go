package main

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/exthost/exthost/internal/testing/processtest"
)

// atFullDisk is what an operator does while the disk of the log and of the state is full, and afterwards.
const atFullDisk = `
mkdir "$XDG_STATE_HOME" && mount -t tmpfs -o size=1m none "$XDG_STATE_HOME" || exit 77
verdict() { exthost status | sed 's/;.*//; s/(.*//; 1q'; }
{
	exthost trust --all --yes
	exthost serve --config log.yaml & host=$!
	exthost status --ready --wait 20s
} 2>/dev/null >/dev/null
verdict
cat /dev/zero 2>/dev/null >"$XDG_STATE_HOME/rest"
verdict
exthost disable kit 2>&1 | sed 's/: write.*//'
cat exthost.yaml
rm "$XDG_STATE_HOME/rest"
verdict
exthost disable kit >/dev/null && cat exthost.yaml
kill $host; wait $host 2>/dev/null
`

// A full disk is the cause of the verdict while it is full. What cannot be done as a whole is not begun: an edit that
// the user's trust could not follow leaves the configuration as it is.
func TestFullDisk(t *testing.T) {
	processtest.Leaks(t)
	dir := project(t, map[string]string{
		"extensions/kit/plugin.toml": kitManifest,
		"exthost.yaml":               "server: {listen: \"127.0.0.1:0\"}\n",
	})
	if err := os.WriteFile(dir+"/log.yaml", []byte("log: {file: "+dir+"/state/log}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := program(dir)
	cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", atFullDisk}
	cmd.Env = append(cmd.Env, "EXTHOST_TRUST=ask", "EXTHOST_CONFIG=")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.Output()
	if exit, _ := err.(*exec.ExitError); cmd.ProcessState == nil || exit != nil && exit.ExitCode() == 77 {
		t.Skipf("NOT TESTED: a full disk: no file system can be mounted: %v", err)
	}
	const want = `READY: 1 extension with 1 tool
DEGRADED: a disk is full, make room: log.file 
exthost: nothing was changed, because the change could not be trusted
  next: make room on that disk, and try again
server: {listen: "127.0.0.1:0"}
READY: 1 extension with 1 tool
server: {listen: "127.0.0.1:0"}

extensions:
  disabled: [kit]
`
	if strings.TrimSpace(string(out)) != strings.TrimSpace(want) {
		t.Errorf("%v\n%s\nwant\n%s", err, out, want)
	}
}
