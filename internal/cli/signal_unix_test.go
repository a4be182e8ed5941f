//go:build unix

package cli

import (
	"context"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
)

// TestSecondSignalKills sends a second signal to a program that ends slowly, as soon as the first signal has ended the
// program's context.
func TestSecondSignalKills(t *testing.T) {
	const slow = "EXTHOST_TEST_SLOW_END"
	if os.Getenv(slow) != "" {
		ctx, stop := new(hangup).interruptible(context.Background(), os.Stderr)
		defer stop()
		_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
		<-ctx.Done()
		_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
		select {}
	}
	for range 20 {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSecondSignalKills$", "-test.timeout=10s")
		cmd.Env = append(os.Environ(), slow+"=1")
		output, _ := cmd.CombinedOutput() // the state says how it ended
		status := cmd.ProcessState.Sys().(syscall.WaitStatus)
		if !status.Signaled() || status.Signal() != syscall.SIGTERM {
			t.Fatalf("it ended with %v: %s", cmd.ProcessState, output)
		}
	}
}

// TestSignalsDuringHangup sends SIGTERM while the action on SIGHUP runs, which must end its context. SIGHUPs during the
// action run it once more.
func TestSignalsDuringHangup(t *testing.T) {
	if signal.Ignored(syscall.SIGHUP) {
		t.Skip("SIGHUP is ignored here, as under nohup")
	}
	var h hangup
	ctx, stop := h.interruptible(t.Context(), os.Stderr)
	began := make(chan struct{}, 1)
	next := make(chan struct{})
	h.set(func() {
		began <- struct{}{}
		select {
		case <-next:
		case <-ctx.Done():
		}
	})
	send := func(s syscall.Signal) {
		t.Helper()
		if err := syscall.Kill(os.Getpid(), s); err != nil {
			t.Fatal(err)
		}
	}
	send(syscall.SIGHUP)
	<-began
	send(syscall.SIGHUP)
	next <- struct{}{}
	<-began
	send(syscall.SIGTERM)
	<-ctx.Done()
	stop()
}
