//go:build unix

package cli

import (
	"context"
	"os"
	"os/exec"
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
