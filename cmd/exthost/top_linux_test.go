package main

import (
	"io"
	"os"
	"syscall"
	"testing"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/testing/processtest"
)

// TestTop watches a host in a terminal, restarts an extension by a key, and sees the host end.
func TestTop(t *testing.T) {
	processtest.Leaks(t)
	dir := project(t, map[string]string{"extensions/kit/plugin.toml": kitManifest})
	if out, err := program(dir, "top").CombinedOutput(); err == nil {
		t.Errorf("without a terminal: %s", out)
	}
	s := startServe(t, dir)
	person, tty := terminal(t)
	top := program(dir, "top")
	top.Stdin, top.Stdout, top.Stderr = tty, tty, tty
	top.Env = append(top.Env, "TERM=xterm-256color", "NO_COLOR=1")
	if err := top.Start(); err != nil {
		t.Fatal(err)
	}
	tty.Close()
	screen, read := &transcript{more: make(chan struct{}, 1)}, make(chan struct{})
	go func() { defer close(read); _, _ = io.Copy(screen, person) }() // until the program ends
	screen.await(t, "EXTENSION")
	screen.await(t, "kit")
	for _, key := range []string{"r", "y"} {
		if _, err := person.WriteString(key); err != nil {
			t.Fatal(err)
		}
		if key == "r" {
			screen.await(t, "yes, any other key no")
		}
	}
	s.stderr.await(t, "restarted by the operator")
	s.call(t, "ext_kit_say", "{}")
	screen.await(t, "ext_kit_say")
	if code := s.end(t, os.Interrupt); code != console.ExitOK {
		t.Errorf("the host: exit code %d", code)
	}
	screen.await(t, "has ended")
	if err := top.Wait(); top.ProcessState.ExitCode() != console.ExitFailed {
		t.Errorf("beside a host that has ended: %v", err)
	}
	<-read
	if state := top.ProcessState.Sys().(syscall.WaitStatus); state.Signaled() {
		t.Errorf("ended by %v", state.Signal())
	}
}
