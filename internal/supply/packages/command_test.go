package packages

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

func sh(t *testing.T, line string) command {
	t.Helper()
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skipf("NOT TESTED: %s: %v", t.Name(), err)
	}
	return command{dir: t.TempDir(), argv: []string{"sh", "-c", line}}
}

func TestCommandReturnsItsOutput(t *testing.T) {
	if out, err := sh(t, "echo out; echo note >&2").run(t.Context()); string(out) != "out\n" || err != nil {
		t.Errorf("%q, %v", out, err)
	}
	_, err := sh(t, "echo out; echo why >&2; exit 3").run(t.Context())
	if failure, ok := errors.AsType[*failedCommand](err); !ok || failure.text != "why" ||
		!strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("%v", err)
	}
	_, err = command{dir: t.TempDir(), argv: []string{"none-of-that-name"}}.run(t.Context())
	if err == nil || err.Error() != "none-of-that-name is needed and is not on PATH: install none-of-that-name" {
		t.Errorf("%v", err)
	}
	_, err = command{dir: t.TempDir(), argv: []string{"npm"}, env: []string{"PATH=/none"}}.run(t.Context())
	if err == nil || !strings.HasSuffix(err.Error(), ": install Node.js 18 or newer") {
		t.Errorf("%v", err)
	}
}

// TestCommandOutputIsBounded: a program that prints without end is stopped at the limit.
func TestCommandOutputIsBounded(t *testing.T) {
	if _, err := sh(t, "exec cat /dev/zero").run(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "printed over 64 MiB") {
		t.Errorf("%v", err)
	}
}

// TestCanceledCommandEndsItsChildren: a program's child processes end with it.
func TestCanceledCommandEndsItsChildren(t *testing.T) {
	processtest.Leaks(t)
	p := sh(t, "(trap '' INT TERM; touch started; sleep 3600) & wait")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { _, err := p.run(ctx); ended <- err }()
	await(t, func() bool { _, err := os.Stat(filepath.Join(p.dir, "started")); return err == nil })
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
