package program

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/exthost/exthost/internal/testing/processtest"
)

func sh(t *testing.T, line string) Program {
	t.Helper()
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skipf("NOT TESTED: %s: %v", t.Name(), err)
	}
	return Program{Dir: t.TempDir(), Argv: []string{"sh", "-c", line}}
}

func TestRun(t *testing.T) {
	if out, err := sh(t, "echo out; echo note >&2").Run(t.Context()); string(out) != "out\n" || err != nil {
		t.Errorf("%q, %v", out, err)
	}
	_, err := sh(t, "echo out; echo why >&2; exit 3").Run(t.Context())
	if failure, ok := errors.AsType[*Failure](err); !ok || failure.Text != "why" ||
		!strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("%v", err)
	}
	_, err = Program{Dir: t.TempDir(), Argv: []string{"none-of-that-name"}}.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "is needed") {
		t.Errorf("%v", err)
	}
}

// TestBounded: a program that prints without end is stopped at the limit.
func TestBounded(t *testing.T) {
	if _, err := sh(t, "exec cat /dev/zero").Run(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "printed over 64 MiB") {
		t.Errorf("%v", err)
	}
}

// TestCanceled: a program's child processes end with it.
func TestCanceled(t *testing.T) {
	processtest.Leaks(t)
	p := sh(t, "(trap '' INT TERM; touch started; sleep 3600) & wait")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { _, err := p.Run(ctx); ended <- err }()
	await(t, func() bool { _, err := os.Stat(filepath.Join(p.Dir, "started")); return err == nil })
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func await(t *testing.T, done func() bool) {
	t.Helper()
	for began := time.Now(); !done(); time.Sleep(time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatal("it did not begin")
		}
	}
}
