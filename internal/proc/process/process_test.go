//go:build unix

package process

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/internal/testing/processtest"
)

func TestStartGivesExactlyWhatWasAsked(t *testing.T) {
	processtest.Leaks(t)
	dir := t.TempDir()
	args := []string{"-rf", "a b", `"; rm -rf /`, "$(id)", "*", "", "ü"}
	c := start(t, "args; cwd", func(s *Spec) {
		s.Args = args
		s.Dir = dir
	})
	got := strings.Split(strings.TrimSuffix(c.rest(), "\n"), "\n")
	want := append(append([]string{self(t)}, args...), dir)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("argv and cwd (-want +got):\n%s", diff)
	}
	if exit := c.ended(); !exit.Success() {
		t.Errorf("exit: %v", exit)
	}
}

func self(t *testing.T) string {
	path, _ := processtest.Script(t, "")
	return path
}

func TestNilEnvIsEmpty(t *testing.T) {
	processtest.Leaks(t)
	t.Setenv("EXTHOST_TEST_CANARY", "leaked")
	c := start(t, "env", nil)
	if got, want := c.rest(), strings.Join(processtest.Env("env"), "\n")+"\n"; got != want {
		t.Errorf("environment of the child: %q, want %q", got, want)
	}
}

func TestExit(t *testing.T) {
	processtest.Leaks(t)
	for _, tt := range []struct{ script, want string }{
		{"exit 0", "exit status 0"},
		{"exit 3", "exit status 3"},
		{"kill 9", "killed by SIGKILL, which the host did not send"},
		{"kill 15", "killed by SIGTERM, which the host did not send"},
		{"no-such-verb", "exit status 99"},
	} {
		if got := start(t, tt.script, nil).ended().String(); got != tt.want {
			t.Errorf("%q: %s, want %s", tt.script, got, tt.want)
		}
	}
}

// With StdoutToStderr, the lines of both streams arrive in order.
func TestStdoutToStderr(t *testing.T) {
	processtest.Leaks(t)
	var lines []string
	path, env := processtest.Script(t, `out one; err two; out three`)
	p, err := Start(t.Context(),
		Spec{Path: path, Env: env, StdoutToStderr: true, StderrLine: func(l Line) { lines = append(lines, l.Text) }})
	if err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	want := []string{"one", "two", "three"}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, p.Tail()); diff != "" {
		t.Errorf("tail (-want +got):\n%s", diff)
	}
	if p.Stdout != nil {
		t.Error("there is a stdout that nothing comes from")
	}
	if _, err := Start(t.Context(), Spec{Path: path + "-missing", StdoutToStderr: true}); err == nil {
		t.Error("started what does not exist")
	}
}

// Output written before the exit can be read, whatever the exit.
func TestLastOutputIsNotLost(t *testing.T) {
	processtest.Leaks(t)
	for range 20 {
		c := start(t, `raw early\nlast words; out answer; kill 9`, nil)
		c.ended()
		if diff := cmp.Diff([]string{"early", "last words"}, c.Tail()); diff != "" {
			t.Fatalf("tail (-want +got):\n%s", diff)
		}
		if got := c.rest(); got != "answer\n" {
			t.Fatalf("stdout after death: %q", got)
		}
	}
}

func TestChildThatIgnoresTermIsKilled(t *testing.T) {
	processtest.Leaks(t)
	c := start(t, "ignore; fork ignore, out ready, hang; hang", nil)
	c.expect("ready")
	if err := c.Stop(t.Context(), time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if got := c.ended().String(); got != "killed by SIGKILL" {
		t.Error(got)
	}
	c.rest() // ends, as the grandchild has ended too
}

func TestTermComesBeforeKill(t *testing.T) {
	processtest.Leaks(t)
	c := start(t, "out ready; hang", nil)
	c.expect("ready")
	if err := c.Stop(t.Context(), time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if exit := c.ended(); exit.Signal != "SIGTERM" {
		t.Errorf("exit: %v", exit)
	}
}

func TestPromptExitEndsStop(t *testing.T) {
	processtest.Leaks(t)
	c := start(t, "out ready; eof; exit 7", nil)
	c.expect("ready")
	if err := c.Stop(t.Context(), time.Hour); err != nil { // longer than the test may take
		t.Fatal(err)
	}
	if exit := c.ended(); exit.Code != 7 {
		t.Errorf("exit: %v", exit)
	}
	if err := c.Stop(canceled(), time.Hour); err != nil {
		t.Errorf("second Stop: %v", err)
	}
}

func TestEndedContextKillsAtOnce(t *testing.T) {
	processtest.Leaks(t)
	c := start(t, "ignore; out ready; hang", nil)
	c.expect("ready")
	if err := c.Stop(canceled(), time.Hour); err != nil {
		t.Fatal(err)
	}
	if exit := c.ended(); exit.Signal != "SIGKILL" {
		t.Errorf("exit: %v", exit)
	}
}

func TestNoChildAfterCancel(t *testing.T) {
	processtest.Leaks(t)
	path, env := processtest.Script(t, "hang")
	p, err := Start(canceled(), Spec{Path: path, Env: env})
	if p != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("Start with an ended context: %v, %v", p, err)
	}
}

func TestBlockedWriteEndsWithTheChild(t *testing.T) {
	processtest.Leaks(t)
	c := start(t, "out ready; hang", nil)
	c.expect("ready")
	wrote := make(chan error)
	go func() {
		_, err := c.Stdin.Write(make([]byte, 1<<20))
		wrote <- err
	}()
	c.Kill()
	if err := <-wrote; err == nil {
		t.Error("1 MiB was written to a child that reads nothing")
	}
	c.ended()
}

func TestStdoutClosedIsNotDeath(t *testing.T) {
	processtest.Leaks(t)
	c := start(t, "close; eof; exit 5", nil)
	if got := c.rest(); got != "" {
		t.Errorf("stdout: %q", got)
	}
	select {
	case <-c.Done():
		t.Fatal("a child that closed stdout is taken for dead")
	default:
	}
	c.Stdin.Close()
	if exit := c.ended(); exit.Code != 5 {
		t.Errorf("exit: %v", exit)
	}
}

// All methods at once while the child exits by itself: none may block or signal another process. Mostly for the race
// detector.
func TestConcurrentEnds(t *testing.T) {
	processtest.Leaks(t)
	var wg sync.WaitGroup
	for range 8 {
		c := start(t, "err hello; out ready; eof", nil)
		c.expect("ready")
		for _, f := range []func(){
			func() { c.Kill() },
			func() { c.Stdin.Close() },
			func() { c.Tail() },
			func() {
				if err := c.Stop(context.Background(), time.Minute); err != nil {
					t.Error(err)
				}
			},
		} {
			wg.Go(f)
		}
	}
	wg.Wait()
}

func TestDeliveredBeforeDone(t *testing.T) {
	processtest.Leaks(t)
	var got bytes.Buffer
	c := start(t, `flood 100 I! line\n; err end`, func(s *Spec) {
		s.StderrLine = func(l Line) { got.WriteString(l.Text + "\n") }
	})
	c.ended()
	if want := strings.Repeat("line\n", 100) + "end\n"; got.String() != want {
		t.Errorf("got %q", got.String())
	}
}
